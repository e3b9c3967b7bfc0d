import type { Place } from "../../lib/feed.ts";
import type { Kind, OldRow, RetentionStore, WorkflowRetention } from "../../retention/store.ts";
import type { WorkflowSettings } from "../../workflows/schema.ts";
import type { Connection } from "./connection.ts";
import { dropWords } from "./conversations.ts";
import type { Storage } from "./storage.ts";

/** What one commit deletes at most: rows, and characters, since long values lie in pages of their own. */
const MOST_ROWS = 500;
const MOST_CHARACTERS = 4 * 1024 * 1024;
type Room = { rows: number; characters: number };

const SETTLED = "('success', 'failed', 'filtered', 'cancelled', 'batched')";

const take = (room: Room, size: number): void => {
  room.rows--;
  room.characters -= size;
};
const isFull = (room: Room): boolean => room.rows <= 0 || room.characters <= 0;

type Sized<T> = T & { size: number };

/** With its steps, of which there may be more than a slice holds: false when some are left. */
function dropExecution(db: Connection, id: string, room: Room): boolean {
  const row = db.get<{ size: number }>(
    `SELECT octet_length(input) + coalesce(octet_length(output), 0) + coalesce(octet_length(steps), 0) AS size
     FROM executions
     WHERE id = ? AND state IN ('success', 'failed', 'cancelled')`,
    id,
  );
  if (!row) return true;
  const steps = db.all<Sized<{ position: string }>>(
    `SELECT position, coalesce(octet_length(input), 0) + coalesce(octet_length(output), 0) AS size
     FROM steps WHERE execution_id = ? LIMIT ?`,
    id,
    MOST_ROWS + 1,
  );
  for (const { position, size } of steps) {
    if (isFull(room)) return false;
    db.run("DELETE FROM steps WHERE execution_id = ? AND position = ?", id, position);
    take(room, size);
  }
  if (isFull(room)) return false;
  db.run("DELETE FROM waits WHERE execution_id = ?", id);
  db.run("DELETE FROM executions WHERE id = ?", id);
  take(room, row.size);
  return true;
}

/** What a conversation is made of, by the row, and how long each is. */
const CONVERSATION_PARTS = [
  ["attachments", "octet_length(bytes)"],
  ["messages", "octet_length(parts)"],
  ["approvals", "octet_length(args)"],
  ["turns", "0"],
] as const;

/** With its messages, of which there may be more than a slice holds. */
function dropConversation(db: Connection, id: string, room: Room): boolean {
  if (!db.get("SELECT 1 FROM conversations WHERE id = ? AND status = 'completed'", id)) return true;
  for (const [table, size] of CONVERSATION_PARTS) {
    const parts = db.all<Sized<{ id: string }>>(
      `SELECT id, ${size} AS size FROM ${table} WHERE conversation_id = ? LIMIT ?`,
      id,
      MOST_ROWS + 1,
    );
    for (const part of parts) {
      if (isFull(room)) return false;
      if (table === "turns") {
        db.run("DELETE FROM turn_steps WHERE turn_id = ?", part.id);
        dropWords(db, part.id);
      }
      db.run(`DELETE FROM ${table} WHERE id = ?`, part.id);
      take(room, part.size);
    }
  }
  if (isFull(room)) return false;
  db.run("DELETE FROM conversations WHERE id = ?", id);
  take(room, 0);
  return true;
}

function dropDelivery(db: Connection, id: string, room: Room): boolean {
  const row = db.get<{ size: number; attempts: number }>(
    `SELECT octet_length(body) AS size, attempts FROM deliveries WHERE id = ? AND state IN ${SETTLED}`,
    id,
  );
  if (!row) return true;
  db.run("DELETE FROM attempts WHERE delivery_id = ?", id);
  db.run("DELETE FROM deliveries WHERE id = ?", id);
  room.rows -= row.attempts;
  take(room, row.size);
  return true;
}

