import { BATCH_KIND, DELIVERY_JOB } from "../../events/kinds.ts";
import { bytesOf, type EventRow, type PlannedDelivery } from "../../events/store.ts";
import type { JobRow } from "../../jobs/job.ts";
import type { AttemptResult, AttemptRow, DeliveryStore, DeliveryTarget } from "../../webhooks/store.ts";
import { raiseAlert } from "./alerts.ts";
import type { Connection } from "./connection.ts";
import { countAttempt, countTimed, forgetFigures } from "./delivery-figures.ts";
import { deliveryRecords } from "./delivery-records.ts";
import { finishJob, holdJob, releaseJob } from "./jobs.ts";
import { resend, resendReads } from "./resend.ts";
import type { Storage } from "./storage.ts";
import { advanceLine, closeBatch, leaveLine, release } from "./waiting.ts";
import type { Writer } from "./writer.ts";

/** An attempt and what follows from it. False: the job is not held any more. */
function record(db: Connection, result: AttemptResult): boolean {
  const { attempt, lease, next_attempt_at, reason } = result;
  const held =
    lease.unstored ||
    (next_attempt_at === null ? finishJob(db, lease) : releaseJob(db, lease, next_attempt_at, reason ?? ""));
  if (!held || !noteAttempt(db, result)) return false;
  if (lease.unstored && next_attempt_at !== null)
    putDown(db, { delivery_id: attempt.delivery_id, at: next_attempt_at, reason: reason ?? "" });
  countResult(db, result);
  countAttempt(db, result);
  const pausedBy = pause(db, result);
  raiseAlert(db, { ...result, pause: pausedBy }, pausedBy !== null);
  if (result.next && next_attempt_at === null) {
    takeTurn(db, result.subscription_id, attempt.delivery_id, result.next);
  }
  return true;
}

const ATTEMPTED = `UPDATE deliveries SET state = ?1, reason = ?2, attempts = ?3, response_code = ?4,
    response_time_ms = ?5, next_attempt_at = ?6, ended_at = ?7, attempted_at = ?8, response_excerpt = ?9`;

/** False: the delivery is not under way any more, as far as it says so itself. */
function noteAttempt(db: Connection, { attempt, lease, state, reason, ...result }: AttemptResult): boolean {
  const isAll = state === "success" && attempt.number === 1;
  const changed = db.run(
    `${ATTEMPTED} WHERE id = ?10${lease.unstored ? " AND state = 'pending'" : ""}`,
    state,
    reason,
    attempt.number,
    attempt.response_code,
    attempt.response_time_ms,
    result.next_attempt_at,
    result.ended_at,
    isAll ? attempt.started_at : null,
    isAll ? attempt.response_excerpt : null,
    attempt.delivery_id,
  );
  if (lease.unstored && changed === 0) return false;
  if (isAll) return true;
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
  return true;
}

/** A first attempt that went well, of a delivery without a job's row; in the order of its columns. */
type Delivered = [
  id: string,
  subscription_id: string,
  kind: string,
  started_at: number,
  response_code: number,
  response_time_ms: number,
  response_excerpt: string | null,
  ended_at: number,
];

const DELIVERED = `UPDATE deliveries SET state = 'success', attempts = 1, response_code = ?1, response_time_ms = ?2,
    next_attempt_at = NULL, ended_at = ?3, attempted_at = ?4, response_excerpt = ?5
  WHERE id = ?6 AND state = 'pending'`;

/** What nearly all deliveries come to, many at once. Answers which of them were not under way any more. */
function delivered(db: Connection, all: Delivered[]): string[] {
  const lost: string[] = [];
  for (const [id, subscription_id, kind, started_at, code, ms, excerpt, ended_at] of all) {
    if (db.run(DELIVERED, code, ms, ended_at, started_at, excerpt, id) === 0) {
      lost.push(id);
      continue;
    }
    countSuccess(db, subscription_id, started_at, 1);
    countTimed(db, { subscription_id, started_at, kind, outcome: "success", ms });
  }
  return lost;
}

const COUNT = `UPDATE subscriptions SET total_deliveries = total_deliveries + ?1,
    successful_deliveries = successful_deliveries + ?2, failed_deliveries = failed_deliveries + ?3,
    last_delivery_at = ?4, failing_since = CASE WHEN ?2 THEN NULL ELSE coalesce(failing_since, ?4) END
  WHERE id = ?5`;

function countResult(db: Connection, { attempt, state, subscription_id: id }: AttemptResult): void {
  const first = attempt.number === 1 ? 1 : 0;
  if (state !== "success") {
    db.tell(`subscription ${id}`); // since when it fails is asked of this result alone
    db.run(COUNT, first, 0, state === "failed" ? 1 : 0, attempt.started_at, id);
    return;
  }
  countSuccess(db, id, attempt.started_at, first);
}

