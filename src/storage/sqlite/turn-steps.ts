import type { ApprovalRow, SaidWords, StepRow, StepStore } from "../../agents/step-store.ts";
import type { Lease } from "../../jobs/job.ts";
import type { Words } from "../../models/words.ts";
import type { Connection } from "./connection.ts";
import { dropWords, putMessage } from "./conversations.ts";
import { finishJob, holdJob, insertJob } from "./jobs.ts";
import type { Storage } from "./storage.ts";

type Suspending = Parameters<StepStore["suspend"]>[0];
type Answering = Parameters<StepStore["answer"]>[0];

function save(db: Connection, { step, lease }: { step: StepRow; lease?: Lease }): boolean {
  if (lease && !holdJob(db, lease)) return false;
  const saved = db.run(
    `INSERT INTO turn_steps (turn_id, path, seq, parts, reason, usage)
     SELECT id, ?, ?, ?, ?, ? FROM turns WHERE id = ? AND state = 'running'
     ON CONFLICT (turn_id, path, seq) DO UPDATE SET parts = excluded.parts, usage = excluded.usage`,
    step.path,
    step.seq,
    JSON.stringify(step.parts),
    step.reason,
    JSON.stringify(step.usage),
    step.turn_id,
  );
  if (step.path === "") dropWords(db, step.turn_id); // the step has them
  return saved === 1;
}

function keepWords(db: Connection, said: SaidWords[]): void {
  for (const { turn_id, parts, isFirst } of said) {
    if (isFirst) dropWords(db, turn_id);
    db.run(
      "INSERT INTO turn_words (turn_id, parts) SELECT id, ? FROM turns WHERE id = ? AND state = 'running'",
      JSON.stringify(parts),
      turn_id,
    );
  }
}

function suspend(db: Connection, { message, approvals, settings, lease }: Suspending): boolean {
  if (lease && !finishJob(db, lease)) return false;
  const waits = db.run(
    `UPDATE turns SET state = 'waiting', message_id = ?, settings = coalesce(?, settings), has_job = 0
     WHERE id = ? AND state = 'running'`,
    message.id,
    settings ?? null,
    message.turn_id,
  );
  if (waits === 0) return false;
  putMessage(db, message);
  for (const approval of approvals) insertApproval(db, approval);
  return true;
}

function insertApproval(db: Connection, approval: ApprovalRow): void {
  db.run(
    `INSERT INTO approvals (id, turn_id, conversation_id, path, tool_call_id, tool_name, args, state, reason,
       created_at, answered_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    approval.id,
    approval.turn_id,
    approval.conversation_id,
    approval.path,
    approval.tool_call_id,
    approval.tool_name,
    JSON.stringify(approval.args),
    approval.state,
    approval.reason,
    approval.created_at,
    approval.answered_at,
  );
}

function answer(
  db: Connection,
  { turn_id, answers, answered_at, job }: Answering,
): "continued" | "partly" | "raced" {
  const pending = db.all<{ id: string }>(
    "SELECT id FROM approvals WHERE turn_id = ? AND state = 'pending'",
    turn_id,
  );
  const open = new Set(pending.map(({ id }) => id));
  const waits = db.get("SELECT 1 FROM turns WHERE id = ? AND state = 'waiting'", turn_id) !== undefined;
  if (!waits || !answers.every(({ id }) => open.has(id))) return "raced";
  for (const { id, state, reason } of answers) {
    db.run(
      "UPDATE approvals SET state = ?, reason = ?, answered_at = ? WHERE id = ?",
      state,
      reason,
      answered_at,
      id,
    );
    open.delete(id);
  }
  if (open.size > 0) return "partly";
  db.run("UPDATE turns SET state = 'queued', has_job = 1 WHERE id = ?", turn_id);
  insertJob(db, job);
  return "continued";
}

export const turnStepWrites = {
  "turns.save_step": save,
  "turns.keep_words": keepWords,
  "turns.suspend": suspend,
  "turns.answer_approvals": answer,
};

type StepText = Omit<StepRow, "parts" | "usage"> & { parts: string; usage: string };
type ApprovalText = Omit<ApprovalRow, "args"> & { args: string };

const approval = (row: ApprovalText): ApprovalRow => ({ ...row, args: JSON.parse(row.args) });

export const sqliteTurnSteps = ({ reader, writer }: Storage): StepStore => ({
  steps: async (turn_id) =>
    reader
      .all<StepText>("SELECT * FROM turn_steps WHERE turn_id = ? ORDER BY path, seq", turn_id)
      .map((row) => ({ ...row, parts: JSON.parse(row.parts), usage: JSON.parse(row.usage) })),
  save: (step, lease) => writer.submit("turns.save_step", { step, lease }),
  keepWords: (said) => writer.submit("turns.keep_words", said, "lazy"),
  words: async (turn_id) =>
    reader
      .all<{ parts: string }>("SELECT parts FROM turn_words WHERE turn_id = ? ORDER BY rowid", turn_id)
      .flatMap(({ parts }) => JSON.parse(parts) as Words[]),
  suspend: (waiting) => writer.submit("turns.suspend", waiting),
  async approval(id) {
    const row = reader.get<ApprovalText>("SELECT * FROM approvals WHERE id = ?", id);
    return row && approval(row);
  },
  approvals: async (turn_id) =>
    reader.all<ApprovalText>("SELECT * FROM approvals WHERE turn_id = ? ORDER BY id", turn_id).map(approval),
  pending: async (conversation_id) =>
    reader
      .all<ApprovalText>(
        "SELECT * FROM approvals WHERE conversation_id = ? AND state = 'pending' ORDER BY id",
        conversation_id,
      )
      .map(approval),
  answer: (answering) => writer.submit("turns.answer_approvals", answering),
});
