import { type Check, fail, ok, warn } from "./check.ts";

export const schema: Check = {
  name: "schema",
  run({ config: { data }, folder, database }) {
    if (!database) return ok("none yet");
    const latest = folder.latestSchema();
    if (database.schema > latest) {
      return fail(`${database.schema}, this errand knows up to ${latest}`, "use the newer errand");
    }
    folder.migrations(data); // throws when an applied step has another text
    if (database.schema < latest) {
      return warn(
        `${database.schema} of ${latest}`,
        "the next start brings it up to date, after a backup; or: errand migrate up",
      );
    }
    return ok(String(database.schema));
  },
};