function dropEvent(db: Connection, id: string, room: Room): boolean {
  const row = db.get<{ size: number }>(
    `SELECT octet_length(data) AS size FROM events
     WHERE id = ? AND NOT EXISTS (SELECT 1 FROM deliveries WHERE event_id = events.id)`,
    id,
  );
  if (!row) return true;
  db.run("DELETE FROM events WHERE id = ?", id);
  take(room, row.size);
  return true;
}

function dropTriggerEvent(db: Connection, id: string, room: Room): boolean {
  const row = db.get<{ size: number }>(
    "SELECT octet_length(request) AS size FROM trigger_events WHERE id = ?",
    id,
  );
  if (!row) return true;
  db.run("DELETE FROM trigger_events WHERE id = ?", id);
  take(room, row.size);
  return true;
}

function dropAlert(db: Connection, id: string, room: Room): boolean {
  db.run("DELETE FROM alerts WHERE id = ? AND state != 'pending'", id);
  take(room, 0);
  return true;
}

const DROP: Record<Kind, (db: Connection, id: string, room: Room) => boolean> = {
  executions: dropExecution,
  trigger_events: dropTriggerEvent,
  conversations: dropConversation,
  deliveries: dropDelivery,
  events: dropEvent,
  alerts: dropAlert,
};

function drop(
  db: Connection,
  { kind, ids }: { kind: Kind; ids: string[] },
): { rows: number; left: string[] } {
  const room = { rows: MOST_ROWS, characters: MOST_CHARACTERS };
  let done = 0;
  while (done < ids.length && !isFull(room) && DROP[kind](db, ids[done]!, room)) done++;
  return { rows: MOST_ROWS - room.rows, left: ids.slice(done) };
}

function dropDefinitions(db: Connection, hashes: string[]): number {
  const used = namedDefinitions(db);
  return hashes
    .filter((hash) => !used.has(hash))
    .reduce((sum, hash) => sum + db.run("DELETE FROM definitions WHERE hash = ?", hash), 0);
}

const namedDefinitions = (db: Connection): Set<string> =>
  new Set(
    db
      .all<{ hash: string | null }>(
        `SELECT definition_hash AS hash FROM workflows UNION SELECT published_hash FROM workflows
         UNION SELECT definition_hash FROM workflow_versions`,
      )
      .flatMap(({ hash }) => (hash === null ? [] : [hash])),
  );

// Stepped through whole: the statement frees one page a step.
function reclaim(db: Connection, pages: number): { left: number; page_bytes: number } {
  if (pages > 0) db.raw.query(`PRAGMA incremental_vacuum(${Math.trunc(pages)})`).all();
  return {
    left: db.get<{ freelist_count: number }>("PRAGMA freelist_count")!.freelist_count,
    page_bytes: db.get<{ page_size: number }>("PRAGMA page_size")!.page_size,
  };
}

export const retentionWrites = {
  "retention.drop": drop,
  "retention.definitions": dropDefinitions,
  "retention.reclaim": reclaim,
};

const OWNER: Record<Kind, { table: string; column: string }> = {
  executions: { table: "executions", column: "workflow_id" },
  trigger_events: { table: "trigger_events", column: "trigger_id" },
  conversations: { table: "conversations", column: "agent_id" },
  deliveries: { table: "deliveries", column: "subscription_id" },
  events: { table: "events", column: "project_id" },
  alerts: { table: "alerts", column: "workspace_id" },
};

/** One look into the index for each owner, instead of one for each row. */
const ownersSql = ({ table, column }: { table: string; column: string }): string =>
  `WITH RECURSIVE each (owner) AS (
     SELECT min(${column}) FROM ${table}
     UNION ALL
     SELECT (SELECT min(${column}) FROM ${table} WHERE ${column} > each.owner) FROM each
     WHERE each.owner IS NOT NULL)
   SELECT owner FROM each WHERE owner IS NOT NULL`;

const RANGE = "(created_at, id) > (?2, ?3) AND (created_at, id) < (?4, ?5)";

