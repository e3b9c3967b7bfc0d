/** What a process's memory is made of, and what its threads used: both as Linux counts them. */
import { readdirSync, readFileSync } from "node:fs";

/** MB that are in memory, by what they hold. */
export type Resident = Record<string, number>;

const HEADER = /^[0-9a-f]+-[0-9a-f]+ (\S+) \S+ \S+ (\d+) *(.*)$/;

/** Of `/proc/PID/smaps`; `executable` is the path of the program. */
export function residentOf(smaps: string, executable: string): Resident {
  const sum: Resident = {};
  let kind = "";
  for (const line of smaps.split("\n")) {
    const header = HEADER.exec(line);
    if (header) kind = kindOf(header[1]!, Number(header[2]), header[3]!, executable);
    const pages = /^Rss: +(\d+) kB/.exec(line);
    if (pages) sum[kind] = (sum[kind] ?? 0) + Number(pages[1]) / 1_024;
  }
  return sum;
}

function kindOf(rights: string, inode: number, path: string, executable: string): string {
  if (path === executable) return rights.includes("x") ? "the executable: code" : "the executable: data";
  if (path.startsWith("[stack")) return "stacks";
  if (inode === 0)
    return rights.includes("x") ? "code compiled as it runs" : "heaps (JavaScript, SQLite, buffers)";
  return /\.db(-\w+)?$/.test(path) ? "the database, mapped" : "libraries of the system";
}

export type ThreadCost = { name: string; user_us: number; system_us: number };

const TICK_US = 10_000;

/** CPU of each thread so far; those of one name together, the first of the process as `main`. */
export function threads(pid: number): Map<string, ThreadCost> {
  const found = new Map<string, ThreadCost>();
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, "utf8");
    const end = stat.lastIndexOf(")");
    const name =
      Number(thread) === pid ? "main" : stat.slice(stat.indexOf("(") + 1, end).replace(/[ #-]*\d+$/, "");
    const fields = stat.slice(end + 2).split(" ");
    const cost = found.get(name) ?? { name, user_us: 0, system_us: 0 };
    cost.user_us += Number(fields[11]) * TICK_US;
    cost.system_us += Number(fields[12]) * TICK_US;
    found.set(name, cost);
  }
  return found;
}
