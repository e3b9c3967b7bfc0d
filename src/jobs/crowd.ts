import type { ActiveJob } from "./active-job.ts";
import type { Capacity, LaneState } from "./lane.ts";

/**
 * A job that has waited for somebody else for a while gives its slot to one that waits for a slot: a hanging
 * receiver costs a connection and no turn. At most so many of each lane.
 */
const MOST_ASIDE: Capacity = { runs: 2_048, turns: 0, deliveries: 2_048, timers: 0 };

export const mayPutAside = (lane: LaneState): boolean => lane.aside < MOST_ASIDE[lane.name];

/** One look at a crowded lane: a job that is found under way at two of them is one that waits. */
export function putAside(lane: LaneState, active: Iterable<ActiveJob>): void {
  for (const job of active) {
    if (job.row.lane !== lane.name || job.hasLeft || !mayPutAside(lane)) continue;
    if (job.found !== "aside" && job.elsewhere === 0) job.found = "not yet";
    else if (job.found === "once") {
      job.found = "aside";
      lane.aside++;
      lane.inFlight--;
    } else if (job.found === "not yet") job.found = "once";
  }
}
