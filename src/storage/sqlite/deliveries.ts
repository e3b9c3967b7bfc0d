import type { DeliveryRow, EventRow } from "../../events/store.ts";
import type { JobRow, Lease } from "../../jobs/job.ts";
import type {
  AttemptResult,
  AttemptRow,
  DeliveryStats,
  DeliveryStore,
  DeliveryTarget,
  LogRow,
} from "../../webhooks/store.ts";
import type { Connection } from "./connection.ts";
import { insertDelivery } from "./events.ts";
import { finishJob, insertJob, releaseJob } from "./jobs.ts";
import type { Storage } from "./storage.ts";

function record(db: Connection, result: AttemptResult): boolean {
  const { attempt, lease, next_attempt_at, state, reason } = result;
  const held =
    next_attempt_at === null ? finishJob(db, lease) : releaseJob(db, lease, next_attempt_at, reason ?? "");
  if (!held) return false;
  db.run(
    `INSERT INTO attempts (delivery_id, number, started_at, response_code, response_time_ms,
       response_excerpt, error_class, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    attempt.delivery_id,
    attempt.number,
    attempt.started_at,
    attempt.response_code,
    attempt.response_time_ms,
    attempt.response_excerpt,
    attempt.error_class,
    attempt.error,
  );
  db.run(
    `UPDATE deliveries SET state = ?, reason = ?, attempts = ?, response_code = ?, response_time_ms = ?,
       next_attempt_at = ?, ended_at = ? WHERE id = ?`,
    state,
    reason,
    attempt.number,
    attempt.response_code,
    attempt.response_time_ms,
    next_attempt_at,
    result.ended_at,
    attempt.delivery_id,
  );
  db.run(
    `UPDATE subscriptions SET total_deliveries = total_deliveries + ?,
       successful_deliveries = successful_deliveries + ?, failed_deliveries = failed_deliveries + ?,
       last_delivery_at = ? WHERE id = ?`,
    attempt.number === 1 ? 1 : 0,
    state === "success" ? 1 : 0,
    state === "failed" ? 1 : 0,
    attempt.started_at,
    result.subscription_id,
  );
  if (result.pause !== null) {
    db.run(
      "UPDATE subscriptions SET status = 'paused', status_reason = ? WHERE id = ? AND status = 'active'",
      result.pause,
      result.subscription_id,
    );
  }
  return true;
}

type Settled = { lease: Lease; delivery_id: string; state: string; reason: string; at: number };

export const deliveryWrites = {
  "deliveries.record": record,
  "deliveries.settle": (db: Connection, { lease, delivery_id, state, reason, at }: Settled): boolean => {
    if (!finishJob(db, lease)) return false;
    db.run(
      "UPDATE deliveries SET state = ?, reason = ?, next_attempt_at = NULL, ended_at = ? WHERE id = ?",
      state,
      reason,
      at,
      delivery_id,
    );
    return true;
  },
  "deliveries.insert": (db: Connection, { delivery, job }: { delivery: DeliveryRow; job: JobRow }): void => {
    insertDelivery(db, delivery);
    insertJob(db, job);
  },
};

type TargetText = Omit<DeliveryTarget, "retry_policy"> & { retry_policy: string | null };

// More are told as "this many": counting half a million rows for a figure on a page is not worth it.
const MOST_COUNTED = 10_000;

export const sqliteDeliveries = ({ reader, writer }: Storage): DeliveryStore => ({
  find: async (id) => reader.get<DeliveryRow>("SELECT * FROM deliveries WHERE id = ?", id),
  target: async (subscription_id) =>
    reader.shared(`subscription ${subscription_id}`, () => {
      const row = reader.get<TargetText>(
        `SELECT id, url, status, status_reason, secret, previous_secret, previous_secret_until,
           authentication, headers, retry_policy
         FROM subscriptions WHERE id = ?`,
        subscription_id,
      );
      return row && { ...row, retry_policy: row.retry_policy === null ? null : JSON.parse(row.retry_policy) };
    }),
  record: (result) => writer.submit("deliveries.record", result, "lazy"),
  settle: (end) => writer.submit("deliveries.settle", end, "lazy"),
  insert: (delivery, job) => writer.submit("deliveries.insert", { delivery, job }),
  event: async (id) => reader.get<EventRow>("SELECT * FROM events WHERE id = ?", id),
  attempts: async (delivery_id) =>
    reader.all<AttemptRow>("SELECT * FROM attempts WHERE delivery_id = ? ORDER BY number", delivery_id),
  logs: async (subscription_id, { limit, offset, status, event }) =>
    reader.all<LogRow>(
      `SELECT d.id, d.event_id, d.subscription_id, d.kind, d.state, d.reason, d.hop, d.attempts,
         d.attempts_max, d.response_code, d.response_time_ms, d.next_attempt_at, d.created_at, d.ended_at,
         octet_length(d.body) AS payload_size, a.started_at AS attempted_at, a.error_class
       FROM deliveries d LEFT JOIN attempts a ON a.delivery_id = d.id AND a.number = d.attempts
       WHERE d.subscription_id = ?1 AND (?2 IS NULL OR d.state = ?2) AND (?3 IS NULL OR d.kind = ?3)
       ORDER BY d.id DESC LIMIT ?4 OFFSET ?5`,
      subscription_id,
      status ?? null,
      event ?? null,
      limit,
      offset,
    ),
  stats: async (subscription_id, sample): Promise<DeliveryStats> => {
    const waiting = reader.get<{ count: number }>(
      `SELECT count(*) AS count FROM (
         SELECT 1 FROM jobs WHERE lane = 'deliveries' AND key = ? AND state = 'ready' LIMIT ?)`,
      subscription_id,
      MOST_COUNTED,
    );
    const next = reader.get<{ at: number | null }>(
      "SELECT min(run_at) AS at FROM jobs WHERE lane = 'deliveries' AND key = ? AND state = 'ready'",
      subscription_id,
    );
    const times = reader.all<{ response_time_ms: number }>(
      `SELECT a.response_time_ms FROM deliveries d JOIN attempts a ON a.delivery_id = d.id
       WHERE d.subscription_id = ? AND a.response_code IS NOT NULL ORDER BY d.id DESC LIMIT ?`,
      subscription_id,
      sample,
    );
    return {
      waiting: waiting?.count ?? 0,
      next_attempt_at: next?.at ?? null,
      response_times: times.map((row) => row.response_time_ms),
    };
  },
});
