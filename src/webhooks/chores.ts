import type { Chore } from "../jobs/maintenance.ts";
import type { Clock } from "../lib/clock.ts";
import { HOUR_MS } from "../lib/histogram.ts";
import type { DeliveryStore } from "./store.ts";

// A day more than can be asked for.
const KEPT_HOURS = 8 * 24;
const SLICE = 500;

/** Drops the figures of hours that nobody can ask for any more, in slices: a big delete would hold up the writer. */
export const forgetFigures = ({
  store,
  clock,
}: {
  store: Pick<DeliveryStore, "forgetFigures">;
  clock: Clock;
}): Chore => ({
  name: "forget delivery figures",
  pattern: "23 * * * *",
  async run() {
    const before = clock.now() - KEPT_HOURS * HOUR_MS;
    while ((await store.forgetFigures(before, SLICE)) === SLICE);
  },
});
