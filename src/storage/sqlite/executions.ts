import type { Outbox } from "../../events/store.ts";
import type {
  ExecutionEnd,
  ExecutionRow,
  ExecutionStore,
  Progress,
  Queued,
  StepRow,
  WaitRow,
} from "../../executions/store.ts";
import type { ClaimOutcome, IdempotencyClaim } from "../../hooks/store.ts";
import type { JobRow, Lease } from "../../jobs/job.ts";
import type { Bind, Connection } from "./connection.ts";
import { insertOutbox } from "./events.ts";
import { claimIdempotency } from "./idempotency.ts";
import { finishJob, holdJob, insertJob, parkJob, runsJob, wakeJob } from "./jobs.ts";
import {
  endSteps,
  insideText,
  putStep,
  putStepValues,
  type StepValues,
  stepsOf,
  stepValues,
} from "./steps.ts";
import type { Storage } from "./storage.ts";

/**
 * The busiest operation of all: rows cross the threads as they are bound, which takes a third of the time that
 * objects by name take there and here.
 */
type Accepting = {
  /** The step of another execution that this one is for. */
  child?: [parent_id: string, key: string] | undefined;
  execution: [id: string, workflow_id: string, ...rest: Bind[]];
  steps: StepValues[];
  ended?: { started_at: number; ended_at: number; hasLoose: boolean } | undefined;
  job?: JobRow | undefined;
  next?: Queued | undefined;
  outbox: Outbox[];
  idempotency?: (IdempotencyClaim & { status: number; response: string }) | undefined;
};

const accepting = ({
  execution,
  job,
  end,
  next,
  steps = end?.steps ?? [],
  outbox,
  idempotency,
}: Parameters<ExecutionStore["accept"]>[0]): Accepting => ({
  child: execution.parent_id === null ? undefined : [execution.parent_id, execution.parent_position ?? ""],
  execution: executionValues(execution, end),
  steps: steps.map(stepValues),
  ended: end && { started_at: end.started_at, ended_at: end.ended_at, hasLoose: end.hasLoose },
  job,
  next,
  outbox,
  idempotency,
});

function accept(
  db: Connection,
  { child: asked, execution, steps, ended, job, next, outbox, idempotency }: Accepting,
): ClaimOutcome | { outcome: "exists" } {
  if (idempotency) {
    const claimed = claimIdempotency(db, idempotency);
    if (claimed.outcome !== "new") return claimed;
  }
  if (asked && child(db, ...asked)) return { outcome: "exists" };
  const [id, workflow_id] = execution;
  const inside = ended && !ended.hasLoose && steps.length > 0 ? insideText(steps) : null;
  db.run(INSERT_EXECUTION, ...execution, inside);
  if (job) insertJob(db, job);
  if (inside === null) for (const step of steps) putStepValues(db, id, step);
  if (ended) {
    if (ended.hasLoose) endSteps(db, id, ended.ended_at);
    countRun(db, workflow_id, ended);
  }
  if (next) queue(db, next);
  insertOutbox(db, outbox);
  return { outcome: "new" };
}

function queue(db: Connection, { execution, job }: Queued): void {
  db.run(INSERT_EXECUTION, ...executionValues(execution), null);
  insertJob(db, job);
}

/** One as it stands. */
export const execution = (db: Connection, id: string): ExecutionRow | undefined =>
  db.get(`SELECT ${COLUMNS} FROM executions WHERE id = ?`, id);

const child = (db: Connection, parent_id: string, key: string): ExecutionRow | undefined =>
  db.get(`SELECT ${COLUMNS} FROM executions WHERE parent_id = ? AND parent_position = ?`, parent_id, key);

/** All but the steps, which may be long and are asked for by themselves. */
const COLUMNS = `id, workflow_id, workspace_id, project_id, definition_hash, state, source, metadata, input,
  output, error, hop, external_calls, tokens, steps_completed, created_at, started_at, ended_at, parent_id,
  parent_position, parent_waits, depth, origin_id, deadline_at, response`;

const INSERT_EXECUTION = `INSERT INTO executions (${COLUMNS}, steps)
  VALUES (?${", ?".repeat(COLUMNS.split(",").length)})`;

