import type { Outbox } from "../events/store.ts";
import type { ClaimOutcome, IdempotencyClaim } from "../hooks/store.ts";
import type { JobRow, Lease } from "../jobs/job.ts";
import type { Json, JsonObject } from "../lib/json.ts";
import type { Usage } from "../models/model.ts";
import type { TriggerEventRow } from "../triggers/store.ts";
import type { Resolution } from "./conversation-schema.ts";

export type ConversationRow = {
  id: string;
  agent_id: string;
  workspace_id: string;
  project_id: string;
  /** Who may continue it: `project`, or `anonymous`. */
  owner: "project" | "anonymous";
  /** The id that the client threads by. */
  client_id: string;
  user_id: string | null;
  title: string | null;
  status: "active" | "completed";
  metadata: JsonObject;
  message_count: number;
  started_at: number;
  updated_at: number;
  completed_at: number | null;
  /** What the user may well say next, after the newest answer. */
  suggested_replies: string[];
  tags: string[];
  /** Why it is completed: somebody closed it, or nobody said anything for `idle_ms`. */
  ended_as: "resolved" | "idle" | null;
  resolution: Resolution | null;
  satisfaction_score: number | null;
  idle_ms: number;
  idle_at: number | null;
};

/**
 * What an answer is made of, in order. The results of calls stand behind all calls of their step; what
 * follows a result is of the next step.
 */
export type AnswerPart =
  | { type: "text"; text: string }
  | { type: "reasoning"; text: string }
  | { type: "tool_call"; id: string; name: string; args: Json; provider_data?: JsonObject }
  | { type: "tool_result"; id: string; name: string; result: Json; is_error?: true };

/** A picture of a message; its bytes are kept apart. `name`: as its sender called it. */
export type ImagePart = {
  type: "image";
  attachment_id: string;
  media_type: string;
  size: number;
  name: string | null;
};

/** `context`: what the sender of a message tells the model beside it. */
export type MessagePart = AnswerPart | ImagePart | { type: "context"; facts: JsonObject };

export type MessageRow = {
  id: string;
  conversation_id: string;
  turn_id: string;
  role: "user" | "assistant";
  /** The client's own name of it. */
  client_id?: string | null;
  parts: MessagePart[];
  /** failed, interrupted and stopped: what had come until then; waiting: for approvals of calls in it. */
  state: "complete" | "failed" | "interrupted" | "stopped" | "waiting";
  usage: Usage | null;
  created_at: number;
};

export type TurnState = "queued" | "running" | "waiting" | "success" | "failed" | "interrupted" | "cancelled";

export type TurnRow = {
  id: string;
  conversation_id: string;
  agent_id: string;
  workspace_id: string;
  project_id: string;
  state: TurnState;
  source: "stream" | "webhook";
  message_id: string | null;
  error: string | null;
  hop: number;
  created_at: number;
  started_at: number | null;
  ended_at: number | null;
  /** The turn before it in its branch. */
  parent_id: string | null;
  /** The turn whose message it answers once more; null: one of its own. */
  answers: string | null;
  /** The execution that waits for it: whatever ends the turn makes its job due. */
  asked_by: string | null;
  /** The id that its answer is told under from the first line; on record as a message once there is one. */
  answer_id: string | null;
  /** What the agent is for this turn alone, as JSON: kept while it waits for an approval. */
  settings: string | null;
};

/**
 * Where a conversation goes on, if not behind its newest message: `again` answers the message of a turn once
 * more, `instead` says another message in its place. What stood there stays on record as another variant.
 */
export type Branch = { kind: "again" | "instead"; turn_id: string };

export type BeginOutcome = ClaimOutcome | { outcome: "raced" } | { outcome: "full" };

export type ConversationStore = {
  /** By the client's id, within one agent and one owner. */
  byClientId(agent_id: string, owner: string, client_id: string): Promise<ConversationRow | undefined>;
  get(id: string): Promise<ConversationRow | undefined>;
  /** Each message of the user with its answer, oldest first, of the chosen branch. */
  messages(conversation_id: string): Promise<MessageRow[]>;
  /** The same up to the message that `turn` answers, the newest `last`: later ones may wait already. */
  history(turn: Pick<TurnRow, "id" | "conversation_id">, last: number): Promise<MessageRow[]>;
  message(id: string): Promise<MessageRow | undefined>;
  turn(id: string): Promise<TurnRow | undefined>;
  /**
   * The user's message is on record before anything is answered: conversation (where new), message, turn,
   * events, and job and idempotency claim where there are such. `raced`: another request made the
   * conversation in the meantime; nothing was stored.
   */
  begin(beginning: {
    conversation: ConversationRow;
    isNew: boolean;
    /** None where an earlier one is answered once more. */
    message?: MessageRow;
    turn: TurnRow;
    branch?: Branch;
    outbox: Outbox[];
    job?: JobRow;
    /** What called the agent's trigger. */
    trigger_event?: TriggerEventRow;
    idempotency?: IdempotencyClaim & { status: number; response: string };
    /** As many messages of the conversation may stream or wait to; `full`: they do, and nothing was stored. */
    most_streams?: number;
  }): Promise<BeginOutcome>;
  /** A queued turn starts. */
  start(id: string, lease: Lease, started_at: number): Promise<boolean>;
  /** Answer, end and events in one. False: the turn had ended already, or its job is held by someone else. */
  finish(end: {
    turn_id: string;
    conversation_id: string;
    state: Extract<TurnState, "success" | "failed" | "interrupted" | "cancelled">;
    error: string | null;
    ended_at: number;
    message?: MessageRow;
    outbox: Outbox[];
    lease?: Lease;
  }): Promise<boolean>;
  /** Ends the turns of a conversation that wait for a job or an approval, or the one named; which they were. */
  cancelQueued(which: {
    conversation_id: string;
    turn_id?: string;
    /** These end by themselves. */
    but: string[];
    ended_at: number;
  }): Promise<string[]>;
  /** Keeps a title, where there is none yet, and what the user may say next; each where given. */
  note(id: string, notes: { title?: string; suggested_replies?: string[] }): Promise<void>;
  /** Turns of streams that have not ended: at start, those that the program died under. */
  unfinishedStreams(): Promise<TurnRow[]>;
  /** Turns of an agent that stream right now, or wait for approval. */
  underway(agent_id: string): Promise<Pick<TurnRow, "id" | "conversation_id">[]>;
  /** Those of the turns that are gone with their conversation, or stream for an agent that is gone. */
  orphans(turn_ids: string[]): Promise<string[]>;
};
