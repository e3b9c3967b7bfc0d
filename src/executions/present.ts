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
});

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
