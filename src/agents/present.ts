import { iso, isoOrNull } from "../lib/clock.ts";
import type { RecordedMessage, TurnLink } from "./conversation-records.ts";
import type { ConversationRow } from "./conversation-store.ts";
import { textOf } from "./events.ts";

/** A conversation as the interface shows it. */
export const present = (row: ConversationRow) => ({
  id: row.id,
  agent_id: row.agent_id,
  client_id: row.client_id,
  user_id: row.user_id,
  is_anonymous: row.owner === "anonymous",
  title: row.title,
  tags: row.tags,
  status: row.status,
  ended_as: row.ended_as,
  resolution: row.resolution,
  satisfaction_score: row.satisfaction_score,
  metadata: row.metadata,
  message_count: row.message_count,
  started_at: iso(row.started_at),
  updated_at: iso(row.updated_at),
  completed_at: isoOrNull(row.completed_at),
  suggested_replies: row.suggested_replies,
});

/** `variants`: the ids of all messages in its place, itself among them. */
export const presentMessage = (row: RecordedMessage, variants: string[] = [row.id]) => ({
  id: row.id,
  role: row.role,
  content: textOf(row),
  parts: row.parts,
  status: row.state,
  usage: row.usage,
  feedback: row.feedback && {
    rating: row.feedback.rating,
    comment: row.feedback.comment,
    given_at: iso(row.feedback.given_at),
  },
  variants,
  execution_id: row.turn_id,
  created_at: iso(row.created_at),
});

/** Why a message has no whole answer, or is none: by the last message on record of each turn that failed. */
export function errorsOf(
  messages: RecordedMessage[],
  turns: TurnLink[],
): Map<string, { code: string; message: string }> {
  const last = new Map(messages.map(({ id, turn_id }) => [turn_id, id]));
  return new Map(
    turns.flatMap(({ id, error }) => {
      const message_id = last.get(id);
      return error === null || message_id === undefined ? [] : [[message_id, JSON.parse(error)]];
    }),
  );
}