// Ids and times come out of an index; whether it is over, out of the row or of the index of deliveries.
const OLD: Record<Kind, string> = {
  executions: `SELECT id, created_at, ended_at AS over_at FROM executions INDEXED BY executions_by_workflow
    WHERE workflow_id = ?1 AND ${RANGE} ORDER BY created_at, id LIMIT ?6`,
  trigger_events: `SELECT id, created_at, CASE WHEN NOT EXISTS
      (SELECT 1 FROM turns WHERE turns.id = trigger_events.turn_id AND ended_at IS NULL) THEN created_at END AS over_at
    FROM trigger_events WHERE trigger_id = ?1 AND ${RANGE} ORDER BY created_at, id LIMIT ?6`,
  // Their index has ids alone, which grow with time as well.
  conversations: `SELECT id, started_at AS created_at, CASE WHEN status = 'completed' AND NOT EXISTS
      (SELECT 1 FROM turns WHERE conversation_id = conversations.id AND ended_at IS NULL) THEN completed_at END AS over_at
    FROM conversations WHERE agent_id = ?1 AND id > ?3 AND started_at < ?4 ORDER BY id LIMIT ?6`,
  deliveries: `SELECT id, created_at, CASE WHEN state IN ${SETTLED} THEN coalesce(ended_at, created_at) END AS over_at
    FROM deliveries WHERE subscription_id = ?1 AND ${RANGE} ORDER BY created_at, id LIMIT ?6`,
  events: `SELECT id, created_at,
      CASE WHEN NOT EXISTS (SELECT 1 FROM deliveries WHERE event_id = events.id) THEN created_at END AS over_at
    FROM events WHERE project_id = ?1 AND ${RANGE} ORDER BY created_at, id LIMIT ?6`,
  alerts: `SELECT id, created_at, CASE WHEN state != 'pending' THEN coalesce(ended_at, created_at) END AS over_at
    FROM alerts WHERE workspace_id = ?1 AND ${RANGE} ORDER BY created_at, id LIMIT ?6`,
};

const NTH_ENDED = `SELECT created_at, id FROM executions INDEXED BY executions_by_workflow
  WHERE workflow_id = ?1 AND (created_at, id) < (?2, ?3) AND ended_at IS NOT NULL
  ORDER BY created_at DESC, id DESC LIMIT 1 OFFSET ?4`;

export const sqliteRetention = ({ reader, writer }: Storage): RetentionStore => ({
  owners: async (kind) => reader.all<{ owner: string }>(ownersSql(OWNER[kind])).map(({ owner }) => owner),
  old: async (kind, owner, { after, below, count }) =>
    reader.all<OldRow>(OLD[kind], owner, after.created_at, after.id, below.created_at, below.id, count),
  nthEnded: async (workflow_id, below, count) =>
    reader.get<Place>(NTH_ENDED, workflow_id, below.created_at, below.id, count - 1),
  ofWorkflows: async () => {
    const rows = reader.all<{ id: string; settings: string }>(
      "SELECT id, settings FROM workflows WHERE settings IS NOT NULL",
    );
    const own = new Map<string, WorkflowRetention>();
    for (const { id, settings } of rows) {
      const { retention } = JSON.parse(settings) as WorkflowSettings;
      if (retention) own.set(id, retention);
    }
    return own;
  },
  // No sync: a power cut that brings rows back brings them back to be pruned again.
  drop: (kind, ids) => writer.submit("retention.drop", { kind, ids }, "lazy"),
  looseDefinitions: async () => {
    const named = namedDefinitions(reader);
    const all = reader.all<{ hash: string }>("SELECT hash FROM definitions").map(({ hash }) => hash);
    return new Set(all.filter((hash) => !named.has(hash)));
  },
  definitionsInUse: async (after, count) =>
    reader.all("SELECT id, definition_hash FROM executions WHERE id > ? ORDER BY id LIMIT ?", after, count),
  dropDefinitions: (hashes) => writer.submit("retention.definitions", hashes, "lazy"),
  reclaim: (pages) => writer.submit("retention.reclaim", pages, "lazy"),
});
