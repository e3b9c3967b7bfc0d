import { hostname } from "node:os";
import { type Check, ok, warn } from "./check.ts";

export const lock: Check = {
  name: "in use by",
  run({ holder }) {
    if (!holder) return ok("nobody");
    if (holder.pid === null) return warn("another process that does not say who it is");
    if (holder.host !== hostname()) {
      return warn(
        `process ${holder.pid} on ${holder.host}`,
        "a data folder shared between machines is not safe",
      );
    }
    return ok(`process ${holder.pid}, version ${holder.version}, since ${holder.started_at}`);
  },
};
