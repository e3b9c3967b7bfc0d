import type { Cancel } from "../lib/cancel.ts";

/** A lane is a budget of work in flight, so that one sort of work cannot take another's room. */
export type Lane = "runs" | "turns" | "deliveries" | "timers";

/** A row that the runner works. `tenant` shares the lane round robin; `key` is what `per_key` counts. */
export type JobRow = {
  id: string;
  lane: Lane;
  kind: string;
  tenant: string;
  key: string;
  ref: string;
  state: "ready" | "running";
  run_at: number;
  attempt: number;
  crashes: number;
  created_at: number;
};

/**
 * Proof of holding a job: results under an older attempt change nothing. `unstored`: the job has no row, and
 * the state of what it works is the proof.
 */
export type Lease = { id: string; attempt: number; unstored?: true };

/**
 * How a run of a job ended.
 *
 * `settled`: its own store operation ended the job, or put it back until `due`, in the same commit as
 * its result (the rule for everything that has a result). The others are carried out by the runner.
 */
export type Fate =
  | { kind: "settled"; due?: number }
  | { kind: "done" }
  | { kind: "retry"; at: number; reason: string };

export const settled: Fate = { kind: "settled" };
export const settledUntil = (due: number): Fate => ({ kind: "settled", due });
export const done: Fate = { kind: "done" };
export const retry = (reason: string, at: number): Fate => ({ kind: "retry", at, reason });

/** How often there was any, and whom to tell of more; the answer ends the telling. */
export type News = { count(): number; listen(hear: () => void): () => void };

export type JobRun = {
  lease: Lease;
  /** Counts from 1; crashes and retries included. */
  attempt: number;
  /** Aborted by cancellation and by a shutdown that ran out of patience; made when first asked for. */
  readonly signal: AbortSignal;
  /** The same for whoever only wants to be told, without making a signal. */
  readonly cancel: Cancel;
  isAborted(): boolean;
  /** Of what made the job due again while it was under way. */
  news: News;
  /** What it does is done and only its record is missing: its slot is for the next, where not too many do so. */
  leave(): void;
  /** How many answers from elsewhere it waits for now; a job that never says is taken to wait at all times. */
  elsewhere?: number;
  /** What the placer already had in memory; absent after a restart or a wait. */
  payload?: unknown;
};

export type JobKind = {
  kind: string;
  lane: Lane;
  /** Most in flight of one key; a function where that changes with what happens. */
  per_key: number | ((key: string) => number);
  /**
   * Whether jobs of the key end soon, as far as is known. While a lane is crowded, the last quarter of it is
   * theirs, so that whoever keeps its slots for long cannot keep the others out. Undefined: all do.
   */
  isProven?: (key: string) => boolean;
  /** Crashes of the program with this job under way before it is given up; undefined: never. */
  crash_limit?: number;
  run(ref: string, run: JobRun): Promise<Fate>;
  unstored?: Unstored;
  /** Told once when the job is given up (crash loop); ends what `ref` names with `reason`. */
  dead?(ref: string, reason: string): Promise<void>;
};

/**
 * For kinds whose work says by its own state that it is under way: what starts from memory, or waits there for
 * its turn, needs no row in the queue, and gets one only if it has to wait for a time.
 */
export type Unstored = {
  /** Puts down the row of a job that is worked again at `at`, unless its work is over. */
  putDown(job: JobRow, at: number, reason: string): Promise<void>;
  /** At start: what an earlier life left under way without a row, as `ref` names it. */
  orphans(): Promise<string[]>;
  /** Puts rows down for them, due now; how many. */
  takeOver(refs: string[], now: number): Promise<number>;
};

export const defineJob = (kind: JobKind): JobKind => kind;
