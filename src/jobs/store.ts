import type { JobRow, Lane, Lease } from "./job.ts";

export type Waiting = { tenant: string; key: string };

/** A job that runs on record and in nobody's hands. */
export type Orphan = Lease & Waiting & { lane: Lane };

export type JobStore = {
  insert(jobs: JobRow[]): Promise<void>;
  /** Takes up to `count` due jobs of each key, oldest first; each comes back running, one attempt up. */
  claim(wanted: { lane: Lane; key: string; count: number }[], owner: string, now: number): Promise<JobRow[]>;
  /** Ends a running job. False: it is not running under this attempt any more. */
  finish(lease: Lease): Promise<boolean>;
  /** Puts a running job back, due at `at`. */
  release(lease: Lease, at: number, reason: string): Promise<boolean>;
  /** Puts running jobs back untouched: a shutdown that would not wait for them. */
  requeue(leases: Lease[]): Promise<void>;
  /** Running jobs of the lanes that `owner` did not claim, by id, past `after`. */
  orphans(range: { lanes: Lane[]; owner: string; after: string; count: number }): Promise<Orphan[]>;
  /**
   * Of a start, when the instance lock proves them orphans: all are ready again, but for those whose kind has
   * a limit of crashes and that reached it. They are dead, and returned until buried, those of earlier starts too.
   */
  recover(
    orphans: Lease[],
    limits: Record<string, number>,
    now: number,
  ): Promise<{ recovered: number; dead: JobRow[] }>;
  /** Forgets a dead job, after what it worked was ended. */
  bury(id: string): Promise<void>;
  /** Every key with ready work, due or not. */
  waitingKeys(lane: Lane): Promise<Waiting[]>;
  /** Keys with work that fell due after `since` and until `now`, at most `limit`. */
  dueKeys(lane: Lane, since: number, now: number, limit: number): Promise<Waiting[]>;
  /** Every key with work that is due. */
  allDueKeys(lane: Lane, now: number): Promise<Waiting[]>;
  /** When the next job that is not due yet falls due. */
  nextDue(lane: Lane, now: number): Promise<number | undefined>;
  /** Where the job of `ref` waits; undefined when none does. */
  waitingOf(ref: string): Promise<(Waiting & { lane: Lane }) | undefined>;
  /** How many due jobs of the key wait, counted up to `most`. */
  due(lane: Lane, key: string, now: number, most: number): Promise<number>;
  counts(): Promise<{ lane: Lane; state: string; count: number }[]>;
};
