import type { AlertStore } from "../alerts/store.ts";
import type { Chore } from "../jobs/maintenance.ts";
import type { Clock } from "../lib/clock.ts";
import { HOUR_MS } from "../lib/histogram.ts";
import type { DeliveryStore } from "./store.ts";

const DAY_MS = 86_400_000;
const KEPT_ALERT_DAYS = 90;
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

/** Drops what owners were told a quarter of a year ago. */
export const forgetAlerts = ({
  store,
  clock,
}: {
  store: Pick<AlertStore, "forget">;
  clock: Clock;
}): Chore => ({
  name: "forget alerts",
  pattern: "41 4 * * *",
  async run() {
    const before = clock.now() - KEPT_ALERT_DAYS * DAY_MS;
    while ((await store.forget(before, SLICE)) === SLICE);
  },
});
