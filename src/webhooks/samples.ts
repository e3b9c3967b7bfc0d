import { envelope } from "../events/envelope.ts";
import { EVENT_KINDS, type EventKind, type EventPattern, matches } from "../events/kinds.ts";
import { iso } from "../lib/clock.ts";
import { newId } from "../lib/ids.ts";
import type { JsonObject } from "../lib/json.ts";
import { batchBody } from "./batch.ts";
import type { SubscriptionRow } from "./store.ts";

const id = (digit: number): string => `00000000-0000-7000-8000-${String(digit).repeat(12)}`;

/** The kind that a sample is of when nobody names one: the first that the patterns take in. */
export const firstKind = (events: EventPattern[]): EventKind =>
  EVENT_KINDS.find((kind) => events.some((pattern) => matches(pattern, kind))) ??
  "workflow.execution.completed";

type Sample = { id: string; kind: EventKind; at: number; data: JsonObject };

/** In the shape of its deliveries: a webhook that takes batches gets a batch of one. `id`: its webhook-id. */
export function sampleBody(webhook: SubscriptionRow, { id, kind, at, data }: Sample): string {
  if (webhook.batch_settings === null) return envelope({ kind, at, data }, webhook);
  const event = { id: newId(), project_id: webhook.project_id, kind, subject_id: id, created_at: at };
  return batchBody({ id, at, events: [{ ...event, data: JSON.stringify(data) }] }, webhook);
}

/** Data in the shape of each kind (interface 6.2, design 3), for test sends. `at`: epoch milliseconds. */
export function sampleData(kind: EventKind, at: number): JsonObject {
  const conversation = { agent_id: id(1), conversation_id: id(2) };
  const execution = { workflow_id: id(3), execution_id: id(4) };
  const started_at = iso(at - 2_500);
  const completed_at = iso(at);
  const message = (role: string, content: string): JsonObject => ({
    ...conversation,
    message_id: id(5),
    role,
    content,
    created_at: completed_at,
  });
  const ended = {
    ...execution,
    started_at,
    completed_at,
    duration_seconds: 2.5,
    input_data: { topic: "sample" },
    credits_used: 1.2,
  };
  switch (kind) {
    case "agent.conversation.started":
      return { ...conversation, user_id: "sample-user", started_at };
    case "agent.conversation.completed":
      return {
        ...conversation,
        user_id: "sample-user",
        status: "resolved",
        started_at,
        completed_at,
        message_count: 4,
        satisfaction_score: 4.5,
        credits_used: 1.2,
        resolution: { type: "answered", category: "sample", tags: ["sample"] },
      };
    case "agent.message.received":
      return message("user", "A sample question");
    case "agent.message.sent":
      return {
        ...message("assistant", "A sample answer"),
        usage: { prompt_tokens: 12, completion_tokens: 34 },
      };
    case "workflow.execution.started":
      return { ...execution, started_at, input_data: { topic: "sample" }, trigger_source: "test" };
    case "workflow.execution.completed":
      return { ...ended, status: "success", output_data: { result: "sample" }, steps_completed: 2 };
    case "workflow.execution.failed":
      return {
        ...ended,
        status: "failed",
        output_data: null,
        steps_completed: 1,
        error: { code: "SAMPLE", message: "A sample failure", node: "sample_step" },
      };
    case "workflow.step.completed":
      return {
        ...execution,
        node_name: "sample_step",
        node_type_name: "set_variables",
        status: "success",
        started_at,
        completed_at,
        duration_seconds: 2.5,
        output_data: { result: "sample" },
      };
  }
}