const executionValues = (e: ExecutionRow, end?: ExecutionEnd): Accepting["execution"] => [
  e.id,
  e.workflow_id,
  e.workspace_id,
  e.project_id,
  e.definition_hash,
  end?.state ?? e.state,
  e.source,
  e.metadata,
  e.input,
  end?.output ?? null,
  end?.error ?? null,
  e.hop,
  end?.external_calls ?? e.external_calls,
  end?.tokens ?? e.tokens,
  end?.steps_completed ?? e.steps_completed,
  e.created_at,
  end?.started_at ?? e.started_at,
  end?.ended_at ?? null,
  e.parent_id,
  e.parent_position,
  e.parent_waits,
  e.depth,
  e.origin_id,
  e.deadline_at,
  end?.response ?? null,
];

function begin(db: Connection, id: string, started_at: number): void {
  db.run(
    `UPDATE executions SET state = 'running', started_at = coalesce(started_at, ?)
     WHERE id = ? AND state IN ('queued', 'waiting')`,
    started_at,
    id,
  );
}

type Marking = { lease: Lease; steps: StepRow[]; started_at: number; outbox: Outbox[] };

function mark(db: Connection, { lease, steps, started_at, outbox }: Marking): boolean {
  if (!runsJob(db, lease)) return false;
  begin(db, steps[0]!.execution_id, started_at);
  for (const step of steps) putStep(db, step);
  insertOutbox(db, outbox);
  return true;
}

function openWait(db: Connection, { wait, ...marking }: Marking & { wait: WaitRow }): WaitRow | undefined {
  if (!mark(db, marking)) return undefined;
  const known = waitOf(db, wait.execution_id, wait.position);
  if (known) return known;
  db.run(
    "INSERT INTO waits (id, execution_id, position, token, created_at) VALUES (?, ?, ?, ?, ?)",
    wait.id,
    wait.execution_id,
    wait.position,
    wait.token,
    wait.created_at,
  );
  return wait;
}

const waitOf = (db: Connection, execution_id: string, position: string): WaitRow | undefined =>
  db.get("SELECT * FROM waits WHERE execution_id = ? AND position = ?", execution_id, position);

function signal(db: Connection, { id, signal, at }: { id: string; signal: string; at: number }): boolean {
  const called = db.get<{ execution_id: string }>(
    `UPDATE waits SET signal = ?, signalled_at = ? WHERE id = ? AND signal IS NULL AND execution_id IN
       (SELECT id FROM executions WHERE state IN ('queued', 'running', 'waiting'))
     RETURNING execution_id`,
    signal,
    at,
    id,
  );
  if (!called) return false;
  wakeJob(db, called.execution_id, at);
  return true;
}

function save(db: Connection, { id, started_at, spent, steps, response, outbox }: Progress): void {
  begin(db, id, started_at);
  for (const step of steps) putStep(db, step);
  db.run(
    "UPDATE executions SET external_calls = ?, tokens = ?, steps_completed = ? WHERE id = ?",
    spent.external_calls,
    spent.tokens,
    spent.steps_completed,
    id,
  );
  if (response !== null) db.run("UPDATE executions SET response = ? WHERE id = ?", response, id);
  insertOutbox(db, outbox);
}

function checkpoint(db: Connection, progress: Progress): boolean {
  if (!holdJob(db, progress.lease)) return false;
  save(db, progress);
  return true;
}

function suspend(
  db: Connection,
  { at, reason, now, ...progress }: Progress & { at: number; reason: string; now: number },
): number | undefined {
  const due = parkJob(db, progress.lease, { at, now, reason });
  if (due === undefined) return undefined;
  save(db, progress);
  db.run("UPDATE executions SET state = 'waiting' WHERE id = ?", progress.id);
  return due;
}

type Lasted = Pick<ExecutionEnd, "started_at" | "ended_at">;

function countRun(db: Connection, id: string, { started_at, ended_at }: Lasted): void {
  const sum = db.tally(
    `runs of ${id}`,
    () => ({ runs: 0, ms: 0 }),
    ({ runs, ms }) =>
      db.run(
        "UPDATE workflows SET num_runs = num_runs + ?, run_ms_total = run_ms_total + ? WHERE id = ?",
        runs,
        ms,
        id,
      ),
  );
  sum.runs++;
  sum.ms += Math.max(0, ended_at - started_at);
}

