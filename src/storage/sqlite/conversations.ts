import type {
  BeginOutcome,
  ConversationRow,
  ConversationStore,
  MessageRow,
  TurnRow,
} from "../../agents/conversation-store.ts";
import type { Lease } from "../../jobs/job.ts";
import { activate, placeOf } from "./branches.ts";
import type { Connection } from "./connection.ts";
import { insertOutbox } from "./events.ts";
import { claimIdempotency, keptClaim } from "./idempotency.ts";
import { finishJob, insertJob, runsJob, wakeJob } from "./jobs.ts";
import type { Storage } from "./storage.ts";
import { insertTriggerEvent } from "./triggers.ts";

type Beginning = Parameters<ConversationStore["begin"]>[0];
type Ending = Parameters<ConversationStore["finish"]>[0];

function begin(db: Connection, beginning: Beginning): BeginOutcome {
  const {
    conversation: c,
    isNew,
    message,
    turn,
    branch,
    outbox,
    job,
    idempotency,
    trigger_event,
    most_streams,
  } = beginning;
  if (isNew && findByClientId(db, c.agent_id, c.owner, c.client_id)) return { outcome: "raced" };
  if (most_streams !== undefined && !isNew && streamsOf(db, c.id) >= most_streams) {
    return (idempotency && keptClaim(db, idempotency)) ?? { outcome: "full" };
  }
  if (idempotency) {
    const claimed = claimIdempotency(db, idempotency);
    if (claimed.outcome !== "new") return claimed;
  }
  if (isNew) {
    db.run(
      `INSERT INTO conversations (id, agent_id, workspace_id, project_id, owner, client_id, user_id, title, status,
         metadata, message_count, started_at, updated_at, completed_at, idle_ms)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, NULL, ?)`,
      c.id,
      c.agent_id,
      c.workspace_id,
      c.project_id,
      c.owner,
      c.client_id,
      c.user_id,
      c.title,
      c.status,
      JSON.stringify(c.metadata),
      c.started_at,
      c.updated_at,
      c.idle_ms,
    );
  } else {
    // What is said in a completed conversation opens it again.
    db.run(
      `UPDATE conversations SET status = 'active', ended_as = NULL, completed_at = NULL, idle_ms = ?
       WHERE id = ? AND (status <> 'active' OR idle_ms <> ?)`,
      c.idle_ms,
      c.id,
      c.idle_ms,
    );
  }
  const { parent_id, answers } = placeOf(db, c.id, branch);
  db.run(
    `INSERT INTO turns (id, conversation_id, agent_id, workspace_id, project_id, state, source, message_id, error,
       hop, created_at, started_at, ended_at, parent_id, answers, asked_by, answer_id)
     VALUES (?, ?, ?, ?, ?, ?, ?, NULL, NULL, ?, ?, ?, NULL, ?, ?, ?, ?)`,
    turn.id,
    turn.conversation_id,
    turn.agent_id,
    turn.workspace_id,
    turn.project_id,
    turn.state,
    turn.source,
    turn.hop,
    turn.created_at,
    turn.started_at,
    parent_id,
    answers,
    turn.asked_by,
    turn.answer_id,
  );
  if (message) insertMessage(db, message);
  if (branch) activate(db, c.id, turn.id);
  if (trigger_event) insertTriggerEvent(db, trigger_event);
  if (job) insertJob(db, job);
  insertOutbox(db, outbox);
  return { outcome: "new" };
}

/** Messages of a conversation that stream, or wait to. */
const streamsOf = (db: Connection, conversation_id: string): number =>
  db.get<{ n: number }>(
    `SELECT count(*) AS n FROM turns
     WHERE conversation_id = ? AND ended_at IS NULL AND source = 'stream' AND state IN ('queued', 'running')`,
    conversation_id,
  )!.n;

/** Inserts a message, or replaces one that an answer had begun with before it waited. */
export function putMessage(db: Connection, message: MessageRow): void {
  const known = db.run(
    "UPDATE messages SET parts = ?, state = ?, usage = ? WHERE id = ?",
    JSON.stringify(message.parts),
    message.state,
    message.usage && JSON.stringify(message.usage),
    message.id,
  );
  if (known === 0) insertMessage(db, message);
}

