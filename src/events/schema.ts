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
