import type { Chore } from "../jobs/maintenance.ts";
import type { Clock } from "../lib/clock.ts";
import type { Retention } from "./service.ts";

const DAY_MS = 86_400_000;

/** `days` 0: nothing is forgotten but what workflows ask for themselves. */
export const forgetHistory = ({
  retention,
  days,
  clock,
}: {
  retention: Retention;
  days: number;
  clock: Clock;
}): Chore => ({
  name: "retention",
  pattern: "17 * * * *",
  async run(signal) {
    await retention.prune({ before: days > 0 ? clock.now() - days * DAY_MS : undefined, signal });
    await retention.pruneDefinitions(signal);
    await retention.reclaim(signal);
  },
});
