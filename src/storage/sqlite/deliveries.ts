import { BATCH_KIND } from "../../events/schema.ts";
import { bytesOf, type EventRow, type PlannedDelivery } from "../../events/store.ts";
import type { JobRow } from "../../jobs/job.ts";
import type { AttemptResult, AttemptRow, DeliveryStore, DeliveryTarget } from "../../webhooks/store.ts";
import { raiseAlert } from "./alerts.ts";
import type { Connection } from "./connection.ts";
import { countAttempt, forgetFigures } from "./delivery-figures.ts";
import { deliveryRecords } from "./delivery-records.ts";
import { finishJob, holdJob, releaseJob } from "./jobs.ts";
import { resend, resendReads } from "./resend.ts";
import type { Storage } from "./storage.ts";
import { advanceLine, closeBatch, leaveLine, release } from "./waiting.ts";

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
  countResult(db, result);
  countAttempt(db, result);
  const pausedBy = pause(db, result);
  raiseAlert(db, { ...result, pause: pausedBy }, pausedBy !== null);
  if (result.next && next_attempt_at === null) {
    takeTurn(db, result.subscription_id, attempt.delivery_id, result.next);
  }
  return true;
}

const COUNT = `UPDATE subscriptions SET total_deliveries = total_deliveries + ?1,
    successful_deliveries = successful_deliveries + ?2, failed_deliveries = failed_deliveries + ?3,
    last_delivery_at = ?4, failing_since = CASE WHEN ?2 THEN NULL ELSE coalesce(failing_since, ?4) END
  WHERE id = ?5`;

function countResult(db: Connection, { attempt, state, subscription_id: id }: AttemptResult): void {
  const first = attempt.number === 1 ? 1 : 0;
  const key = `subscription ${id}`;
  if (state !== "success") {
    db.tell(key); // since when it fails is asked of this result alone
    db.run(COUNT, first, 0, state === "failed" ? 1 : 0, attempt.started_at, id);
    return;
  }
  const sum = db.tally(
    key,
    () => ({ first: 0, good: 0, at: 0 }),
    ({ first, good, at }) => db.run(COUNT, first, good, 0, at, id),
  );
  sum.first += first;
  sum.good++;
  sum.at = attempt.started_at;
}

/** Why this result pauses the subscription, if it does and nothing did before. */
function pause(db: Connection, { subscription_id, pause, pause_if }: AttemptResult): string | null {
  const reason = pause ?? pause_if?.reason ?? null;
  if (reason === null) return null;
  const paused = db.run(
    `UPDATE subscriptions SET status = 'paused', status_reason = ?1
     WHERE id = ?2 AND status = 'active' AND (?3 IS NULL OR failing_since <= ?3)`,
    reason,
    subscription_id,
    pause === null ? (pause_if?.failing_since ?? null) : null,
  );
  return paused === 1 ? reason : null;
}

/** Whoever left the line makes room for the next. */
function takeTurn(db: Connection, subscription_id: string, delivery_id: string, next: JobRow): void {
  if (leaveLine(db, subscription_id, delivery_id)) advanceLine(db, subscription_id, next);
}

type Settling = Parameters<DeliveryStore["settle"]>[0];

function settle(db: Connection, end: Settling): "settled" | "again" | "lost" {
  const { lease, delivery_id, subscription_id, state, at } = end;
  const subscription = db.get<{ status: string }>(
    "SELECT status FROM subscriptions WHERE id = ?",
    subscription_id,
  );
  // Resumed meanwhile: the release may have passed already, and would not come again for this one.
  if (state === "paused" && subscription?.status === "active") {
    return releaseJob(db, lease, at, "resumed") ? "again" : "lost";
  }
  if (!finishJob(db, lease)) return "lost";
  db.run(
    "UPDATE deliveries SET state = ?, reason = ?, next_attempt_at = NULL, ended_at = ? WHERE id = ?",
    state,
    end.reason,
    state === "paused" ? null : at,
    delivery_id,
  );
  closeBatch(db, subscription_id, delivery_id);
  const left = leaveLine(db, subscription_id, delivery_id);
  if (left && end.next) advanceLine(db, subscription_id, end.next);
  return "settled";
}

