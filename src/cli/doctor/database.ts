import { bytes } from "../../lib/terminal.ts";
import { type Check, fail, ok } from "./check.ts";

export const database: Check = {
  name: "database",
  run({ config: { data }, folder, database: found }) {
    if (!found) return ok("none yet");
    const faults = folder.check(data);
    if (faults.length > 0)
      return fail(
        `${found.path}: ${faults[0]}`,
        "stop the server and restore a backup: errand restore FILE --force",
      );
    const rows = Object.values(found.rows).reduce((sum, one) => sum + one, 0);
    return ok(`sound, ${bytes(found.bytes)}, ${rows} rows`);
  },
};
