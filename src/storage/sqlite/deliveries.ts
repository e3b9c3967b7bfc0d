import type { DeliveryRow, EventRow } from "../../events/store.ts";
import type { JobRow, Lease } from "../../jobs/job.ts";
import type { AttemptResult, AttemptRow, DeliveryStore, DeliveryTarget } from "../../webhooks/store.ts";
import { raiseAlert } from "./alerts.ts";
import type { Connection } from "./connection.ts";
import { countAttempt, forgetFigures } from "./delivery-figures.ts";
import { deliveryRecords } from "./delivery-records.ts";
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
  countAttempt(db, result);
  const paused =
    result.pause !== null &&
    db.run(
      "UPDATE subscriptions SET status = 'paused', status_reason = ? WHERE id = ? AND status = 'active'",
      result.pause,
      result.subscription_id,
    ) === 1;
  raiseAlert(db, result, paused);
  return true;
}

type Settled = { lease: Lease; delivery_id: string; state: string; reason: string; at: number };

export const deliveryWrites = {
  "deliveries.record": record,
  "deliveries.forgetFigures": forgetFigures,
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
  ...deliveryRecords(reader),
  forgetFigures: (before, limit) => writer.submit("deliveries.forgetFigures", { before, limit }, "lazy"),
});
