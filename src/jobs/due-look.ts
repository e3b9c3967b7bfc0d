import type { Clock } from "../lib/clock.ts";
import type { LaneState } from "./lane.ts";
import { STORE_RETRY_MS } from "./persist.ts";
import type { JobStore, Waiting } from "./store.ts";

const SWEEP_MS = 2_000;
// A sweep looks back this far: rows committed while the last sweep read, and small steps of the clock.
const OVERLAP_MS = 10_000;
// A row that another process put down, or one whose commit took long, may be due before a sweep's look.
const SEARCH_MS = 60_000;
const MOST_DUE_KEYS = 1_000;

/**
 * Finds jobs in the store as they fall due: one timer a lane for the next of them, and a sweep each few seconds for
 * what nobody told of. `found` is told of each key that has some, `swept` when a look is over.
 */
export function createDueLook(deps: {
  store: Pick<JobStore, "dueKeys" | "allDueKeys" | "nextDue">;
  clock: Clock;
  report(message: string, fields: Record<string, unknown>): void;
  /** Lanes that this process does not work are looked at when asked, never by a timer. */
  works(lane: LaneState): boolean;
  found(lane: LaneState, tenant: string, key: string): void;
  swept(lane: LaneState): void;
}) {
  const { store, clock, report, works, found, swept } = deps;
  let stopped = false;

  /** At the latest by the next sweep. */
  function lookAt(lane: LaneState, at: number): void {
    // It may be on disk only now, and a sweep have been past its time before: the next looks back to it.
    lane.swept = Math.min(lane.swept, at);
    if (stopped || at >= lane.timerAt || !works(lane)) return;
    lane.cancelTimer?.();
    lane.timerAt = at;
    lane.cancelTimer = clock.after(Math.min(Math.max(0, at - clock.now()), SWEEP_MS), () => {
      lane.timerAt = Number.POSITIVE_INFINITY;
      void sweep(lane);
    });
  }

  /** Keys with work that fell due since the last look; now and then all that have any. */
  async function dueKeys(lane: LaneState, now: number): Promise<Waiting[]> {
    if (Math.abs(now - lane.searched) >= SEARCH_MS) {
      lane.searched = now;
      return store.allDueKeys(lane.name, now);
    }
    const from = lane.swept;
    // Where the clock runs fast, minutes of it pass between a job's time and its commit.
    const since = clock.pace ? 0 : Math.min(from, now) - OVERLAP_MS;
    const due = await store.dueKeys(lane.name, since, now, MOST_DUE_KEYS);
    if (due.length < MOST_DUE_KEYS && lane.swept === from) lane.swept = now;
    return due;
  }

  async function sweep(lane: LaneState): Promise<void> {
    if (lane.sweeping || stopped) return;
    lane.sweeping = true;
    try {
      const now = clock.now();
      for (const { tenant, key } of await dueKeys(lane, now)) found(lane, tenant, key);
      const next = await store.nextDue(lane.name, now);
      lookAt(lane, Math.min(next ?? Number.POSITIVE_INFINITY, now + SWEEP_MS));
    } catch (error) {
      report("looking for due jobs failed", { lane: lane.name, error: String(error) });
      lookAt(lane, clock.now() + STORE_RETRY_MS);
    } finally {
      lane.sweeping = false;
    }
    swept(lane);
  }

  return {
    /** A job falls due at `at`. */
    lookAt,
    /** Looks now. */
    sweep,
    /** All that is due by now is known. */
    begin(lane: LaneState): Promise<void> {
      lane.swept = clock.now();
      lane.searched = lane.swept;
      return sweep(lane);
    },
    stop(lanes: Iterable<LaneState>): void {
      stopped = true;
      for (const lane of lanes) lane.cancelTimer?.();
    },
  };
}
