import type { NewEvent } from "../events/service.ts";
import { iso } from "../lib/clock.ts";
import type { ConversationRow, MessageRow } from "./conversation-store.ts";

/** The data of the agent events (design 3, "Other events' data"). */
export const conversationStarted = (conversation: ConversationRow): NewEvent => ({
  kind: "agent.conversation.started",
  subject_id: conversation.id,
  at: conversation.started_at,
  data: () => ({
    agent_id: conversation.agent_id,
    conversation_id: conversation.id,
    user_id: conversation.user_id,
    started_at: iso(conversation.started_at),
  }),
});

/** A message of the user is received, one of the agent is sent. */
export const messageEvent = (conversation: ConversationRow, message: MessageRow): NewEvent => ({
  kind: message.role === "user" ? "agent.message.received" : "agent.message.sent",
  subject_id: conversation.id,
  at: message.created_at,
  data: () => ({
    agent_id: conversation.agent_id,
    conversation_id: conversation.id,
    message_id: message.id,
    role: message.role,
    content: textOf(message),
    created_at: iso(message.created_at),
    ...(message.usage ? { usage: message.usage } : {}),
  }),
});

export const textOf = (message: Pick<MessageRow, "parts">): string =>
  message.parts
    .filter((part) => part.type === "text")
    .map((part) => part.text)
    .join("");
