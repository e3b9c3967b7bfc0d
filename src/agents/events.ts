import type { NewEvent } from "../events/service.ts";
import { iso, isoOrNull } from "../lib/clock.ts";
import type { Usage } from "../models/model.ts";
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

/** Interface 6.2. `messages`: all that was ever said in it; every answer was paid for, chosen or not. */
export const conversationCompleted = (conversation: ConversationRow, messages: MessageRow[]): NewEvent => ({
  kind: "agent.conversation.completed",
  subject_id: conversation.id,
  at: conversation.completed_at ?? conversation.updated_at,
  data: () => ({
    agent_id: conversation.agent_id,
    conversation_id: conversation.id,
    user_id: conversation.user_id,
    status: conversation.ended_as,
    started_at: iso(conversation.started_at),
    completed_at: isoOrNull(conversation.completed_at),
    message_count: conversation.message_count,
    satisfaction_score: conversation.satisfaction_score,
    credits_used: messages.reduce((sum, { usage }) => sum + (usage ? tokensOf(usage) : 0), 0) / 1_000,
    resolution: conversation.resolution,
  }),
});

const tokensOf = ({ prompt_tokens, completion_tokens }: Usage): number => prompt_tokens + completion_tokens;

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
