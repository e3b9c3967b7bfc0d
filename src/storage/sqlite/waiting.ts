import { BATCH_KIND } from "../../events/kinds.ts";
import type { WaitingDelivery } from "../../events/store.ts";
import type { JobRow, Lease } from "../../jobs/job.ts";
import type { BatchSettings } from "../../webhooks/batch.ts";
import type { Connection } from "./connection.ts";
import { insertDelivery } from "./events.ts";
import { finishJob, insertJob, runsJob } from "./jobs.ts";

// Where a delivery goes that is not simply sent: its subscription is paused, keeps an order or takes batches.
// All of it is decided inside the commit, by what the subscription is then. Two things always hold:
// - where deliveries are `paused` and their subscription is active, a release job is on record;
// - where deliveries are `held` and it is active, one delivery is the head of the line, or a release job is.

/** A batch closes early at this size, so that a receiver with a limit of its own can take it. */
export const LARGEST_BATCH_BYTES = 256 * 1_024;

type State = {
  id: string;
  workspace_id: string;
  status: "active" | "paused";
  status_reason: string | null;
  ordered: number;
  batch_settings: string | null;
  line_head: string | null;
  batch_id: string | null;
  batch_events: number;
  batch_bytes: number;
};

const stateOf = (db: Connection, id: string): State | undefined =>
  db.get<State>(
    `SELECT id, workspace_id, status, status_reason, ordered, batch_settings, line_head,
       batch_id, batch_events, batch_bytes FROM subscriptions WHERE id = ?`,
    id,
  );

const anyPaused = (db: Connection, id: string): boolean =>
  db.get("SELECT 1 FROM deliveries WHERE subscription_id = ? AND state = 'paused' LIMIT 1", id) !== undefined;

/** A new delivery. `job` sends it, or the batch that it opens: it is put down only if it is needed. */
export function insertWaiting(db: Connection, { delivery, job }: WaitingDelivery): void {
  const state = stateOf(db, delivery.subscription_id);
  const stays = { ...delivery, next_attempt_at: null };
  if (!state) {
    insertDelivery(db, {
      ...stays,
      state: "cancelled",
      reason: "the webhook was deleted",
      ended_at: delivery.created_at,
    });
  } else if (state.status === "paused" || anyPaused(db, state.id)) {
    // The second: a release is under way, and what comes now must not overtake what it has still to bring.
    insertDelivery(db, { ...stays, state: "paused", reason: state.status_reason ?? "after earlier events" });
  } else if (state.batch_settings !== null && delivery.kind !== BATCH_KIND) {
    insertDelivery(db, { ...stays, state: "batched", body: "", head: null, ended_at: delivery.created_at });
    joinBatch(db, state, { ...delivery, job });
  } else if (state.ordered) {
    insertDelivery(db, { ...stays, state: "held", reason: HELD });
    advanceLine(db, state.id, job);
  } else {
    insertDelivery(db, delivery);
    insertJob(db, { ...job, ref: delivery.id });
  }
}

const HELD = "after earlier events";

/** Sends the oldest that waits in the line, if none is under way. */
export function advanceLine(db: Connection, subscription_id: string, job: JobRow): void {
  const next = db.get<{ id: string; tenant: string }>(
    `SELECT d.id, s.workspace_id AS tenant FROM deliveries d, subscriptions s
     WHERE s.id = ?1 AND s.line_head IS NULL AND s.status = 'active' AND d.subscription_id = ?1 AND d.state = 'held'
     ORDER BY d.id LIMIT 1`,
    subscription_id,
  );
  if (!next) return;
  db.run(
    `UPDATE deliveries SET state = CASE attempts WHEN 0 THEN 'pending' ELSE 'retrying' END, reason = NULL,
       next_attempt_at = ? WHERE id = ?`,
    job.run_at,
    next.id,
  );
  db.run("UPDATE subscriptions SET line_head = ? WHERE id = ?", next.id, subscription_id);
  insertJob(db, { ...job, tenant: next.tenant, key: subscription_id, ref: next.id });
}

/** The delivery is under way no longer. False: it was not its turn by the order. */
export const leaveLine = (db: Connection, subscription_id: string, delivery_id: string): boolean =>
  db.run(
    "UPDATE subscriptions SET line_head = NULL WHERE id = ? AND line_head = ?",
    subscription_id,
    delivery_id,
  ) === 1;

type Joining = { id: string; event_id: string; hop: number; attempts_max: number; job: JobRow };

/**
 * Counts a delivery into the batch that is open, or opens one. The batch is a delivery of its own whose job
 * falls due at the deadline (from the first event on), or at once when it is full; with that it is closed.
 */
