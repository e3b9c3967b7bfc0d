import type { Outbox } from "../../events/store.ts";
import type {
  ExecutionEnd,
  ExecutionRow,
  ExecutionStore,
  Progress,
  StepRow,
} from "../../executions/store.ts";
import type { ClaimOutcome, IdempotencyClaim } from "../../hooks/store.ts";
import type { JobRow, Lease } from "../../jobs/job.ts";
import type { Connection } from "./connection.ts";
import { insertOutbox } from "./events.ts";
import { claimIdempotency } from "./idempotency.ts";
import { finishJob, holdJob, insertJob, releaseJob } from "./jobs.ts";
import type { Storage } from "./storage.ts";

type Accepting = {
  execution: ExecutionRow;
  job?: JobRow;
  end?: ExecutionEnd;
  outbox: Outbox[];
  idempotency?: IdempotencyClaim & { status: number; response: string };
};

function accept(db: Connection, { execution: e, job, end, outbox, idempotency }: Accepting): ClaimOutcome {
  if (idempotency) {
    const claimed = claimIdempotency(db, idempotency);
    if (claimed.outcome !== "new") return claimed;
  }
  db.run(
    `INSERT INTO executions (id, workflow_id, workspace_id, project_id, definition_hash, state, source, metadata,
       input, output, error, hop, external_calls, tokens, steps_completed, created_at, started_at, ended_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
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
    end?.external_calls ?? 0,
    end?.tokens ?? 0,
    end?.steps_completed ?? 0,
    e.created_at,
    end?.started_at ?? e.started_at,
    end?.ended_at ?? null,
  );
  if (job) insertJob(db, job);
  if (end) {
    for (const step of end.steps) putStep(db, step);
    countRun(db, e.workflow_id, end);
  }
  insertOutbox(db, outbox);
  return { outcome: "new" };
}

function putStep(db: Connection, step: StepRow): void {
  db.run(
    `INSERT INTO steps (execution_id, position, seq, name, node_type_name, state, attempts, input, output, error,
       started_at, ended_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (execution_id, position) DO UPDATE SET state = excluded.state, attempts = excluded.attempts,
       input = excluded.input, output = excluded.output, error = excluded.error,
       started_at = excluded.started_at, ended_at = excluded.ended_at`,
    step.execution_id,
    step.position,
    step.seq,
    step.name,
    step.node_type_name,
    step.state,
    step.attempts,
    step.input,
    step.output,
    step.error,
    step.started_at,
    step.ended_at,
  );
}

function begin(db: Connection, id: string, started_at: number): void {
  db.run(
    `UPDATE executions SET state = 'running', started_at = coalesce(started_at, ?)
     WHERE id = ? AND state IN ('queued', 'waiting')`,
    started_at,
    id,
  );
}

type Marking = { lease: Lease; step: StepRow; started_at: number; outbox: Outbox[] };

function mark(db: Connection, { lease, step, started_at, outbox }: Marking): boolean {
  const held = db.get(
    "SELECT 1 FROM jobs WHERE id = ? AND attempt = ? AND state = 'running'",
    lease.id,
    lease.attempt,
  );
  if (!held) return false;
  begin(db, step.execution_id, started_at);
  putStep(db, step);
  insertOutbox(db, outbox);
  return true;
}

function save(db: Connection, { id, started_at, spent, steps, outbox }: Progress): void {
  begin(db, id, started_at);
  for (const step of steps) putStep(db, step);
  db.run(
    "UPDATE executions SET external_calls = ?, tokens = ?, steps_completed = ? WHERE id = ?",
    spent.external_calls,
    spent.tokens,
    spent.steps_completed,
    id,
  );
  insertOutbox(db, outbox);
}

function checkpoint(db: Connection, progress: Progress): boolean {
  if (!holdJob(db, progress.lease)) return false;
  save(db, progress);
  return true;
}

function suspend(
  db: Connection,
  { at, reason, ...progress }: Progress & { at: number; reason: string },
): boolean {
  if (!releaseJob(db, progress.lease, at, reason)) return false;
  save(db, progress);
  db.run("UPDATE executions SET state = 'waiting' WHERE id = ?", progress.id);
  return true;
}

const countRun = (db: Connection, workflow_id: string, { started_at, ended_at }: ExecutionEnd): void => {
  db.run(
    "UPDATE workflows SET num_runs = num_runs + 1, run_ms_total = run_ms_total + ? WHERE id = ?",
    Math.max(0, ended_at - started_at),
    workflow_id,
  );
};

type Finishing = ExecutionEnd & { id: string; workflow_id: string; lease: Lease; outbox: Outbox[] };

function finish(db: Connection, end: Finishing): boolean {
  if (!finishJob(db, end.lease)) return false;
  for (const step of end.steps) putStep(db, step);
  db.run(
    `UPDATE executions SET state = ?, output = ?, error = ?, external_calls = ?, tokens = ?, steps_completed = ?,
       started_at = coalesce(started_at, ?), ended_at = ? WHERE id = ?`,
    end.state,
    end.output,
    end.error,
    end.external_calls,
    end.tokens,
    end.steps_completed,
    end.started_at,
    end.ended_at,
    end.id,
  );
  countRun(db, end.workflow_id, end);
  insertOutbox(db, end.outbox);
  return true;
}

function stop(
  db: Connection,
  args: { id: string; state: "cancelled" | "failed"; error: string; ended_at: number; outbox: Outbox[] },
): boolean {
  const stopped = db.run(
    `UPDATE executions SET state = ?, error = ?, ended_at = ?
     WHERE id = ? AND state IN ('queued', 'running', 'waiting')`,
    args.state,
    args.error,
    args.ended_at,
    args.id,
  );
  if (stopped === 0) return false;
  db.run("DELETE FROM jobs WHERE ref = ? AND state != 'dead'", args.id);
  insertOutbox(db, args.outbox);
  return true;
}

export const executionWrites = {
  "executions.accept": accept,
  "executions.mark": mark,
  "executions.checkpoint": checkpoint,
  "executions.suspend": suspend,
  "executions.finish": finish,
  "executions.stop": stop,
};

export const sqliteExecutions = ({ reader, writer }: Storage): ExecutionStore => ({
  accept: (accepting) => writer.submit("executions.accept", accepting),
  // A mark without an event may be taken back by a power cut, not by a crash of the program.
  mark: ({ durable, ...marking }) =>
    writer.submit("executions.mark", marking, durable || marking.outbox.length > 0 ? "durable" : "lazy"),
  checkpoint: (saving) => writer.submit("executions.checkpoint", saving),
  suspend: (suspending) => writer.submit("executions.suspend", suspending),
  finish: (end) => writer.submit("executions.finish", end),
  stop: (stopping) => writer.submit("executions.stop", stopping),
  get: async (id) => reader.get("SELECT * FROM executions WHERE id = ?", id),
  steps: async (id) => reader.all("SELECT * FROM steps WHERE execution_id = ? ORDER BY seq, position", id),
});