function insertMessage(db: Connection, message: MessageRow): void {
  db.run(
    `INSERT INTO messages (id, conversation_id, turn_id, role, parts, state, usage, created_at, client_id, active)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, (SELECT active FROM turns WHERE id = ?))`,
    message.id,
    message.conversation_id,
    message.turn_id,
    message.role,
    JSON.stringify(message.parts),
    message.state,
    message.usage && JSON.stringify(message.usage),
    message.created_at,
    message.client_id ?? null,
    message.turn_id,
  );
  db.run(
    `UPDATE conversations SET message_count = message_count + (SELECT active FROM turns WHERE id = ?),
       updated_at = ?, idle_at = ? + idle_ms WHERE id = ?`,
    message.turn_id,
    message.created_at,
    message.created_at,
    message.conversation_id,
  );
}

function start(
  db: Connection,
  { id, lease, started_at }: { id: string; lease: Lease; started_at: number },
): boolean {
  if (!runsJob(db, lease)) return false;
  return (
    db.run(
      "UPDATE turns SET state = 'running', started_at = coalesce(started_at, ?) WHERE id = ? AND state IN ('queued', 'running')",
      started_at,
      id,
    ) === 1
  );
}

function finish(
  db: Connection,
  { turn_id, state, error, ended_at, message, outbox, lease }: Ending,
): boolean {
  if (lease && !finishJob(db, lease)) return false;
  const ended = db.run(
    `UPDATE turns SET state = ?, error = ?, message_id = coalesce(?, message_id), ended_at = ?, settings = NULL
     WHERE id = ? AND state IN ('queued', 'running')`,
    state,
    error,
    message?.id ?? null,
    ended_at,
    turn_id,
  );
  if (ended === 0) return false;
  wakeAsker(db, turn_id, ended_at);
  if (state === "success") countTurn(db, turn_id);
  db.run("DELETE FROM turn_steps WHERE turn_id = ?", turn_id); // they are in the answer now
  dropWords(db, turn_id);
  if (message) putMessage(db, message);
  insertOutbox(db, outbox);
  return true;
}

/** What was kept of a step under way. */
export function dropWords(db: Connection, turn_id: string): void {
  db.run("DELETE FROM turn_words WHERE turn_id = ?", turn_id);
}

/** A turn has ended: the execution that waits for it, where there is one, is due. */
function wakeAsker(db: Connection, turn_id: string, now: number): void {
  const turn = db.get<{ asked_by: string | null }>("SELECT asked_by FROM turns WHERE id = ?", turn_id);
  if (turn?.asked_by) wakeJob(db, turn.asked_by, now);
}

function cancelQueued(
  db: Connection,
  { conversation_id, turn_id, but, ended_at }: Parameters<ConversationStore["cancelQueued"]>[0],
): string[] {
  const ended = db.all<{ id: string }>(
    `UPDATE turns SET state = 'cancelled', ended_at = ?, settings = NULL
     WHERE conversation_id = ? AND (source <> 'stream' OR has_job = 1 OR state = 'waiting')
       AND ended_at IS NULL AND id = coalesce(?, id)
       AND id NOT IN (SELECT value FROM json_each(?)) RETURNING id`,
    ended_at,
    conversation_id,
    turn_id ?? null,
    JSON.stringify(but),
  );
  for (const { id } of ended) {
    wakeAsker(db, id, ended_at);
    db.run(
      "UPDATE messages SET state = 'stopped' WHERE state = 'waiting' AND turn_id = ? AND conversation_id = ?",
      id,
      conversation_id,
    );
    db.run(
      "UPDATE approvals SET state = 'denied', answered_at = ? WHERE turn_id = ? AND state = 'pending'",
      ended_at,
      id,
    );
    db.run("DELETE FROM turn_steps WHERE turn_id = ?", id);
  }
  return ended.map(({ id }) => id);
}

// Past a hundred the sum is halved with its count: what an agent took last year says little of today.
function countTurn(db: Connection, turn_id: string): void {
  const turn = db.get<{ agent_id: string; ms: number | null }>(
    "SELECT agent_id, ended_at - started_at AS ms FROM turns WHERE id = ?",
    turn_id,
  );
  if (turn?.ms == null) return;
  db.run(
    `UPDATE agents SET
       recent_turns = 1 + CASE WHEN recent_turns < 100 THEN recent_turns ELSE recent_turns / 2 END,
       recent_turn_ms = ? + CASE WHEN recent_turns < 100 THEN recent_turn_ms ELSE recent_turn_ms / 2 END
     WHERE id = ?`,
    Math.max(0, turn.ms),
    turn.agent_id,
  );
}

