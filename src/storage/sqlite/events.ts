import {
  type EventStore,
  headOf,
  type Outbox,
  type PlannedDelivery,
  type Subscriber,
} from "../../events/store.ts";
import type { Connection } from "./connection.ts";
import { countFiltered } from "./delivery-figures.ts";
import { insertJob } from "./jobs.ts";
import type { Storage } from "./storage.ts";
import { insertWaiting } from "./waiting.ts";

/** Called by other features' operations, inside the commit of what the events tell of. */
export function insertOutbox(db: Connection, outbox: Outbox[]): void {
  for (const { event, hop, head, outgoing, refused, jobs, waiting } of outbox) {
    db.run(
      "INSERT INTO events (id, project_id, kind, subject_id, data, created_at) VALUES (?, ?, ?, ?, ?, ?)",
      event.id,
      event.project_id,
      event.kind,
      event.subject_id,
      event.data,
      event.created_at,
    );
    for (const [id, subscription_id, attempts_max, body] of outgoing) {
      const bytes = body ?? "";
      const own = body === undefined ? headOf(head, subscription_id) : null;
      db.run(
        OUTGOING,
        id,
        event.id,
        subscription_id,
        event.kind,
        hop,
        bytes,
        attempts_max,
        event.created_at,
        own,
      );
    }
    for (const delivery of refused) insertDelivery(db, delivery);
    for (const job of jobs) insertJob(db, job);
    if (waiting) for (const each of waiting) insertWaiting(db, each);
  }
}

const OUTGOING = `INSERT INTO deliveries (id, event_id, subscription_id, kind, state, hop, body, attempts,
    attempts_max, next_attempt_at, created_at, head) VALUES (?1, ?2, ?3, ?4, 'pending', ?5, ?6, 0, ?7, ?8, ?8, ?9)`;

export function insertDelivery(db: Connection, delivery: PlannedDelivery): void {
  db.run(
    `INSERT INTO deliveries (id, event_id, subscription_id, kind, state, reason, hop, body, attempts,
       attempts_max, response_code, response_time_ms, next_attempt_at, created_at, ended_at, head)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    delivery.id,
    delivery.event_id,
    delivery.subscription_id,
    delivery.kind,
    delivery.state,
    delivery.reason,
    delivery.hop,
    delivery.body,
    delivery.attempts,
    delivery.attempts_max,
    delivery.response_code,
    delivery.response_time_ms,
    delivery.next_attempt_at,
    delivery.created_at,
    delivery.ended_at,
    delivery.head ?? null,
  );
  if (delivery.state === "filtered") countFiltered(db, delivery);
}

type SubscriberText = Omit<
  Subscriber,
  "events" | "retry_policy" | "conditions" | "filters" | "batch_settings"
> & {
  batch_settings: string | null;
  events: string;
  retry_policy: string | null;
  conditions: string | null;
  filters: string | null;
};

const parsed = <T>(text: string | null): T | null => (text === null ? null : JSON.parse(text));

const SUBSCRIBERS = `SELECT id, events, status, status_reason, retry_policy, conditions, filters, batch_settings,
    (status = 'paused' OR ordered OR batch_settings IS NOT NULL) AS waits
  FROM subscriptions WHERE project_id = ? ORDER BY id`;

const subscriber = (row: SubscriberText): Subscriber => ({
  ...row,
  events: JSON.parse(row.events),
  retry_policy: parsed(row.retry_policy),
  conditions: parsed(row.conditions),
  filters: parsed(row.filters),
  batch_settings: parsed(row.batch_settings),
});

export const sqliteEvents = ({ reader }: Pick<Storage, "reader">): EventStore => ({
  subscribers: async (project_id) =>
    reader.kept("subscriptions", `of ${project_id}`, () =>
      reader.all<SubscriberText>(SUBSCRIBERS, project_id).map(subscriber),
    ),
});
