import { bytes } from "../../lib/terminal.ts";
import { type Check, fail, ok } from "./check.ts";

const RESTORE = "stop the server and restore a backup: errand restore FILE --force";

export const database: Check = {
  name: "database",
  run({ config: { data }, folder, database: found, unreadable }) {
    if (unreadable) return fail(unreadable, RESTORE);
    if (!found) return ok("none yet");
    const faults = folder.check(data);
    if (faults.length > 0) return fail(`${found.path}: ${faults[0]}`, RESTORE);
    const rows = Object.values(found.rows).reduce((sum, one) => sum + one, 0);
    return ok(`sound, ${bytes(found.bytes)}, ${rows} rows`);
  },
};