function note(
  db: Connection,
  { id, title, suggested_replies }: { id: string; title?: string; suggested_replies?: string[] },
): void {
  db.run(
    `UPDATE conversations SET title = coalesce(title, ?), suggested_replies = coalesce(?, suggested_replies)
     WHERE id = ?`,
    title ?? null,
    suggested_replies ? JSON.stringify(suggested_replies) : null,
    id,
  );
}

export const conversationWrites = {
  "conversations.note": note,
  "turns.cancelQueued": cancelQueued,
  "turns.begin": begin,
  "turns.start": start,
  "turns.finish": finish,
};

export type ConversationText = Omit<
  ConversationRow,
  "metadata" | "suggested_replies" | "tags" | "resolution"
> & {
  metadata: string;
  suggested_replies: string;
  tags: string;
  resolution: string | null;
};
export type MessageText = Omit<MessageRow, "parts" | "usage"> & { parts: string; usage: string | null };

export const conversation = (row: ConversationText): ConversationRow => ({
  ...row,
  metadata: JSON.parse(row.metadata),
  suggested_replies: JSON.parse(row.suggested_replies),
  tags: JSON.parse(row.tags),
  resolution: row.resolution === null ? null : JSON.parse(row.resolution),
});
export const message = (row: MessageText): MessageRow => ({
  ...row,
  parts: JSON.parse(row.parts),
  usage: row.usage === null ? null : JSON.parse(row.usage),
});

const findByClientId = (db: Connection, agent_id: string, owner: string, client_id: string) =>
  db.get<ConversationText>(
    "SELECT * FROM conversations WHERE agent_id = ? AND owner = ? AND client_id = ?",
    agent_id,
    owner,
    client_id,
  );

export const sqliteConversations = ({ reader, writer }: Storage): ConversationStore => ({
  async byClientId(agent_id, owner, client_id) {
    const row = findByClientId(reader, agent_id, owner, client_id);
    return row && conversation(row);
  },
  async get(id) {
    const row = reader.get<ConversationText>("SELECT * FROM conversations WHERE id = ?", id);
    return row && conversation(row);
  },
  messages: async (conversation_id) =>
    reader
      .all<MessageText>(
        "SELECT * FROM messages WHERE conversation_id = ? AND active = 1 ORDER BY turn_id, id",
        conversation_id,
      )
      .map(message),
  history: async ({ id, conversation_id }, last) =>
    reader
      .all<MessageText>(
        `SELECT * FROM messages WHERE conversation_id = ? AND turn_id <= ? AND active = 1
         ORDER BY turn_id DESC, id DESC LIMIT ?`,
        conversation_id,
        id,
        last,
      )
      .map(message)
      .reverse(),
  async message(id) {
    const row = reader.get<MessageText>("SELECT * FROM messages WHERE id = ?", id);
    return row && message(row);
  },
  turn: async (id) => reader.get<TurnRow>("SELECT * FROM turns WHERE id = ?", id),
  begin: (beginning) => writer.submit("turns.begin", beginning),
  start: (id, lease, started_at) => writer.submit("turns.start", { id, lease, started_at }, "lazy"),
  finish: (end) => writer.submit("turns.finish", end),
  cancelQueued: (which) => writer.submit("turns.cancelQueued", which),
  note: (id, notes) => writer.submit("conversations.note", { id, ...notes }, "lazy"),
  unfinishedStreams: async () =>
    reader.all<TurnRow>(
      "SELECT * FROM turns WHERE state IN ('queued', 'running') AND source = 'stream' AND has_job = 0",
    ),
  underway: async (agent_id) =>
    reader.all<Pick<TurnRow, "id" | "conversation_id">>(
      `SELECT id, conversation_id FROM turns INDEXED BY turns_open
       WHERE ended_at IS NULL AND agent_id = ? AND (state = 'waiting' OR state = 'running' AND source = 'stream')`,
      agent_id,
    ),
  orphans: async (turn_ids) =>
    reader
      .all<{ id: string }>(
        `SELECT asked.value AS id FROM json_each(?) AS asked LEFT JOIN turns ON turns.id = asked.value
         WHERE turns.id IS NULL
           OR turns.source = 'stream' AND NOT EXISTS (SELECT 1 FROM agents WHERE agents.id = turns.agent_id)`,
        JSON.stringify(turn_ids),
      )
      .map(({ id }) => id),
});
