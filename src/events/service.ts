import type { JobRow } from "../jobs/job.ts";
import { isStored, type Placement } from "../jobs/placement.ts";
import type { Runner } from "../jobs/runner.ts";
import { newId } from "../lib/ids.ts";
import type { JsonObject } from "../lib/json.ts";
import { evaluate } from "../webhooks/conditions.ts";
import { attemptsMax } from "../webhooks/retry-schedule.ts";
import { envelope, partsOf } from "./envelope.ts";
import { DELIVERY_JOB, type EventKind, MOST_HOPS, matches } from "./kinds.ts";
import {
  bytesOf,
  type DeliveryRow,
  type EventRow,
  type EventStore,
  headOf,
  type Outbox,
  type Subscriber,
  type WaitingDelivery,
} from "./store.ts";

export type Scope = { workspace_id: string; project_id: string };

/** Something that happened, at epoch milliseconds. `data`, as receivers get it, is made only if anyone listens. */
export type NewEvent = { kind: EventKind; subject_id: string; data: () => object; at: number };

export type PlannedEvents = { outbox: Outbox[]; placements: Placement[] };

export type Events = {
  /**
   * Decides what each event means for every subscription of the project that lists its kind. Stores
   * nothing: the caller puts `outbox` into the operation that stores what happened, and then tells the
   * runner that `placements` are committed or dropped. An event that nobody lists leaves no row.
   */
  plan(scope: Scope, events: NewEvent[], hop: number): Promise<PlannedEvents>;
};

export function createEvents({
  store,
  runner,
}: {
  store: EventStore;
  runner: Pick<Runner, "place" | "dropped">;
}): Events {
  // By the list itself, which is the same one until a webhook changes: a run beside a thousand webhooks that hear of
  // something else does not ask each of them.
  const byKind = new WeakMap<Subscriber[], Map<EventKind, Subscriber[]>>();

  function listening(all: Subscriber[], kind: EventKind): Subscriber[] {
    const kinds = byKind.get(all) ?? new Map<EventKind, Subscriber[]>();
    if (kinds.size === 0) byKind.set(all, kinds);
    const known = kinds.get(kind);
    if (known) return known;
    const found = all.filter(({ events }) => events.some((pattern) => matches(pattern, kind)));
    kinds.set(kind, found);
    return found;
  }

  return {
    async plan({ workspace_id, project_id }, events, hop) {
      const planned: PlannedEvents = { outbox: [], placements: [] };
      if (events.length === 0) return planned;
      const subscribers = await store.subscribers(project_id);
      if (subscribers.length === 0) return planned;
      try {
        for (const event of events) {
          const wanted = listening(subscribers, event.kind);
          if (wanted.length > 0) answer(planned, { workspace_id, project_id, event, wanted, hop: hop + 1 });
        }
      } catch (error) {
        // Nobody else knows of the slots that are reserved by now; kept, they would be lost for good.
        runner.dropped(planned.placements);
        throw error;
      }
      return planned;
    },
  };

  function answer(
    planned: PlannedEvents,
    asked: Scope & { event: NewEvent; wanted: Subscriber[]; hop: number },
  ): void {
    const { workspace_id: tenant, project_id, event, wanted, hop } = asked;
    const data = event.data() as JsonObject;
    const text = JSON.stringify(data);
    const row: EventRow = {
      id: newId(),
      project_id,
      kind: event.kind,
      subject_id: event.subject_id,
      data: text,
      created_at: event.at,
    };
    const outbox: Outbox = {
      event: row,
      hop,
      head: partsOf(event),
      outgoing: [],
      refused: [],
      jobs: [],
    };
    const waiting: WaitingDelivery[] = [];
    for (const subscriber of wanted) {
      const { id: subscription_id, filters } = subscriber;
      const refusal = refusalOf(subscriber, data, hop);
      const delivery: DeliveryRow = {
        id: newId(),
        event_id: row.id,
        subscription_id,
        kind: event.kind,
        state: refusal?.state ?? "pending",
        reason: refusal?.reason ?? null,
        hop,
        // What is not sent now keeps no bytes: they are written from the event when it is.
        body: "",
        attempts: 0,
        attempts_max: attemptsMax(subscriber.retry_policy),
        response_code: null,
        response_time_ms: null,
        next_attempt_at: refusal ? null : event.at,
        created_at: event.at,
        ended_at: refusal ? event.at : null,
      };
      if (refusal) {
        outbox.refused.push(delivery);
        continue;
      }
      if (subscriber.waits) {
        waiting.push({ delivery, job: wait(planned, tenant, subscriber) });
        continue;
      }
      // Whoever sends it has the bytes; what is stored gets them without the data that it has already.
      if (filters) {
        delivery.body = envelope({ kind: event.kind, at: event.at, data, text }, subscriber);
        outbox.outgoing.push([delivery.id, subscription_id, delivery.attempts_max, delivery.body]);
      } else {
        delivery.body = bytesOf({ head: headOf(outbox.head, subscription_id), body: "" }, text);
        outbox.outgoing.push([delivery.id, subscription_id, delivery.attempts_max]);
      }
      const job = { tenant, key: subscription_id, ref: delivery.id, size: delivery.body.length };
      const placement = runner.place(DELIVERY_JOB, job, delivery);
      planned.placements.push(placement);
      if (isStored(placement)) outbox.jobs.push(placement.row);
    }
    if (waiting.length > 0) outbox.waiting = waiting;
    planned.outbox.push(outbox);
  }

  /** A job for the commit to use or not; if it does, it may be due at once, so the runner is to look. */
  function wait(planned: PlannedEvents, tenant: string, { id: key, batch_settings }: Subscriber): JobRow {
    const placement = runner.place(DELIVERY_JOB, { tenant, key, ref: newId(), waits: true });
    const { row } = placement;
    planned.placements.push(placement);
    // And to look when the batch is due at the latest, should this event have opened one.
    const patience = batch_settings ? batch_settings.max_wait_seconds * 1_000 : 0;
    if (patience > 0) planned.placements.push({ row: { ...row, run_at: row.run_at + patience } });
    return row;
  }
}

type Refusal = { state: "cancelled" | "filtered"; reason: string };

/** Why an event that a subscription lists is not sent to it. */
function refusalOf(subscriber: Subscriber, data: JsonObject, hop: number): Refusal | undefined {
  if (hop > MOST_HOPS) return { state: "cancelled", reason: `a loop: more than ${MOST_HOPS} hops` };
  // A pause comes after: what a resume takes up are the events that would have been sent.
  const verdict = subscriber.conditions ? evaluate(subscriber.conditions, data) : undefined;
  if (verdict?.holds === false) return { state: "filtered", reason: verdict.reason };
  return undefined;
}
