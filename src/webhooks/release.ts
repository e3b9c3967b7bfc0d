import { DELIVERY_JOB } from "../events/kinds.ts";
import { defineJob, type JobKind, settled } from "../jobs/job.ts";
import type { NewJob } from "../jobs/placement.ts";
import type { Runner } from "../jobs/runner.ts";
import { newId } from "../lib/ids.ts";
import type { DeliveryStore } from "./store.ts";

export const RELEASE_JOB = "webhook.release";

const SLICE = 200;

/**
 * Sets on its way what was kept for a subscription while it was paused, or stood in its line: oldest first,
 * in slices, so that a hundred thousand of them hold up nobody else's writes. A pause in between ends it, and
 * what is left waits for the next resume.
 */
export function releaseDeliveries(deps: {
  store: Pick<DeliveryStore, "release">;
  runner: Pick<Runner, "place" | "committed">;
}): JobKind {
  const { store, runner } = deps;
  return defineJob({
    kind: RELEASE_JOB,
    lane: "timers",
    per_key: 1,
    async run(subscription_id, job) {
      for (;;) {
        const placements = Array.from({ length: SLICE + 1 }, () => {
          const delivery: NewJob = { tenant: "", key: subscription_id, ref: newId(), waits: true };
          return runner.place(DELIVERY_JOB, delivery);
        });
        const jobs = placements.map(({ row }) => row);
        const { more } = await store.release({ lease: job.lease, subscription_id, jobs });
        // One is enough to have the runner look at what is due.
        runner.committed(placements.slice(0, 1));
        if (!more) return settled;
        if (job.isAborted()) throw new Error("the release goes on at the next start");
      }
    },
  });
}
