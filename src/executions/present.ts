import { iso, isoOrNull } from "../lib/clock.ts";
import type { Json } from "../lib/json.ts";
import { credits, seconds } from "./events.ts";
import type { ExecutionRow, StepRow } from "./store.ts";

const parsed = (text: string | null): Json => (text === null ? null : JSON.parse(text));

/** An execution as the API shows it. */
export const presentExecution = (row: ExecutionRow) => ({
  id: row.id,
  workflow_id: row.workflow_id,
  status: row.state,
  trigger_source: row.source,
  metadata: parsed(row.metadata),
  input_data: parsed(row.input),
  output_data: parsed(row.output),
  error: parsed(row.error),
  created_at: iso(row.created_at),
  started_at: isoOrNull(row.started_at),
  completed_at: isoOrNull(row.ended_at),
  duration_seconds: row.started_at && row.ended_at ? seconds(row.started_at, row.ended_at) : null,
  credits_used: credits(row),
  steps_completed: row.steps_completed,
  /** What respond_to_webhook answered, once it has. */
  response: parsed(row.response),
  parent_execution_id: row.parent_id,
  origin_execution_id: row.origin_id,
});

/** The same without what may be long: for a line of a stream. */
export const forStatus = (row: ExecutionRow) => ({
  id: row.id,
  workflow_id: row.workflow_id,
  status: row.state,
  created_at: iso(row.created_at),
  started_at: isoOrNull(row.started_at),
});

/** Steps as they stand in the workflow: a node before what is inside of it, items in their order. */
export const presentSteps = (rows: StepRow[]) =>
  rows
    .map((row) => ({ row, path: row.position.split(".") }))
    .sort((a, b) => compare(a.path, b.path))
    .map(({ row }) => presentStep(row));

function compare(a: string[], b: string[]): number {
  const shared = Math.min(a.length, b.length);
  for (let at = 0; at < shared; at++) {
    const [left, right] = [a[at]!, b[at]!];
    if (left === right) continue;
    const difference = Number(left) - Number(right);
    return Number.isNaN(difference) ? (left < right ? -1 : 1) : difference;
  }
  return a.length - b.length;
}

export const presentStep = (row: StepRow) => ({
  name: row.name,
  node_type_name: row.node_type_name,
  position: row.position,
  status: row.state,
  attempts: row.attempts,
  input: parsed(row.input),
  output: parsed(row.output),
  error: parsed(row.error),
  started_at: iso(row.started_at),
  completed_at: isoOrNull(row.ended_at),
});
