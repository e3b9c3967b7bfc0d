import { accessSync, constants, statSync } from "node:fs";
import { type Check, fail, ok, warn } from "./check.ts";

export const dataFolder: Check = {
  name: "data folder",
  run({ config: { data } }) {
    const found = statSync(data, { throwIfNoEntry: false });
    if (!found) return warn(`${data} does not exist yet`, "errand serve makes it");
    if (!found.isDirectory()) return fail(`${data} is no folder`, "name another with --data");
    try {
      accessSync(data, constants.R_OK | constants.W_OK | constants.X_OK);
    } catch {
      return fail(`${data} is not writable by this user`, `chown it to the user that runs errand`);
    }
    // Windows has no such bits.
    if (process.platform !== "win32" && (found.mode & 0o077) !== 0) {
      return warn(`${data} is open to other users of this machine`, `chmod 700 ${data}`);
    }
    return ok(data);
  },
};
