import Type, { type Static } from "typebox";
import { feedQuery } from "../lib/feed.ts";
import { answers, query } from "../lib/schema.ts";

/** Interface section 6.1. */
export const EVENT_KINDS = [
  "agent.conversation.started",
  "agent.conversation.completed",
  "agent.message.received",
  "agent.message.sent",
  "workflow.execution.started",
  "workflow.execution.completed",
  "workflow.execution.failed",
  "workflow.step.completed",
] as const;

export type EventKind = (typeof EVENT_KINDS)[number];

/** What a delivery of several events says in the place of a kind (design 3). */
export const BATCH_KIND = "batch";

/** The kind of job that sends a delivery. */
export const DELIVERY_JOB = "delivery.attempt";

/** What a subscription may list: a kind, a family of kinds, or all. */
export const EVENT_PATTERNS = [...EVENT_KINDS, "agent.*", "workflow.*", "*"] as const;

export type EventPattern = (typeof EVENT_PATTERNS)[number];

export const matches = (pattern: string, kind: EventKind): boolean =>
  pattern === kind || pattern === "*" || (pattern.endsWith(".*") && kind.startsWith(pattern.slice(0, -1)));

/**
 * A delivery carries the hops that led to it (X-Service-Hop); an incoming hook hands them to what it
 * starts. A chain longer than this is a loop.
 */
export const MOST_HOPS = 8;

export const ListEvents = query(
  Type.Object({
    ...feedQuery,
    event: Type.Optional(Type.Enum([...EVENT_KINDS])),
    subject_id: Type.Optional(
      Type.String({ maxLength: 100, description: "The execution or conversation it tells of." }),
    ),
  }),
);
export type ListEvents = Static<typeof ListEvents.schema>;

const textOrNull = Type.Union([Type.String(), Type.Null()]);
const at = Type.String({ format: "date-time" });
const atOrNull = Type.Union([at, Type.Null()]);

const entry = {
  id: Type.String(),
  event: Type.String(),
  timestamp: at,
  subject_id: Type.String(),
};

export const EventList = answers(
  Type.Array(
    Type.Object({
      ...entry,
      outcomes: Type.Record(Type.String(), Type.Integer(), {
        description: "How many webhooks of each outcome.",
      }),
    }),
  ),
);

/** An event with a line for every webhook of its project. */
export const EventRecord = answers(
  Type.Object({
    ...entry,
    data: Type.Record(Type.String(), Type.Unknown()),
    webhooks: Type.Array(
      Type.Object({
        webhook_id: Type.String(),
        name: textOrNull,
        outcome: Type.String(),
        reason: Type.String(),
        delivery_id: textOrNull,
        attempts: Type.Integer(),
        attempts_max: Type.Integer(),
        response_code: Type.Union([Type.Integer(), Type.Null()]),
        error_class: textOrNull,
        last_attempt_at: atOrNull,
        next_attempt_at: atOrNull,
        earlier_delivery_ids: Type.Array(Type.String()),
      }),
    ),
  }),
);
