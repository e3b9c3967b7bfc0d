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
  /** The execution whose step started this one, that step, and whether it waits for the end. */
  parent_id: string | null;
  parent_position: string | null;
  parent_waits: number;
  /** How many executions stand above this one. */
  depth: number;
  /** What this one is a retry or a replay of. */
  origin_id: string | null;
  deadline_at: number | null;
  /** What respond_to_webhook answered: JSON of {status, headers, body}. */
  response: string | null;
};

/** waiting: for a time, a caller or another execution. cancelled: the run ended without it. */
export type StepState = "started" | "retrying" | "waiting" | "success" | "failed" | "skipped" | "cancelled";

export type StepRow = {
  execution_id: string;
  /** Where in the definition: "0", "2.then.0", "3.items.17.0". */
  position: string;
  /** Of the workflow's own node that it is, or is inside of. */
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
  /** Of a step that waits: when it goes on at the latest. */
  wake_at: number | null;
  /** Grows with every change within an execution: who follows a run asks for what is newer. */
  rev: number;
};

export type WaitRow = {
  id: string;
  execution_id: string;
  position: string;
  /** Sealed. */
  token: string;
  /** JSON: what the caller sent. */
  signal: string | null;
  signalled_at: number | null;
  created_at: number;
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
  response: string | null;
  outbox: Outbox[];
};

export type ExecutionEnd = Spent & {
  state: "success" | "failed";
  output: string | null;
  error: string | null;
  started_at: number;
  ended_at: number;
  steps: StepRow[];
  response: string | null;
  /** Steps may be left without an end: they are ended with the run. */
  hasLoose: boolean;
};

/** An execution and the job that will run it. */
export type Queued = { execution: ExecutionRow; job: JobRow };

export type ExecutionStore = {
  /**
   * Execution, job, events and the claim of the idempotency key: all, or nothing when the key is known, or
   * when the parent's step has started an execution before. One that has ended already comes with its end
   * in place of a job; `steps` are those of another execution that this one goes on from.
   */
  accept(accepting: {
    execution: ExecutionRow;
    job?: JobRow;
    end?: ExecutionEnd;
    next?: Queued;
    steps?: StepRow[];
    outbox: Outbox[];
    idempotency?: IdempotencyClaim & { status: number; response: string };
  }): Promise<ClaimOutcome | { outcome: "exists" }>;
  /**
   * Marks a step with an effect as under way, so that a restart knows that it may have happened. This and
   * the three below also take a queued or waiting execution to running; `started_at` counts the first time.
   */
  mark(marking: {
    lease: Lease;
    steps: StepRow[];
    started_at: number;
    outbox: Outbox[];
    durable: boolean;
  }): Promise<boolean>;
  /** A mark of a step that waits for a caller, with the address it waits at; the one there is, if it has one. */
  openWait(opening: {
    lease: Lease;
    wait: WaitRow;
    steps: StepRow[];
    started_at: number;
    outbox: Outbox[];
  }): Promise<WaitRow | undefined>;
  wait(id: string): Promise<WaitRow | undefined>;
  waitOf(execution_id: string, position: string): Promise<WaitRow | undefined>;
  /** The call that a wait was for; the run goes on. False: it was called before, or its run has ended. */
  signal(calling: { id: string; signal: string; at: number }): Promise<boolean>;
  /** Finished steps, durable before the run goes on. False: the job was taken away (cancelled). */
  checkpoint(saving: Progress): Promise<boolean>;
  /**
   * Steps so far, and the job put back until `at`; holds no memory meanwhile. Answers when it is due: at
   * once, where what it waits for has come meanwhile. Undefined: the job was taken away.
   */
  suspend(suspending: Progress & { at: number; now: number; reason: string }): Promise<number | undefined>;
  /**
   * The end, what follows from it and the job's end in one: a parent that waits is woken, `next` is queued.
   * False: someone else ended it first.
   */
  finish(
    end: ExecutionEnd & {
      id: string;
      workflow_id: string;
      parent_id: string | null;
      lease: Lease;
      outbox: Outbox[];
      next?: Queued;
    },
  ): Promise<boolean>;
  /** Ends an unfinished execution from outside, and its job. False: it had ended already. */
  stop(stopping: {
    id: string;
    state: "cancelled" | "failed";
    error: string;
    ended_at: number;
    outbox: Outbox[];
    next?: Queued;
  }): Promise<boolean>;
  get(id: string): Promise<ExecutionRow | undefined>;
  /** What a step started; `key` is its position, and its attempt past the first. */
  child(parent_id: string, key: string): Promise<ExecutionRow | undefined>;
  /** Executions that have not ended and that a step of this one waits for. */
  waitedFor(parent_id: string): Promise<ExecutionRow[]>;
  /** By the workflow's own nodes; with `after`, those that changed since that revision, in the order they did. */
  steps(id: string, after?: number): Promise<StepRow[]>;
};

/** Whose executions: all of a project, or those of one of its workflows. */
export type Owner = { project_id: string; workflow_id?: string };
export type ExecutionFilter = Window & { state?: ExecutionState; source?: string };

export type ExecutionListStore = {
  /** Newest first, in bounded time whatever there is and whatever is asked for. */
  list(owner: Owner, filter: ExecutionFilter): Promise<Stretch<ExecutionRow>>;
  /** How many there are by state and time; undefined where there are more than are worth counting. */
  count(owner: Owner, filter: ExecutionFilter): Promise<number | undefined>;
};
