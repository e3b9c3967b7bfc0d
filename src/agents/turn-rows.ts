import { newId } from "../lib/ids.ts";
import type { JsonObject } from "../lib/json.ts";
import type { AnswerEnd } from "./answer.ts";
import type { ConversationRow, ImagePart, MessageRow, TurnRow } from "./conversation-store.ts";
import { DEFAULT_SETTINGS } from "./schema.ts";
import type { AgentTarget } from "./service.ts";

/** Who speaks to whom, and in which conversation: the client's id threads; without one, a new conversation. */
export type Opening = {
  agent: AgentTarget;
  owner: ConversationRow["owner"];
  client_id: string | undefined;
  user_id: string | null;
  metadata: JsonObject;
};

export function newConversation(opening: Opening, now: number): ConversationRow {
  const { agent, owner, user_id, metadata } = opening;
  const id = newId();
  return {
    id,
    agent_id: agent.id,
    workspace_id: agent.workspace_id,
    project_id: agent.project_id,
    owner,
    client_id: opening.client_id ?? id,
    user_id,
    title: null,
    status: "active",
    metadata,
    message_count: 0,
    started_at: now,
    updated_at: now,
    completed_at: null,
    suggested_replies: [],
    tags: [],
    ended_as: null,
    resolution: null,
    satisfaction_score: null,
    idle_ms: idleMsOf(agent),
    idle_at: null,
  };
}

const HOUR_MS = 3_600_000;
/** How long nothing may be said in a conversation until it is completed. */
export function idleMsOf({ settings }: AgentTarget): number {
  // An agent that was stored before there was such a setting has none.
  const { conversation_idle_hours: hours = DEFAULT_SETTINGS.conversation_idle_hours } = settings as Partial<
    typeof settings
  >;
  return hours * HOUR_MS;
}

/** A stream is answered at once, a webhook's turn when its job comes to it. */
export function newTurn(
  conversation: ConversationRow,
  {
    source,
    hop,
    asked_by,
    now,
  }: { source: TurnRow["source"]; hop: number; asked_by?: string | undefined; now: number },
): TurnRow {
  return {
    id: newId(),
    conversation_id: conversation.id,
    agent_id: conversation.agent_id,
    workspace_id: conversation.workspace_id,
    project_id: conversation.project_id,
    state: source === "stream" ? "running" : "queued",
    source,
    message_id: null,
    error: null,
    hop,
    created_at: now,
    started_at: source === "stream" ? now : null,
    ended_at: null,
    parent_id: null, // both are decided where it is stored
    answers: null,
    asked_by: asked_by ?? null,
    answer_id: null, // given with the message, whose own id comes first
    settings: null,
  };
}

/** What somebody says to an agent; `client_id`: the client's own name of it. */
export type Said = { text: string; facts?: JsonObject; client_id?: string | null };

export const userMessage = (
  turn: TurnRow,
  { text, images = [], facts, client_id = null }: Said & { images?: ImagePart[] },
): MessageRow => ({
  id: newId(),
  conversation_id: turn.conversation_id,
  turn_id: turn.id,
  role: "user",
  client_id,
  parts: [
    ...(text ? [{ type: "text" as const, text }] : []),
    ...images,
    ...(facts ? [{ type: "context" as const, facts }] : []),
  ],
  state: "complete",
  usage: null,
  created_at: turn.created_at,
});

const STATES = {
  success: "complete",
  failed: "failed",
  interrupted: "interrupted",
  cancelled: "stopped",
  waiting: "waiting",
} as const;

/** What came of an answer, whole or until it waits; nothing where it failed before its first word. */
export function answerMessage(
  turn: TurnRow,
  id: string,
  end: AnswerEnd,
  now: number,
): MessageRow | undefined {
  const { state } = end;
  if (state === "lost") return undefined;
  if (end.parts.length === 0 && state !== "success" && turn.message_id === null) return undefined;
  return {
    id,
    conversation_id: turn.conversation_id,
    turn_id: turn.id,
    role: "assistant",
    parts: end.parts,
    state: STATES[state],
    usage: end.usage,
    created_at: now,
  };
}

const USUAL_TURN_MS = 5_000;

/** How long the agent's turns took of late. */
export const usualMs = ({ recent_turns, recent_turn_ms }: AgentTarget): number =>
  recent_turns > 0 ? Math.round(recent_turn_ms / recent_turns) : USUAL_TURN_MS;
