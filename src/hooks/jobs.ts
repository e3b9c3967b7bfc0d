import type { Chore } from "../jobs/maintenance.ts";
import type { Clock } from "../lib/clock.ts";
import type { IdempotencyStore } from "./store.ts";

const SLICE = 500;

/** Forgets expired idempotency claims, in slices, so that no commit waits behind a long delete. */
export const forgetClaims = ({ store, clock }: { store: IdempotencyStore; clock: Clock }): Chore => ({
  name: "idempotency",
  pattern: "*/10 * * * *",
  async run() {
    while ((await store.prune(clock.now(), SLICE)) === SLICE);
  },
});
