import { fire } from "../../lib/hook-load.ts";

/**
 * Clients in a process of their own, so that their work delays nobody who measures: they start runs until the
 * program is gone. `acknowledged` then has what they were told.
 */
export function clientsApart(hook: string, count: number): { acknowledged: Promise<Set<string>> } {
  const child = Bun.spawn([process.execPath, import.meta.filename, hook, String(count)], {
    stdout: "pipe",
    stderr: "inherit",
  });
  return { acknowledged: new Response(child.stdout).json().then((ids) => new Set(ids as string[])) };
}

if (import.meta.main) {
  const [hook = "", count] = process.argv.slice(2);
  const acknowledged = new Set<string>();
  const never = new AbortController();
  await Promise.all(Array.from({ length: Number(count) }, () => fire(hook, acknowledged, never.signal)));
  process.stdout.write(JSON.stringify([...acknowledged]));
}