type Writing = Parameters<DeliveryStore["write"]>[0];

function write(db: Connection, { lease, delivery_id, subscription_id, body, line }: Writing): boolean {
  if (line === null) {
    if (!holdJob(db, lease)) return false;
    db.run(
      "UPDATE deliveries SET body = ?, state = replace(state, 'collecting', 'pending') WHERE id = ?",
      body,
      delivery_id,
    );
    return true;
  }
  if (!finishJob(db, lease)) return false;
  db.run(
    "UPDATE deliveries SET body = ?, state = 'held', next_attempt_at = NULL WHERE id = ?",
    body,
    delivery_id,
  );
  advanceLine(db, subscription_id, line);
  return true;
}

export const deliveryWrites = {
  "deliveries.record": record,
  "deliveries.forgetFigures": forgetFigures,
  "deliveries.settle": settle,
  "deliveries.write": write,
  "deliveries.release": release,
  "deliveries.closeBatch": (
    db: Connection,
    { subscription_id, batch_id }: { subscription_id: string; batch_id: string },
  ): void => closeBatch(db, subscription_id, batch_id),
  "deliveries.resend": resend,
};

type TargetText = Omit<DeliveryTarget, "retry_policy"> & { retry_policy: string | null };

export const sqliteDeliveries = ({ reader, writer }: Storage): DeliveryStore => ({
  find: async (id) => {
    const row = reader.get<PlannedDelivery & { data: string | null }>(
      `SELECT d.*, (SELECT e.data FROM events e WHERE d.head IS NOT NULL AND e.id = d.event_id) AS data
       FROM deliveries d WHERE d.id = ?`,
      id,
    );
    if (!row) return undefined;
    const { head, data, ...delivery } = row;
    return { ...delivery, body: data === null ? row.body : bytesOf(row, data) };
  },
  target: async (subscription_id) =>
    reader.shared(`subscription ${subscription_id}`, () => {
      const row = reader.get<TargetText>(
        `SELECT id, url, status, status_reason, ordered, secret, previous_secret, previous_secret_until,
           authentication, headers, retry_policy, concurrency, rate_limit_per_second
         FROM subscriptions WHERE id = ?`,
        subscription_id,
      );
      return row && { ...row, retry_policy: row.retry_policy === null ? null : JSON.parse(row.retry_policy) };
    }),
  record: (result) => writer.submit("deliveries.record", result, "lazy"),
  settle: (end) => writer.submit("deliveries.settle", end, "lazy"),
  unwritten: async ({ id, kind, event_id, subscription_id }) => {
    const events =
      kind === BATCH_KIND
        ? reader.all<EventRow>(
            `SELECT e.* FROM deliveries d JOIN events e ON e.id = d.event_id
             WHERE d.batch_id = ? ORDER BY e.created_at, d.id`,
            id,
          )
        : reader.all<EventRow>("SELECT * FROM events WHERE id = ?", event_id);
    if (events.length === 0) return undefined;
    const row = reader.get<{ filters: string | null }>(
      "SELECT filters FROM subscriptions WHERE id = ?",
      subscription_id,
    );
    return { events, filters: row?.filters ? JSON.parse(row.filters) : null };
  },
  closeBatch: (batch) => writer.submit("deliveries.closeBatch", batch),
  write: (written) => writer.submit("deliveries.write", written),
  release: (slice) => writer.submit("deliveries.release", slice),
  resend: (slice) => writer.submit("deliveries.resend", slice),
  ...resendReads(reader),
  event: async (id) => reader.get<EventRow>("SELECT * FROM events WHERE id = ?", id),
  attempts: async (delivery_id) =>
    reader.all<AttemptRow>("SELECT * FROM attempts WHERE delivery_id = ? ORDER BY number", delivery_id),
  ...deliveryRecords(reader),
  forgetFigures: (before, limit) => writer.submit("deliveries.forgetFigures", { before, limit }, "lazy"),
});
