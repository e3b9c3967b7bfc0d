import type { NewEvent } from "../events/service.ts";
import { iso } from "../lib/clock.ts";
import type { Json } from "../lib/json.ts";
import type { ExecutionError } from "./schema.ts";
import type { ExecutionRow, Spent, StepRow } from "./store.ts";

/** credits = tokens / 1000 + one per external call (design 3). */
export const credits = ({ tokens, external_calls }: { tokens: number; external_calls: number }): number =>
  tokens / 1_000 + external_calls;

export const seconds = (from: number, to: number): number => Math.max(0, to - from) / 1_000;

export const startedEvent = (execution: ExecutionRow, input: Json, at: number): NewEvent => ({
  kind: "workflow.execution.started",
  subject_id: execution.id,
  at,
  data: () => ({
    workflow_id: execution.workflow_id,
    execution_id: execution.id,
    started_at: iso(at),
    input_data: input,
    trigger_source: execution.source,
  }),
});

/** Interface 6.2 for success; failed and cancelled carry `error` besides. */
export function endedEvent(
  execution: ExecutionRow,
  end: Spent & {
    status: "success" | "failed" | "cancelled";
    started_at: number;
    at: number;
    input: Json;
    output: Json;
    error?: ExecutionError;
  },
): NewEvent {
  return {
    kind: end.status === "success" ? "workflow.execution.completed" : "workflow.execution.failed",
    subject_id: execution.id,
    at: end.at,
    data: () => ({
      workflow_id: execution.workflow_id,
      execution_id: execution.id,
      status: end.status,
      started_at: iso(end.started_at),
      completed_at: iso(end.at),
      duration_seconds: seconds(end.started_at, end.at),
      input_data: end.input,
      output_data: end.output,
      credits_used: credits(end),
      steps_completed: end.steps_completed,
      ...(end.error ? { error: end.error } : {}),
    }),
  };
}

/** One for each step that ended well. */
export function stepEvents(execution: ExecutionRow, steps: StepRow[]): NewEvent[] {
  return steps
    .filter((step) => step.state === "success")
    .map((step) => {
      const at = step.ended_at ?? step.started_at;
      return {
        kind: "workflow.step.completed",
        subject_id: execution.id,
        at,
        data: () => ({
          workflow_id: execution.workflow_id,
          execution_id: execution.id,
          node_name: step.name,
          node_type_name: step.node_type_name,
          status: "success",
          started_at: iso(step.started_at),
          completed_at: iso(at),
          duration_seconds: seconds(step.started_at, at),
          output_data: step.output === null ? null : JSON.parse(step.output),
        }),
      };
    });
}
