import { bytes } from "../../lib/terminal.ts";
import { type Check, ok, warn } from "./check.ts";

const LARGE_BYTES = 256 * 1_048_576;

export const logSize: Check = {
  name: "write-ahead log",
  run({ database }) {
    if (!database) return ok("none yet");
    if (database.log_bytes < LARGE_BYTES) return ok(bytes(database.log_bytes));
    return warn(
      `${bytes(database.log_bytes)}: something reads the database without end`,
      "look for an open sqlite3 or copy of it; a restart empties it",
    );
  },
};
