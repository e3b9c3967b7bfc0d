import { bytes } from "../lib/terminal.ts";
import { type Call, configOf, text, withServices } from "./command.ts";
import { usageError } from "./exit.ts";
import { putJson, putList } from "./output.ts";

const UNITS: Record<string, number> = { h: 3_600_000, d: 86_400_000, w: 7 * 86_400_000 };

// A writer that finds the database taken looks again after up to a tenth of a second; without a rest between
// slices it would find it taken again and again.
const REST_MS = 20;

/** Forgets old history now, beside a running server or alone. */
export const prune = (call: Call) =>
  withServices(call, async ({ retention, clock }) => {
    const isDryRun = call.flags["dryRun"] === true;
    const age = ageOf(call);
    const before = age === undefined ? undefined : clock.now() - age;
    const pruned = await retention.prune({ before, isDryRun, rest_ms: REST_MS });
    const reclaimed = isDryRun ? 0 : await retention.reclaim(undefined, REST_MS);
    if (call.flags["json"]) return putJson(call.output, { ...pruned, reclaimed_bytes: reclaimed });
    putList(
      call,
      Object.entries(pruned),
      [
        { title: "KIND", value: ([kind]) => kind },
        { title: isDryRun ? "WOULD GO" : "GONE", value: ([, count]) => count },
      ],
      "",
    );
    call.output.words(isDryRun ? "nothing was deleted\n" : `${bytes(reclaimed)} given back to the disk\n`);
  });

/** `--older-than 30d`, else what is configured; undefined where history is kept for good. */
function ageOf(call: Call): number | undefined {
  const given = text(call.flags, "olderThan");
  if (given === undefined) {
    const { retention_days } = configOf(call).config;
    return retention_days > 0 ? retention_days * UNITS["d"]! : undefined;
  }
  const [, count, unit] = /^(\d{1,6})([hdw])$/.exec(given) ?? [];
  if (count === undefined || unit === undefined) {
    throw usageError(`--older-than ${given}: expected a number and h, d or w`, "such as --older-than 30d");
  }
  return Number(count) * UNITS[unit]!;
}
