import type { StepRow } from "../../executions/store.ts";
import type { Bind, Connection } from "./connection.ts";

/** A step without its execution's id, in the order of the columns. */
export type StepValues = Bind[];

// Rows of `executions` hold steps in this order: what is added stands at the end.
const COLUMNS = [
  "position",
  "seq",
  "name",
  "node_type_name",
  "state",
  "attempts",
  "input",
  "output",
  "error",
  "started_at",
  "ended_at",
  "wake_at",
  "rev",
] as const satisfies (keyof StepRow)[];

const PUT_STEP = `INSERT INTO steps (execution_id, ${COLUMNS.join(", ")})
  VALUES (?${", ?".repeat(COLUMNS.length)})
  ON CONFLICT (execution_id, position) DO UPDATE SET state = excluded.state, attempts = excluded.attempts,
    input = excluded.input, output = excluded.output, error = excluded.error,
    started_at = excluded.started_at, ended_at = excluded.ended_at, wake_at = excluded.wake_at,
    rev = excluded.rev`;

// Written out: every step of every run passes here.
export const stepValues = (step: StepRow): StepValues => [
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
  step.wake_at,
  step.rev,
];

export const putStepValues = (db: Connection, execution_id: string, values: StepValues): number =>
  db.run(PUT_STEP, execution_id, ...values);

export const putStep = (db: Connection, step: StepRow): number =>
  putStepValues(db, step.execution_id, stepValues(step));

// As much as the longest output of one step. Longer ones get rows of their own, which retention drops a few a commit.
const LONGEST_INSIDE = 1024 * 1024;

/**
 * As `executions` keeps them; of a step that was put down more than once what it was in the end. Null: together
 * they are too long for one row.
 */
export function insideText(steps: StepValues[]): string | null {
  const once = steps.length === 1 ? steps : [...new Map(steps.map((values) => [values[0], values])).values()];
  const text = JSON.stringify(once);
  return text.length > LONGEST_INSIDE ? null : text;
}

/** What was under way in a run that has ended. */
export function endSteps(db: Connection, id: string, ended_at: number): void {
  db.run(
    `UPDATE steps SET state = 'cancelled', ended_at = ?1, wake_at = NULL,
       rev = (SELECT max(rev) FROM steps WHERE execution_id = ?2) + 1
     WHERE execution_id = ?2 AND state IN ('started', 'retrying', 'waiting')`,
    ended_at,
    id,
  );
}

/** Of a run, by the workflow's own nodes; with `after`, those that changed since that revision, in the order they did. */
export function stepsOf(db: Connection, id: string, after?: number): StepRow[] {
  const apart: StepRow[] =
    after === undefined
      ? db.all("SELECT * FROM steps WHERE execution_id = ? ORDER BY seq, position", id)
      : db.all("SELECT * FROM steps WHERE execution_id = ? AND rev > ? ORDER BY rev, seq", id, after);
  return apart.length > 0 ? apart : stepsInside(db, id, after);
}

function stepsInside(db: Connection, id: string, after?: number): StepRow[] {
  const inside = db.get<{ steps: string | null }>("SELECT steps FROM executions WHERE id = ?", id)?.steps;
  if (inside == null) return [];
  const steps = (JSON.parse(inside) as StepValues[]).map((values) => rowOf(id, values));
  if (after === undefined) return steps.sort((a, b) => a.seq - b.seq || compare(a.position, b.position));
  return steps.filter(({ rev }) => rev > after).sort((a, b) => a.rev - b.rev || a.seq - b.seq);
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

const rowOf = (execution_id: string, values: StepValues): StepRow =>
  Object.assign(
    { execution_id },
    Object.fromEntries(COLUMNS.map((name, at) => [name, values[at]])),
  ) as StepRow;
