import { existsSync, readFileSync } from "node:fs";
import { type Check, ok, warn } from "./check.ts";

const LIMITS = "/proc/self/limits";
// Every connection in and out is one; the lanes alone may hold some hundreds.
const COMFORTABLE = 4_096;

export const openFiles: Check = {
  name: "open files",
  run() {
    if (!existsSync(LIMITS)) return ok("not known on this system");
    const limit = /^Max open files\s+(\S+)/m.exec(readFileSync(LIMITS, "utf8"))?.[1];
    if (limit === undefined || limit === "unlimited") return ok("no limit");
    return Number(limit) < COMFORTABLE
      ? warn(`at most ${limit}`, `raise it: ulimit -n 65536, or LimitNOFILE= in the service`)
      : ok(`at most ${limit}`);
  },
};
