import { isAbsolute, relative } from "node:path";

/** The program as the reader can type it where they are. */
export function selfName(): string {
  if (!Bun.isStandaloneExecutable) return "errand";
  const typed = process.argv0;
  if (typed && !isAbsolute(typed)) return typed;
  const near = relative(process.cwd(), process.execPath);
  return near.startsWith("..") ? process.execPath : `./${near}`;
}
