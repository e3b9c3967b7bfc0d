import type { DeliveryRow } from "../../events/store.ts";
import { hourOf, speedOf } from "../../lib/histogram.ts";
import type { AttemptResult } from "../../webhooks/store.ts";
import type { Connection } from "./connection.ts";

function count(db: Connection, id: string, at: number, kind: string, outcome: string, speed: number): void {
  const hour = hourOf(at);
  const sum = db.tally(
    `figures ${id} ${hour} ${kind} ${outcome} ${speed}`,
    () => ({ count: 0 }),
    (sum) =>
      db.run(
        `INSERT INTO delivery_figures (subscription_id, hour, kind, outcome, speed, count) VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT DO UPDATE SET count = count + excluded.count`,
        id,
        hour,
        kind,
        outcome,
        speed,
        sum.count,
      ),
  );
  sum.count++;
}

export function countAttempt(db: Connection, { subscription_id, kind, state, attempt }: AttemptResult): void {
  const ms = attempt.response_code === null ? null : attempt.response_time_ms;
  count(db, subscription_id, attempt.started_at, kind, state, speedOf(ms));
}

/** The same of an attempt that was answered, by its parts. */
export function countTimed(
  db: Connection,
  of: { subscription_id: string; started_at: number; kind: string; outcome: string; ms: number },
): void {
  count(db, of.subscription_id, of.started_at, of.kind, of.outcome, speedOf(of.ms));
}

export function countFiltered(db: Connection, { subscription_id, kind, created_at }: DeliveryRow): void {
  count(db, subscription_id, created_at, kind, "filtered", -1);
}

// No index by hour: it is asked for rarely, and its upkeep would be paid by every attempt.
export const forgetFigures = (db: Connection, { before, limit }: { before: number; limit: number }): number =>
  db.run(
    `DELETE FROM delivery_figures WHERE (subscription_id, hour, kind, outcome, speed) IN (
       SELECT subscription_id, hour, kind, outcome, speed FROM delivery_figures WHERE hour < ? LIMIT ?)`,
    before,
    limit,
  );
