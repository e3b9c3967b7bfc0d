import { spawnSync } from "node:child_process";
import { join } from "node:path";

/** Why the shim cannot be had here; undefined when it can. It needs Linux with glibc and a C compiler. */
export function shimMissing(): string | undefined {
  if (process.platform !== "linux") return "needs Linux";
  return compiler() ? undefined : "needs a C compiler (cc)";
}

const compiler = () => ["cc", "gcc", "clang"].find((name) => Bun.which(name));

/** Compiles a shim into a folder; answers the path to preload. */
export function buildShim(
  folder: string,
  name: "disk-shim" | "time-shim" | "call-shim" = "disk-shim",
): string {
  const library = join(folder, `${name}.so`);
  const source = join(import.meta.dir, `${name}.c`);
  const made = spawnSync(compiler() ?? "cc", ["-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"]);
  if (made.status !== 0) throw new Error(`the shim does not compile: ${made.stderr}`);
  return library;
}

export type DiskRecord =
  | { op: "write"; path: string; offset: number; data: Buffer }
  | { op: "truncate"; path: string; length: number }
  | { op: "sync"; path: string }
  | { op: "acknowledgement"; id: string };

/** Reads what the shim wrote down, in order; a record that a kill cut short is left out. */
export function readRecords(log: Buffer): DiskRecord[] {
  const records: DiskRecord[] = [];
  for (let at = 0; at + 20 <= log.length; ) {
    const op = log.readUInt32LE(at);
    const pathLength = log.readUInt32LE(at + 4);
    const offset = Number(log.readBigUInt64LE(at + 8));
    const length = log.readUInt32LE(at + 16);
    const dataAt = at + 20 + pathLength;
    if (dataAt + length > log.length) break;
    const path = log.toString("utf8", at + 20, dataAt);
    const data = log.subarray(dataAt, dataAt + length);
    if (op === 1) records.push({ op: "write", path, offset, data });
    else if (op === 2) records.push({ op: "sync", path });
    else if (op === 3) records.push({ op: "truncate", path, length: offset });
    else records.push({ op: "acknowledgement", id: data.toString("latin1") });
    at = dataAt + length;
  }
  return records;
}
