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
