import type { Outbox } from "../events/store.ts";
import type { ConversationRow, MessageRow, TurnRow } from "./conversation-store.ts";

export type Feedback = { rating: "up" | "down"; comment: string | null; given_at: number };

/** A message as it is kept: those of branches that are not chosen as well. */
export type RecordedMessage = MessageRow & { feedback: Feedback | null; active: boolean };

/** Where a turn stands in the tree of its conversation. */
export type TurnLink = Pick<TurnRow, "id" | "state" | "error" | "hop" | "parent_id" | "answers">;

/** A turn that has not ended, and the execution that waits for it. */
export type OpenTurn = Pick<TurnRow, "id" | "asked_by">;

export type ConversationChange = Partial<
  Pick<ConversationRow, "title" | "tags" | "metadata" | "resolution" | "satisfaction_score">
>;

/** What administration does with conversations; what turns do with them is the conversation store's. */
export type ConversationRecords = {
  /** Newest first. */
  list(
    of: { agent_id: string } | { project_id: string },
    which: {
      limit: number;
      offset: number;
      user_id?: string;
      tag?: string;
      status?: ConversationRow["status"];
      /** Only those with a call that waits for approval. */
      waiting?: boolean;
    },
  ): Promise<{ items: ConversationRow[]; total: number }>;
  /** Those that some client calls so, of whichever agent; at most so many. No index helps: for the command line. */
  called(client_id: string, most: number): Promise<ConversationRow[]>;
  /** Every message ever said, oldest first, and the tree of its turns. */
  everything(conversation_id: string): Promise<{ messages: RecordedMessage[]; turns: TurnLink[] }>;
  /** A message by its own id or by the client's, the newest of that name. */
  message(conversation_id: string, id: string): Promise<RecordedMessage | undefined>;
  turnLink(id: string): Promise<TurnLink | undefined>;
  /** The newest message of the user on the chosen branch, and how many there are. */
  lastSaid(conversation_id: string): Promise<{ message: MessageRow; count: number } | undefined>;
  update(id: string, change: ConversationChange): Promise<ConversationRow | undefined>;
  /** With its event in one. Undefined: it had completed already, or `unlessBusy` and a turn is open. */
  complete(end: {
    id: string;
    ended_as: "resolved" | "idle";
    completed_at: number;
    change: ConversationChange;
    unlessBusy: boolean;
    outbox: Outbox[];
  }): Promise<ConversationRow | undefined>;
  /** With all that belongs to it; which turns had not ended. Executions that asked for those are due. */
  remove(id: string, now: number): Promise<OpenTurn[]>;
  /** The branch of this turn, down to its newest message, is the chosen one. */
  choose(conversation_id: string, turn_id: string): Promise<void>;
  setFeedback(message_id: string, feedback: Feedback | null): Promise<RecordedMessage | undefined>;
  /** Active ones that have idled long enough. */
  idle(now: number, limit: number): Promise<ConversationRow[]>;
};
