import { join } from "node:path";
import { BINARY, type Errand, run } from "../../lib/errand.ts";

/** What an operator does beside the server, in the middle of a round. */
export const ADMINISTRATION = ["backup", "prune", "rotation", "key", "agent", "nothing"] as const;
export type Administration = (typeof ADMINISTRATION)[number];

/** How often each was acknowledged, and how often cut off. */
export type Tally = Partial<Record<Administration, { done: number; cut: number }>>;

/** What was acknowledged of it all, to be asked for at the end. */
export type Done = {
  keys: Set<string>;
  agents: Set<string>;
  backups: Set<string>;
  /** What the secret may be: one, or after a rotation that was not answered any. */
  secret: string | "unknown" | undefined;
};

export const nothingDone = (): Done => ({
  keys: new Set(),
  agents: new Set(),
  backups: new Set(),
  secret: undefined,
});

/** Begins it; `answer` is what was acknowledged of it, undefined when it was cut off. */
export function administer(
  what: Administration,
  { errand, data, webhook }: { errand: Errand; data: string; webhook: string },
): { answer: Promise<string | undefined>; kill(): void } {
  if (what === "nothing") return { answer: Promise.resolve(undefined), kill: () => {} };
  if (what === "rotation") {
    const path = `/api/v1/webhooks/${webhook}/secret/rotate`;
    const answer = errand.api<{ secret: string }>("POST", path).then(
      ({ status, body }) => (status === 200 ? body.secret : undefined),
      () => undefined,
    );
    return { answer, kill: () => {} };
  }
  const file = join(data, `backup-${crypto.randomUUID()}.db`);
  const words = {
    backup: ["backup", "create", file],
    prune: ["prune", "--older-than", "30d", "--json"],
    key: ["keys", "create", "--name", "mixed", "--json"],
    agent: ["agents", "create", "--name", "mixed", "--json"],
  }[what];
  const child = Bun.spawn([BINARY, ...words, "--data", data], {
    env: { PATH: process.env["PATH"] ?? "", HOME: data },
    stdout: "pipe",
    stderr: "ignore",
  });
  const answer = Promise.all([new Response(child.stdout).text(), child.exited]).then(([text, code]) => {
    if (code !== 0) return undefined;
    if (what === "backup") return file;
    return what === "prune" ? "pruned" : (JSON.parse(text) as { id: string }).id;
  });
  return { answer, kill: () => child.kill("SIGKILL") };
}

/** Notes what came of it. */
export function note(what: Administration, answer: string | undefined, done: Done, tally: Tally): void {
  if (what === "nothing") return;
  const count = tally[what] ?? { done: 0, cut: 0 };
  tally[what] = count;
  if (answer === undefined) count.cut++;
  else count.done++;
  // Asked and not answered: it may have come about or not.
  if (what === "rotation") done.secret = answer ?? "unknown";
  if (answer === undefined) return;
  if (what === "key") done.keys.add(answer);
  if (what === "agent") done.agents.add(answer);
  if (what === "backup") done.backups.add(answer);
}

/** What of all that was acknowledged is not there. */
export async function missingOf(errand: Errand, done: Done, webhook: string): Promise<string[]> {
  const lost: string[] = [];
  for (const id of done.keys)
    if ((await errand.api("GET", `/api/keys/${id}`)).status !== 200) lost.push("a key");
  for (const id of done.agents)
    if ((await errand.api("GET", `/api/agents/${id}`)).status !== 200) lost.push("an agent");
  for (const file of done.backups)
    if ((await run(["backup", "verify", file])).code !== 0) lost.push("a backup");
  const { body } = await errand.api<{ secret: string }>("GET", `/api/v1/webhooks/${webhook}/secret`);
  if (done.secret !== undefined && done.secret !== "unknown" && body.secret !== done.secret)
    lost.push("a rotation");
  return lost;
}
