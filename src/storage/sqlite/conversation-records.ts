import { and, count, desc, eq, sql } from "drizzle-orm";
import type {
  ConversationRecords,
  Feedback,
  OpenTurn,
  RecordedMessage,
  TurnLink,
} from "../../agents/conversation-records.ts";
import type { ConversationRow } from "../../agents/conversation-store.ts";
import { activate } from "./branches.ts";
import type { Connection } from "./connection.ts";
import { type ConversationText, conversation, type MessageText, message } from "./conversations.ts";
import { insertOutbox } from "./events.ts";
import { wakeJob } from "./jobs.ts";
import type { Storage } from "./storage.ts";
import { conversations } from "./tables.ts";

type RecordedText = MessageText & { feedback: string | null; active: number };
const recorded = (row: RecordedText): RecordedMessage => ({
  ...message(row),
  feedback: row.feedback === null ? null : (JSON.parse(row.feedback) as Feedback),
  active: row.active === 1,
});

const found = (db: Connection, id: string): ConversationRow | undefined => {
  const row = db.get<ConversationText>("SELECT * FROM conversations WHERE id = ?", id);
  return row && conversation(row);
};

type Change = Parameters<ConversationRecords["update"]>[1];

function update(db: Connection, { id, change }: { id: string; change: Change }): ConversationRow | undefined {
  if (Object.keys(change).length > 0) {
    db.orm.update(conversations).set(change).where(eq(conversations.id, id)).run();
  }
  return found(db, id);
}

function complete(
  db: Connection,
  { id, ended_as, completed_at, change, unlessBusy, outbox }: Parameters<ConversationRecords["complete"]>[0],
): ConversationRow | undefined {
  const isBusy = unlessBusy
    ? db.get("SELECT 1 FROM turns WHERE conversation_id = ? AND ended_at IS NULL LIMIT 1", id)
    : undefined;
  if (isBusy) return undefined;
  const ended = db.run(
    "UPDATE conversations SET status = 'completed', ended_as = ?, completed_at = ? WHERE id = ? AND status = 'active'",
    ended_as,
    completed_at,
    id,
  );
  if (ended === 0) return undefined;
  insertOutbox(db, outbox);
  return update(db, { id, change });
}

function remove(db: Connection, { id, now }: { id: string; now: number }): OpenTurn[] {
  const open = db.all<OpenTurn>(
    "SELECT id, asked_by FROM turns WHERE conversation_id = ? AND ended_at IS NULL",
    id,
  );
  for (const { asked_by } of open) if (asked_by !== null) wakeJob(db, asked_by, now);
  for (const table of ["turn_steps", "turn_words"]) {
    db.run(`DELETE FROM ${table} WHERE turn_id IN (SELECT id FROM turns WHERE conversation_id = ?)`, id);
  }
  for (const table of ["messages", "approvals", "turns", "attachments", "trigger_events"]) {
    db.run(`DELETE FROM ${table} WHERE conversation_id = ?`, id);
  }
  db.run("DELETE FROM conversations WHERE id = ?", id);
  return open;
}

function choose(
  db: Connection,
  { conversation_id, turn_id }: { conversation_id: string; turn_id: string },
): void {
  const newest = db.all<{ id: string; parent_id: string }>(
    "SELECT id, parent_id FROM turns WHERE conversation_id = ? AND parent_id IS NOT NULL ORDER BY id",
    conversation_id,
  );
  // By the turn before it; the last one written is the newest.
  const next = new Map(newest.map(({ id, parent_id }) => [parent_id, id]));
  let leaf = turn_id;
  for (let child = next.get(leaf); child !== undefined; child = next.get(leaf)) leaf = child;
  activate(db, conversation_id, leaf);
}

const findMessage = (db: Connection, id: string): RecordedMessage | undefined => {
  const row = db.get<RecordedText>("SELECT * FROM messages WHERE id = ?", id);
  return row && recorded(row);
};