function countSuccess(db: Connection, id: string, at: number, first: number): void {
  const sum = db.tally(
    `subscription ${id}`,
    () => ({ first: 0, good: 0, at: 0 }),
    ({ first, good, at }) => db.run(COUNT, first, good, 0, at, id),
  );
  sum.first += first;
  sum.good++;
  sum.at = at;
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

type PuttingDown = { delivery_id: string; at: number; reason: string };

const JOBS_OF_DELIVERIES = `INSERT INTO jobs (id, lane, kind, tenant, key, ref, state, run_at, attempt, crashes,
    error, created_at)
  SELECT d.id, 'deliveries', '${DELIVERY_JOB}', coalesce(s.workspace_id, ''), d.subscription_id, d.id, 'ready', ?1, 1,
    0, ?2, d.created_at
  FROM deliveries d LEFT JOIN subscriptions s ON s.id = d.subscription_id`;

/** A row in the queue for a delivery that was worked without one. */
const putDown = (db: Connection, { delivery_id, at, reason }: PuttingDown): boolean =>
  db.run(`${JOBS_OF_DELIVERIES} WHERE d.id = ?3`, at, reason, delivery_id) === 1;

const putDownPending = (db: Connection, asked: PuttingDown): boolean =>
  isPending(db, asked.delivery_id) && putDown(db, asked);

const isPending = (db: Connection, id: string): boolean =>
  db.get("SELECT 1 FROM deliveries WHERE id = ? AND state = 'pending'", id) !== undefined;

const takeOver = (db: Connection, { ids, now }: { ids: string[]; now: number }): number =>
  ids.filter((delivery_id) => putDownPending(db, { delivery_id, at: now, reason: "taken over" })).length;

type Settling = Parameters<DeliveryStore["settle"]>[0];

function settle(db: Connection, end: Settling): "settled" | "again" | "lost" {
  const { lease, delivery_id, subscription_id, state, at } = end;
  const subscription = db.get<{ status: string }>(
    "SELECT status FROM subscriptions WHERE id = ?",
    subscription_id,
  );
  // Resumed meanwhile: the release may have passed already, and would not come again for this one.
  if (state === "paused" && subscription?.status === "active") {
    if (!lease.unstored) return releaseJob(db, lease, at, "resumed") ? "again" : "lost";
    return putDownPending(db, { delivery_id, at, reason: "resumed" }) ? "again" : "lost";
  }
  if (lease.unstored ? !isPending(db, delivery_id) : !finishJob(db, lease)) return "lost";
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
    if (lease.unstored ? !isPending(db, delivery_id) : !holdJob(db, lease)) return false;
    db.run(
      "UPDATE deliveries SET body = ?, state = replace(state, 'collecting', 'pending') WHERE id = ?",
      body,
      delivery_id,
    );
    return true;
  }
  if (lease.unstored ? !isPending(db, delivery_id) : !finishJob(db, lease)) return false;
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
  "deliveries.delivered": delivered,
  "deliveries.putDown": putDownPending,
  "deliveries.takeOver": takeOver,
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

/**
 * Records attempts. What goes well at once, which is nearly all, goes to the writer many in one: the results of
 * one turn of the event loop.
 */
function recorder(writer: Writer): DeliveryStore["record"] {
  let group: Delivered[] = [];
  let lost: Promise<string[]> | undefined;
  const flush = () =>
    new Promise<string[]>((resolve) => {
      setImmediate(() => {
        const all = group;
        group = [];
        lost = undefined;
        resolve(writer.submit("deliveries.delivered", all, "lazy"));
      });
    });
  return async (result) => {
    const { attempt, lease, state, subscription_id, kind, ended_at } = result;
    const isPlain = lease.unstored && state === "success" && !result.alert && !result.next;
    const { delivery_id: id, started_at, response_code: code, response_time_ms: ms } = attempt;
    if (!isPlain || code === null || ended_at === null)
      return writer.submit("deliveries.record", result, "lazy");
    group.push([id, subscription_id, kind, started_at, code, ms, attempt.response_excerpt, ended_at]);
    lost ??= flush();
    return !(await lost).includes(id);
  };
}

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
    reader.kept("subscriptions", subscription_id, () => {
      const row = reader.get<TargetText>(
        `SELECT id, url, status, status_reason, ordered, secret, previous_secret, previous_secret_until,
           authentication, headers, retry_policy, concurrency, rate_limit_per_second
         FROM subscriptions WHERE id = ?`,
        subscription_id,
      );
      return row && { ...row, retry_policy: row.retry_policy === null ? null : JSON.parse(row.retry_policy) };
    }),
  record: recorder(writer),
  putDown: async (delivery_id, at, reason) => {
    await writer.submit("deliveries.putDown", { delivery_id, at, reason });
  },
  underWay: async () =>
    reader
      .all<{ id: string }>(
        // Named: for the order's sake the whole table would be read.
        `SELECT id FROM deliveries d INDEXED BY deliveries_pending
         WHERE state = 'pending' AND NOT EXISTS (SELECT 1 FROM jobs WHERE ref = d.id) ORDER BY id`,
      )
      .map(({ id }) => id),
  takeOver: (ids, now) => writer.submit("deliveries.takeOver", { ids, now }),
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
    reader.all<AttemptRow>(
      `SELECT * FROM attempts WHERE delivery_id = ?1
       UNION ALL
       SELECT id, 1, attempted_at, response_code, response_time_ms, response_excerpt, NULL, NULL
       FROM deliveries WHERE id = ?1 AND attempted_at IS NOT NULL
       ORDER BY number`,
      delivery_id,
    ),
  ...deliveryRecords(reader),
  forgetFigures: (before, limit) => writer.submit("deliveries.forgetFigures", { before, limit }, "lazy"),
});