function joinBatch(db: Connection, state: State, joining: Joining): void {
  const settings: BatchSettings = JSON.parse(state.batch_settings ?? "");
  const now = joining.job.run_at;
  let id = state.batch_id;
  if (id === null) {
    id = joining.job.ref;
    const run_at = now + settings.max_wait_seconds * 1_000;
    insertDelivery(db, {
      ...{ id, event_id: id, subscription_id: state.id, kind: BATCH_KIND, state: "collecting" },
      ...{ reason: null, hop: joining.hop, body: "", attempts: 0, attempts_max: joining.attempts_max },
      ...{
        response_code: null,
        response_time_ms: null,
        next_attempt_at: run_at,
        created_at: now,
        ended_at: null,
      },
    });
    insertJob(db, { ...joining.job, ref: id, run_at });
    Object.assign(state, { batch_id: id, batch_events: 0, batch_bytes: 0 });
  } else db.run("UPDATE deliveries SET hop = max(hop, ?) WHERE id = ?", joining.hop, id);
  db.run(
    `UPDATE deliveries SET state = 'batched', batch_id = ?, reason = ?, next_attempt_at = NULL WHERE id = ?`,
    id,
    `in batch ${id}`,
    joining.id,
  );
  const event = db.get<{ bytes: number }>(
    "SELECT octet_length(data) AS bytes FROM events WHERE id = ?",
    joining.event_id,
  );
  state.batch_events++;
  state.batch_bytes += event?.bytes ?? 0;
  if (state.batch_events >= settings.max_events || state.batch_bytes >= LARGEST_BATCH_BYTES) {
    db.run("UPDATE jobs SET run_at = min(run_at, ?) WHERE ref = ? AND state = 'ready'", now, id);
    db.run("UPDATE deliveries SET next_attempt_at = min(next_attempt_at, ?) WHERE id = ?", now, id);
    Object.assign(state, { batch_id: null, batch_events: 0, batch_bytes: 0 });
  }
  db.run(
    "UPDATE subscriptions SET batch_id = ?, batch_events = ?, batch_bytes = ? WHERE id = ?",
    state.batch_id,
    state.batch_events,
    state.batch_bytes,
    state.id,
  );
}

/** No more events go into it. */
export const closeBatch = (db: Connection, subscription_id: string, batch_id: string): void => {
  db.run(
    `UPDATE subscriptions SET batch_id = NULL, batch_events = 0, batch_bytes = 0 WHERE id = ? AND batch_id = ?`,
    subscription_id,
    batch_id,
  );
};

type Waiting = Omit<Joining, "job"> & { kind: string; attempts: number };

/**
 * Sets a slice of what waits on its way again, oldest first, and ends the job when that was the last. `jobs`
 * has a row for each delivery of a slice and one for the line. `more`: there is another slice.
 */
export function release(
  db: Connection,
  { lease, subscription_id, jobs }: { lease: Lease; subscription_id: string; jobs: JobRow[] },
): { released: number; more: boolean } {
  if (!runsJob(db, lease)) return { released: 0, more: false };
  const state = stateOf(db, subscription_id);
  const spare = jobs.at(-1);
  if (state?.status !== "active" || !spare) {
    finishJob(db, lease);
    return { released: 0, more: false };
  }
  const slice = jobs.length - 1;
  const waiting = waitingOf(db, state, slice);
  for (const [index, delivery] of waiting.entries()) {
    const job = { ...jobs[index]!, tenant: state.workspace_id, key: state.id };
    if (state.batch_settings !== null && delivery.kind !== BATCH_KIND && delivery.attempts === 0) {
      joinBatch(db, state, { ...delivery, job });
    } else if (state.ordered) {
      db.run(
        "UPDATE deliveries SET state = 'held', reason = ?, next_attempt_at = NULL WHERE id = ?",
        HELD,
        delivery.id,
      );
      advanceLine(db, state.id, job);
    } else {
      db.run(
        `UPDATE deliveries SET state = CASE attempts WHEN 0 THEN 'pending' ELSE 'retrying' END, reason = NULL,
           next_attempt_at = ? WHERE id = ?`,
        job.run_at,
        delivery.id,
      );
      insertJob(db, { ...job, ref: delivery.id });
    }
  }
  const more = waiting.length === slice;
  if (!more) {
    // One that stood in the line before the pause may be all there is.
    advanceLine(db, state.id, spare);
    finishJob(db, lease);
  }
  return { released: waiting.length, more };
}

function waitingOf(db: Connection, { id, ordered }: State, limit: number): Waiting[] {
  const select = (state: string, most: number) =>
    db.all<Waiting>(
      `SELECT id, event_id, kind, hop, attempts, attempts_max FROM deliveries
       WHERE subscription_id = ? AND state = '${state}' ORDER BY id LIMIT ?`,
      id,
      most,
    );
  // Where the order was given up, what stood in line is older than what came during a pause.
  const held = ordered ? [] : select("held", limit);
  return [...held, ...select("paused", limit - held.length)];
}