function setFeedback(
  db: Connection,
  { message_id, feedback }: { message_id: string; feedback: Feedback | null },
): RecordedMessage | undefined {
  db.run("UPDATE messages SET feedback = ? WHERE id = ?", feedback && JSON.stringify(feedback), message_id);
  return findMessage(db, message_id);
}

export const conversationRecordWrites = {
  "conversations.update": update,
  "conversations.complete": complete,
  "conversations.remove": remove,
  "conversations.choose": choose,
  "messages.feedback": setFeedback,
};

export const sqliteConversationRecords = ({ reader, writer }: Storage): ConversationRecords => ({
  async list(of, { limit, offset, user_id, tag, status, waiting }) {
    const which = and(
      "agent_id" in of
        ? eq(conversations.agent_id, of.agent_id)
        : eq(conversations.project_id, of.project_id),
      user_id === undefined ? undefined : eq(conversations.user_id, user_id),
      status === undefined ? undefined : eq(conversations.status, status),
      tag === undefined
        ? undefined
        : sql`EXISTS (SELECT 1 FROM json_each(${conversations.tags}) WHERE value = ${tag})`,
      waiting
        ? sql`EXISTS (SELECT 1 FROM approvals WHERE conversation_id = ${conversations.id} AND state = 'pending')`
        : undefined,
    );
    const items = reader.orm.select().from(conversations).where(which).orderBy(desc(conversations.id));
    return {
      items: items.limit(limit).offset(offset).all() as ConversationRow[],
      total: reader.orm.select({ n: count() }).from(conversations).where(which).get()!.n,
    };
  },
  called: async (client_id, most) =>
    reader.orm
      .select()
      .from(conversations)
      .where(eq(conversations.client_id, client_id))
      .limit(most)
      .all() as ConversationRow[],
  everything: async (conversation_id) => ({
    messages: reader
      .all<RecordedText>(
        "SELECT * FROM messages WHERE conversation_id = ? ORDER BY turn_id, id",
        conversation_id,
      )
      .map(recorded),
    turns: reader.all<TurnLink>(
      "SELECT id, state, error, hop, parent_id, answers FROM turns WHERE conversation_id = ? ORDER BY id",
      conversation_id,
    ),
  }),
  async message(conversation_id, id) {
    const row = reader.get<RecordedText>(
      `SELECT * FROM messages WHERE conversation_id = ? AND (id = ? OR client_id = ?)
       ORDER BY turn_id DESC, id DESC LIMIT 1`,
      conversation_id,
      id,
      id,
    );
    return row && recorded(row);
  },
  turnLink: async (id) =>
    reader.get<TurnLink>("SELECT id, state, error, hop, parent_id, answers FROM turns WHERE id = ?", id),
  async lastSaid(conversation_id) {
    const row = reader.get<MessageText & { count: number }>(
      `SELECT *, count(*) OVER () AS count FROM messages
       WHERE conversation_id = ? AND role = 'user' AND active = 1 ORDER BY turn_id DESC LIMIT 1`,
      conversation_id,
    );
    return row && { message: message(row), count: row.count };
  },
  update: (id, change) => writer.submit("conversations.update", { id, change }),
  complete: (end) => writer.submit("conversations.complete", end),
  remove: (id, now) => writer.submit("conversations.remove", { id, now }),
  choose: (conversation_id, turn_id) => writer.submit("conversations.choose", { conversation_id, turn_id }),
  setFeedback: (message_id, feedback) => writer.submit("messages.feedback", { message_id, feedback }),
  idle: async (now, limit) =>
    reader
      .all<ConversationText>(
        `SELECT * FROM conversations WHERE status = 'active' AND idle_at <= ?
           AND NOT EXISTS (SELECT 1 FROM turns WHERE conversation_id = conversations.id AND ended_at IS NULL)
         ORDER BY idle_at LIMIT ?`,
        now,
        limit,
      )
      .map(conversation),
});