type Finishing = ExecutionEnd & {
  id: string;
  workflow_id: string;
  parent_id: string | null;
  lease: Lease;
  outbox: Outbox[];
  next?: Queued;
};

function finish(db: Connection, end: Finishing): boolean {
  if (!finishJob(db, end.lease)) return false;
  for (const step of end.steps) putStep(db, step);
  db.run(
    `UPDATE executions SET state = ?, output = ?, error = ?, external_calls = ?, tokens = ?, steps_completed = ?,
       started_at = coalesce(started_at, ?), ended_at = ?, response = ? WHERE id = ?`,
    end.state,
    end.output,
    end.error,
    end.external_calls,
    end.tokens,
    end.steps_completed,
    end.started_at,
    end.ended_at,
    end.response,
    end.id,
  );
  if (end.hasLoose) endSteps(db, end.id, end.ended_at);
  if (end.parent_id !== null) wakeJob(db, end.parent_id, end.ended_at);
  if (end.next) queue(db, end.next);
  countRun(db, end.workflow_id, end);
  insertOutbox(db, end.outbox);
  return true;
}

function stop(db: Connection, args: Parameters<ExecutionStore["stop"]>[0]): boolean {
  const stopped = db.get<{ workflow_id: string; parent_id: string | null; started_at: number }>(
    `UPDATE executions SET state = ?, error = ?, ended_at = ? WHERE id = ? AND state IN ('queued', 'running', 'waiting')
     RETURNING workflow_id, parent_id, coalesce(started_at, created_at) AS started_at`,
    args.state,
    args.error,
    args.ended_at,
    args.id,
  );
  if (!stopped) return false;
  db.run("DELETE FROM jobs WHERE ref = ? AND state != 'dead'", args.id);
  endSteps(db, args.id, args.ended_at);
  if (stopped.parent_id !== null) wakeJob(db, stopped.parent_id, args.ended_at);
  if (args.next) queue(db, args.next);
  // One that is given up has run; one that somebody cancels counts for nothing.
  if (args.state === "failed") countRun(db, stopped.workflow_id, { ...stopped, ended_at: args.ended_at });
  insertOutbox(db, args.outbox);
  return true;
}

export const executionWrites = {
  "executions.accept": accept,
  "executions.mark": mark,
  "executions.open-wait": openWait,
  "executions.signal": signal,
  "executions.checkpoint": checkpoint,
  "executions.suspend": suspend,
  "executions.finish": finish,
  "executions.stop": stop,
};

export const sqliteExecutions = ({ reader, writer }: Storage): ExecutionStore => ({
  accept: (asked) => writer.submit("executions.accept", accepting(asked)),
  // A mark without an event may be taken back by a power cut, not by a crash of the program.
  mark: ({ durable, ...marking }) =>
    writer.submit("executions.mark", marking, durable || marking.outbox.length > 0 ? "durable" : "lazy"),
  checkpoint: (saving) => writer.submit("executions.checkpoint", saving),
  openWait: (opening) => writer.submit("executions.open-wait", opening),
  wait: async (id) => reader.get("SELECT * FROM waits WHERE id = ?", id),
  waitOf: async (execution_id, position) => waitOf(reader, execution_id, position),
  signal: (calling) => writer.submit("executions.signal", calling),
  suspend: (suspending) => writer.submit("executions.suspend", suspending),
  finish: (end) => writer.submit("executions.finish", end),
  stop: (stopping) => writer.submit("executions.stop", stopping),
  get: async (id) => execution(reader, id),
  child: async (parent_id, key) => child(reader, parent_id, key),
  waitedFor: async (parent_id) =>
    reader.all(
      `SELECT ${COLUMNS} FROM executions WHERE parent_id = ? AND parent_waits = 1
       AND state IN ('queued', 'running', 'waiting')`,
      parent_id,
    ),
  steps: async (id, after) => stepsOf(reader, id, after),
});
