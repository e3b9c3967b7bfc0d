import type { AlertDetails, AlertKind, AlertRow, AlertStore } from "../../alerts/store.ts";
import type { Lease } from "../../jobs/job.ts";
import type { AttemptResult } from "../../webhooks/store.ts";
import type { Connection } from "./connection.ts";
import { finishJob, insertJob } from "./jobs.ts";
import type { Storage } from "./storage.ts";

// A dead receiver is worth a mail an hour, not one for each of ten thousand deliveries.
const QUIET_MS = 3_600_000;

type Told = Pick<AlertDetails, "name" | "url" | "event_id"> & { workspace_id: string; created_at: number };

/**
 * Decides, in the commit of an attempt's result, whether its owner is told, and puts the mail's job down.
 * `paused`: this result has paused the subscription.
 */
export function raiseAlert(db: Connection, result: AttemptResult, paused: boolean): void {
  const { alert, attempt, subscription_id, state } = result;
  if (!alert) return;
  const told = db.get<Told>(
    `SELECT s.workspace_id, s.name, s.url, d.event_id, d.created_at
     FROM subscriptions s, deliveries d WHERE s.id = ? AND d.id = ?`,
    subscription_id,
    attempt.delivery_id,
  );
  if (!told) return;
  const { workspace_id, created_at, ...rest } = told;
  const at = attempt.started_at;
  const news =
    state === "success"
      ? recovery(db, subscription_id, at)
      : failure(db, { subscription_id, created_at, paused, at });
  if (!news) return;
  const details: AlertDetails = {
    ...rest,
    delivery_id: attempt.delivery_id,
    event: result.kind,
    reason: result.pause ?? result.reason,
    response_code: attempt.response_code,
    response_excerpt: attempt.response_excerpt,
    error: attempt.error,
    attempts: attempt.number,
    since: news.since,
  };
  db.run(
    `INSERT INTO alerts (id, workspace_id, subscription_id, kind, details, state, created_at)
     VALUES (?, ?, ?, ?, ?, 'pending', ?)`,
    alert.id,
    workspace_id,
    subscription_id,
    news.kind,
    JSON.stringify(details),
    at,
  );
  insertJob(db, { ...alert.job, tenant: workspace_id });
}

type News = { kind: AlertKind; since: number };

/**
 * The end of trouble. Trouble that the hour's quiet kept from being told is not forgotten with its end: it
 * stays on record, and the first success after that hour tells of it, so that every delivery that was given
 * up stands in some mail's replay.
 */
function recovery(db: Connection, subscription_id: string, at: number): News | undefined {
  const trouble = db.get<{ since: number; alerted_at: number }>(
    "SELECT since, alerted_at FROM troubles WHERE subscription_id = ?",
    subscription_id,
  );
  if (!trouble) return undefined;
  const isUntold = db.get(`SELECT 1 WHERE ${lastKind("?1")} = 'recovered'`, subscription_id) !== undefined;
  if (isUntold && trouble.alerted_at > at - QUIET_MS) return undefined;
  db.run("DELETE FROM troubles WHERE subscription_id = ?", subscription_id);
  return { kind: "recovered", since: trouble.since };
}

const lastKind = (subscription: string): string =>
  `(SELECT kind FROM alerts WHERE subscription_id = ${subscription} ORDER BY id DESC LIMIT 1)`;

type Failure = { subscription_id: string; created_at: number; paused: boolean; at: number };

function failure(db: Connection, { subscription_id, created_at, paused, at }: Failure): News | undefined {
  // A replay goes by when deliveries were made, and that was hours before they were given up: those that
  // still have attempts may be older than this one.
  db.run(
    `INSERT INTO troubles (subscription_id, since, alerted_at) VALUES (?1,
       min(?2, coalesce((SELECT min(created_at) FROM deliveries WHERE subscription_id = ?1
         AND state = 'retrying' AND state NOT IN ('pending', 'success')), ?2)),
       coalesce((SELECT created_at FROM alerts WHERE subscription_id = ?1 AND kind = 'exhausted'
         ORDER BY id DESC LIMIT 1), 0))
     ON CONFLICT DO UPDATE SET since = min(since, ?2)`,
    subscription_id,
    created_at,
  );
  // A pause is told whenever it comes: it comes once, and nothing is sent after it. The hour of an exhaustion
  // outlasts a recovery: a receiver that fails every other time is not worth two mails each time.
  const told = db.get<{ since: number }>(
    `UPDATE troubles SET alerted_at = ?2 WHERE subscription_id = ?1 AND alerted_at <= ?3 RETURNING since`,
    subscription_id,
    at,
    paused ? Number.MAX_SAFE_INTEGER : at - QUIET_MS,
  );
  return told && { kind: paused ? "paused" : "exhausted", since: told.since };
}

type Ended = { lease: Lease; id: string; state: string; error: string | null; at: number };

export const alertWrites = {
  "alerts.end": (db: Connection, { lease, id, state, error, at }: Ended): boolean => {
    if (!finishJob(db, lease)) return false;
    db.run("UPDATE alerts SET state = ?, error = ?, ended_at = ? WHERE id = ?", state, error, at, id);
    return true;
  },
  "alerts.forget": (db: Connection, { before, limit }: { before: number; limit: number }): number =>
    db.run(
      "DELETE FROM alerts WHERE id IN (SELECT id FROM alerts WHERE ended_at < ? ORDER BY id LIMIT ?)",
      before,
      limit,
    ),
};

type AlertText = Omit<AlertRow, "details"> & { details: string };

const parsed = (row: AlertText): AlertRow => ({ ...row, details: JSON.parse(row.details) });

export const sqliteAlerts = ({ reader, writer }: Storage): AlertStore => ({
  get: async (id) => {
    const row = reader.get<AlertText>("SELECT * FROM alerts WHERE id = ?", id);
    return row && parsed(row);
  },
  list: async (subscription_id, limit) =>
    reader
      .all<AlertText>(
        "SELECT * FROM alerts WHERE subscription_id = ? ORDER BY id DESC LIMIT ?",
        subscription_id,
        limit,
      )
      .map(parsed),
  end: (end) => writer.submit("alerts.end", end),
  troubled: async () =>
    reader.all<{ id: string }>("SELECT subscription_id AS id FROM troubles").map(({ id }) => id),
  forget: (before, limit) => writer.submit("alerts.forget", { before, limit }, "lazy"),
  isTroubled: async (subscription_id) =>
    reader.get("SELECT 1 FROM troubles WHERE subscription_id = ?", subscription_id) !== undefined,
  troubledCount: async () =>
    reader.get<{ count: number }>(
      `SELECT count(*) AS count FROM troubles t JOIN subscriptions s ON s.id = t.subscription_id
       WHERE s.failing_since IS NOT NULL
         OR ${lastKind("s.id")} IS NOT 'recovered'`,
    )?.count ?? 0,
  counts: async () =>
    reader.all("SELECT kind, state, count(*) AS count FROM alerts GROUP BY kind, state ORDER BY kind, state"),
});
