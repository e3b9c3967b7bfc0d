import { type Place, type Stretch, walk } from "../../lib/feed.ts";
import type { DeliveryStats, DeliveryStore, Figure, LogFilter, LogRow } from "../../webhooks/store.ts";
import type { Connection } from "./connection.ts";

// More are told as "this many": counting half a million rows for a figure on a page is not worth it.
const MOST_COUNTED = 10_000;

const ENTRY = `SELECT d.id, d.event_id, d.subscription_id, d.kind, d.state, d.reason, d.hop, d.attempts,
    d.attempts_max, d.response_code, d.response_time_ms, d.next_attempt_at, d.created_at, d.ended_at,
    CASE WHEN d.head IS NULL THEN octet_length(d.body)
      ELSE octet_length(d.head) + (SELECT octet_length(e.data) + 1 FROM events e WHERE e.id = d.event_id)
    END AS payload_size, coalesce(a.started_at, d.attempted_at) AS attempted_at,
    coalesce(a.response_excerpt, d.response_excerpt) AS response_excerpt, a.error_class, a.error
  FROM deliveries d LEFT JOIN attempts a ON a.delivery_id = d.id AND a.number = d.attempts
  WHERE d.id = ?`;

const UNSTORED = `SELECT id FROM deliveries d WHERE subscription_id = ? AND state = 'pending'
  AND NOT EXISTS (SELECT 1 FROM jobs WHERE ref = d.id)`;

type Candidate = Place & { kind: string; state?: string };

const BELOW = `created_at >= ? AND (created_at, id) < (?, ?)
  ORDER BY created_at DESC, id DESC LIMIT ?`;

/** Three ways to the same list, by what an index can answer. */
function candidates(db: Connection, subscription_id: string, { since, status }: LogFilter) {
  const read = (sql: string, ...before: string[]) => {
    return ({ created_at, id }: Place, count: number) =>
      db.all<Candidate>(`${sql} AND ${BELOW}`, ...before, since, created_at, id, count);
  };
  if (status === undefined)
    return read("SELECT id, created_at, kind FROM deliveries WHERE subscription_id = ?", subscription_id);
  if (status === "pending" || status === "success")
    return read(
      "SELECT id, created_at, kind, state FROM deliveries WHERE subscription_id = ?",
      subscription_id,
    );
  return read(
    `SELECT id, created_at, kind, state FROM deliveries
     WHERE subscription_id = ? AND state = ? AND state NOT IN ('pending', 'success')`,
    subscription_id,
    status,
  );
}

function logs(db: Connection, subscription_id: string, filter: LogFilter): Stretch<LogRow> {
  const { status, event } = filter;
  const { items, next } = walk(
    filter,
    candidates(db, subscription_id, filter),
    ({ kind, state }) =>
      (event === undefined || kind === event) && (status === undefined || state === status),
  );
  return { items: items.map(({ id }) => db.get<LogRow>(ENTRY, id)!), next };
}

/** Reads that show what became of deliveries; each bounded, whatever the table holds. */
export const deliveryRecords = (reader: Connection): Pick<DeliveryStore, "logs" | "stats"> => ({
  logs: async (subscription_id, filter) => logs(reader, subscription_id, filter),
  stats: async (subscription_id, { sample, since, now }): Promise<DeliveryStats> => {
    const figures = reader.all<Figure>(
      `SELECT hour, kind, outcome, speed, count FROM delivery_figures
       WHERE subscription_id = ? AND hour >= ? ORDER BY hour`,
      subscription_id,
      since,
    );
    // Those that wait for a time have a job; those on their first attempt, or waiting for a slot, are pending.
    const count = (sql: string) =>
      reader.get<{ count: number }>(
        `SELECT count(*) AS count FROM (${sql} LIMIT ?)`,
        subscription_id,
        MOST_COUNTED,
      )?.count ?? 0;
    const waiting =
      count("SELECT 1 FROM jobs WHERE lane = 'deliveries' AND key = ? AND state = 'ready'") + count(UNSTORED);
    const first = (after: number) =>
      reader.get<{ at: number | null }>(
        `SELECT min(run_at) AS at FROM jobs
         WHERE lane = 'deliveries' AND key = ? AND state = 'ready' AND run_at > ?`,
        subscription_id,
        after,
      )?.at ?? null;
    const unstored = reader.get<{ at: number }>(
      `SELECT created_at AS at FROM deliveries WHERE id = (${UNSTORED} ORDER BY id LIMIT 1)`,
      subscription_id,
    )?.at;
    const oldest = Math.min(first(-1) ?? Number.POSITIVE_INFINITY, unstored ?? Number.POSITIVE_INFINITY);
    // From the newest deliveries to their attempts, never the other way.
    const times = reader.all<{ response_time_ms: number }>(
      `SELECT coalesce(a.response_time_ms, d.response_time_ms) AS response_time_ms FROM (
         SELECT id, response_time_ms, attempted_at FROM deliveries
         WHERE subscription_id = ? ORDER BY created_at DESC, id DESC LIMIT ?) d
       LEFT JOIN attempts a ON a.delivery_id = d.id
       WHERE a.response_code IS NOT NULL OR d.attempted_at IS NOT NULL LIMIT ?`,
      subscription_id,
      2 * sample,
      sample,
    );
    return {
      figures,
      waiting: Math.min(waiting, MOST_COUNTED),
      oldest_due_at: oldest <= now ? oldest : null,
      next_attempt_at: first(now),
      response_times: times.map((row) => row.response_time_ms),
    };
  },
});
