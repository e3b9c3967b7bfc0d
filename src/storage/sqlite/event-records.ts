import type { AnswerRow, Bystander, EventFilter, EventRecordStore, EventRow } from "../../events/store.ts";
import { type Place, walk } from "../../lib/feed.ts";
import type { Bind, Connection } from "./connection.ts";
import type { Storage } from "./storage.ts";

const MOST_COUNTED = 10_000;
const MOST_BYSTANDERS = 1_000;

type Listed = Omit<EventRow, "data">;

const COLUMNS = "id, project_id, kind, subject_id, created_at";

/** The rows that a filter looks through: by subject where one is named, else all of the project. */
const source = (project_id: string, { subject_id, since }: EventFilter): [string, Bind[]] =>
  subject_id === undefined
    ? ["FROM events WHERE project_id = ? AND created_at >= ?", [project_id, since]]
    : [
        "FROM events WHERE subject_id = ? AND created_at >= ? AND project_id = ?",
        [subject_id, since, project_id],
      ];

function list(db: Connection, project_id: string, filter: EventFilter) {
  const [from, binds] = source(project_id, filter);
  const { event } = filter;
  // Ids and kinds come out of the index; whole rows are read for what is shown.
  const { items, next } = walk(
    filter,
    ({ created_at, id }, count) =>
      db.all<Place & { kind: string }>(
        `SELECT id, created_at, kind ${from} AND (created_at, id) < (?, ?)
         ORDER BY created_at DESC, id DESC LIMIT ?`,
        ...binds,
        created_at,
        id,
        count,
      ),
    ({ kind }) => event === undefined || kind === event,
  );
  return {
    items: items.map(({ id }) => db.get<Listed>(`SELECT ${COLUMNS} FROM events WHERE id = ?`, id)!),
    next,
  };
}

function count(db: Connection, project_id: string, filter: EventFilter): number | undefined {
  const [from, binds] = source(project_id, filter);
  const { event } = filter;
  const rows = db.all<{ kind: string; count: number }>(
    `SELECT kind, count(*) AS count FROM (SELECT kind ${from} LIMIT ?) GROUP BY kind`,
    ...binds,
    MOST_COUNTED + 1,
  );
  const sum = (each: { count: number }[]) => each.reduce((total, row) => total + row.count, 0);
  if (sum(rows) > MOST_COUNTED) return undefined;
  return sum(rows.filter(({ kind }) => event === undefined || kind === event));
}

const ANSWER = `SELECT d.id, d.event_id, d.subscription_id, d.kind, d.state, d.reason, d.hop, d.attempts,
    d.attempts_max, d.response_code, d.response_time_ms, d.next_attempt_at, d.created_at, d.ended_at,
    d.batch_id, coalesce(a.started_at, d.attempted_at) AS attempted_at, a.error_class
  FROM deliveries d LEFT JOIN attempts a ON a.delivery_id = d.id AND a.number = d.attempts`;

export const sqliteEventRecords = ({ reader }: Pick<Storage, "reader">): EventRecordStore => ({
  get: async (id) => reader.get<EventRow>("SELECT * FROM events WHERE id = ?", id),
  list: async (project_id, filter) => list(reader, project_id, filter),
  count: async (project_id, filter) => count(reader, project_id, filter),
  answers: async (event_id) =>
    reader.all<AnswerRow>(`${ANSWER} WHERE d.event_id = ? ORDER BY d.created_at, d.id`, event_id),
  batch: async (id) => reader.get<AnswerRow>(`${ANSWER} WHERE d.id = ?`, id),
  bystanders: async (project_id) =>
    reader
      .all<Omit<Bystander, "events"> & { events: string }>(
        "SELECT id, name, events, created_at FROM subscriptions WHERE project_id = ? ORDER BY id LIMIT ?",
        project_id,
        MOST_BYSTANDERS,
      )
      .map((row) => ({ ...row, events: JSON.parse(row.events) })),
});
