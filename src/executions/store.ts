import type { Outbox } from "../events/store.ts";
import type { ClaimOutcome, IdempotencyClaim } from "../hooks/store.ts";
import type { JobRow, Lease } from "../jobs/job.ts";
import type { Stretch, Window } from "../lib/feed.ts";

export type ExecutionState = "queued" | "running" | "waiting" | "success" | "failed" | "cancelled";

export type ExecutionRow = {
  id: string;
  workflow_id: string;
  workspace_id: string;
  project_id: string;
  definition_hash: string;
  state: ExecutionState;
  /** Who started it: what the caller called itself, else how it came in. */
  source: string;
  metadata: string;
  input: string;
  output: string | null;
  error: string | null;
  hop: number;
  external_calls: number;
  tokens: number;
  steps_completed: number;
  created_at: number;
  started_at: number | null;
  ended_at: number | null;
};

export type StepState = "started" | "retrying" | "success" | "failed" | "skipped";

export type StepRow = {
  execution_id: string;
  /** Where in the definition: "0", later "2.then.0" or "3.items.17.0". */
  position: string;
  seq: number;
  name: string;
  node_type_name: string;
  state: StepState;
  attempts: number;
  input: string | null;
  output: string | null;
  error: string | null;
  started_at: number;
  ended_at: number | null;
};

/** What a run has used up so far; credits are counted from it (design 3). */
export type Spent = { external_calls: number; tokens: number; steps_completed: number };

/** What a run has come to, stored before it goes on. */
export type Progress = {
  lease: Lease;
  id: string;
  started_at: number;
  spent: Spent;
  steps: StepRow[];
  outbox: Outbox[];
};

export type ExecutionEnd = Spent & {
  state: "success" | "failed";
  output: string | null;
  error: string | null;
  started_at: number;
  ended_at: number;
  steps: StepRow[];
};

export type ExecutionStore = {
  /**
   * Execution, job, events and the claim of the idempotency key: all, or nothing when the key is known.
   * One that has ended already comes with its end in place of a job.
   */
  accept(accepting: {
    execution: ExecutionRow;
    job?: JobRow;
    end?: ExecutionEnd;
    outbox: Outbox[];
    idempotency?: IdempotencyClaim & { status: number; response: string };
  }): Promise<ClaimOutcome>;
  /**
   * Marks a step with an effect as under way, so that a restart knows that it may have happened. This and
   * the three below also take a queued or waiting execution to running; `started_at` counts the first time.
   */
  mark(marking: {
    lease: Lease;
    step: StepRow;
    started_at: number;
    outbox: Outbox[];
    durable: boolean;
  }): Promise<boolean>;
  /** Finished steps, durable before the run goes on. False: the job was taken away (cancelled). */
  checkpoint(saving: Progress): Promise<boolean>;
  /** Steps so far, and the job put back until `at`; holds no memory meanwhile. */
  suspend(suspending: Progress & { at: number; reason: string }): Promise<boolean>;
  /** The end, what follows from it and the job's end in one. False: someone else ended it first. */
  finish(
    end: ExecutionEnd & { id: string; workflow_id: string; lease: Lease; outbox: Outbox[] },
  ): Promise<boolean>;
  /** Ends an unfinished execution from outside, and its job. False: it had ended already. */
  stop(stopping: {
    id: string;
    state: "cancelled" | "failed";
    error: string;
    ended_at: number;
    outbox: Outbox[];
  }): Promise<boolean>;
  get(id: string): Promise<ExecutionRow | undefined>;
  steps(id: string): Promise<StepRow[]>;
};

/** Whose executions: all of a workflow, or all of a project. */
export type Owner = { workflow_id: string } | { project_id: string };
export type ExecutionFilter = Window & { state?: ExecutionState; source?: string };

export type ExecutionListStore = {
  /** Newest first, in bounded time whatever there is and whatever is asked for. */
  list(owner: Owner, filter: ExecutionFilter): Promise<Stretch<ExecutionRow>>;
  /** How many there are by state and time; undefined where there are more than are worth counting. */
  count(owner: Owner, filter: ExecutionFilter): Promise<number | undefined>;
};
