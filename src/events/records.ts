import type { Caller } from "../keys/schema.ts";
import { iso, isoOrNull } from "../lib/clock.ts";
import { forbidden, notFound } from "../lib/errors.ts";
import { windowOf } from "../lib/feed.ts";
import { isUuid } from "../lib/ids.ts";
import { matches } from "./kinds.ts";
import type { ListEvents } from "./schema.ts";
import type { AnswerRow, Bystander, EventRecordStore, EventRow } from "./store.ts";

export type EventRecords = ReturnType<typeof createEventRecords>;

/** What happened in a project, and for every event what each webhook did with it, and why. */
export function createEventRecords({ store }: { store: EventRecordStore }) {
  return {
    /** Newest first. `total` is left out where it is past 10,000. */
    async list(caller: Caller, { event, subject_id, ...asked }: ListEvents) {
      const filter = { ...windowOf(asked), event, subject_id };
      const { items, next } = await store.list(caller.project_id, filter);
      // A bound at the top is not counted: the whole of a list is what its first page belongs to.
      const total = asked.until === undefined ? await store.count(caller.project_id, filter) : undefined;
      const shown = await Promise.all(
        items.map(async (row) => ({ ...presentEvent(row), outcomes: tally(await store.answers(row.id)) })),
      );
      return { items: shown, next, total };
    },

    /** One event with its data and a line for every webhook of the project. */
    async get(caller: Caller, id: string) {
      const row = isUuid(id) ? await store.get(id) : undefined;
      if (!row) throw notFound("event", id);
      if (row.project_id !== caller.project_id) throw forbidden("This key cannot reach that event.");
      const [answers, bystanders] = await Promise.all([store.answers(id), store.bystanders(row.project_id)]);
      const batches = new Map<string, AnswerRow>();
      for (const { batch_id } of answers) {
        const batch = batch_id === null ? undefined : await store.batch(batch_id);
        if (batch) batches.set(batch.id, batch);
      }
      const webhooks = linesOf(row, { answers, batches, bystanders });
      return { ...presentEvent(row), data: JSON.parse(row.data), webhooks };
    },
  };
}

const presentEvent = (row: Omit<EventRow, "data">) => ({
  id: row.id,
  event: row.kind,
  timestamp: iso(row.created_at),
  subject_id: row.subject_id,
});

function tally(answers: AnswerRow[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const [answer] of bySubscription(answers).values()) {
    const outcome = outcomeOf(answer!);
    counts[outcome] = (counts[outcome] ?? 0) + 1;
  }
  return counts;
}

/** Newest first within each: a redelivery says more than what it repeats. */
function bySubscription(answers: AnswerRow[]): Map<string, AnswerRow[]> {
  const groups = new Map<string, AnswerRow[]>();
  for (const answer of answers) {
    groups.set(answer.subscription_id, [answer, ...(groups.get(answer.subscription_id) ?? [])]);
  }
  return groups;
}

type Known = { answers: AnswerRow[]; batches: Map<string, AnswerRow>; bystanders: Bystander[] };

function linesOf(event: EventRow, { answers, batches, bystanders }: Known) {
  const groups = bySubscription(answers);
  const names = new Map(bystanders.map(({ id, name }) => [id, name]));
  const told = [...groups].map(([webhook_id, [answer, ...earlier]]) => {
    const batch = batches.get(answer!.batch_id ?? "");
    // What is tried, and when, is the batch; the event's own row says no more than that it is in one.
    const sent = batch ?? answer!;
    return {
      webhook_id,
      name: names.get(webhook_id) ?? null,
      outcome: outcomeOf(answer!),
      reason: batch ? `in batch ${batch.id}: ${reasonOf(batch)}` : reasonOf(answer!),
      delivery_id: sent.id,
      attempts: sent.attempts,
      attempts_max: sent.attempts_max,
      response_code: sent.response_code,
      error_class: sent.error_class,
      last_attempt_at: isoOrNull(sent.attempted_at),
      next_attempt_at: isoOrNull(sent.next_attempt_at),
      earlier_delivery_ids: earlier.map(({ id }) => id),
    };
  });
  const untold = bystanders
    .filter(({ id }) => !groups.has(id))
    .map((one) => ({
      webhook_id: one.id,
      name: one.name,
      outcome: "not_subscribed",
      reason: whyNot(event, one),
      delivery_id: null,
      attempts: 0,
      attempts_max: 0,
      response_code: null,
      error_class: null,
      last_attempt_at: null,
      next_attempt_at: null,
      earlier_delivery_ids: [],
    }));
  return [...told, ...untold];
}

/** The state in the words of a reader: `delivered` for success, `blocked` for a target that may not be reached. */
function outcomeOf({ state, error_class }: AnswerRow): string {
  if (state === "success") return "delivered";
  return state === "failed" && error_class === "blocked" ? "blocked" : state;
}

function reasonOf(answer: AnswerRow): string {
  const { state, reason, attempts, attempts_max, response_code, next_attempt_at } = answer;
  switch (state) {
    case "success":
      return `the receiver answered ${response_code} to attempt ${attempts}`;
    case "pending":
      return reason ?? "waits for its first attempt";
    case "collecting":
      return `takes events until ${isoOrNull(next_attempt_at)} at the latest`;
    case "held":
      return "waits for earlier events, as the webhook keeps their order";
    case "paused":
      return `the webhook is paused: ${reason ?? "no reason on record"}`;
    case "retrying":
      return `${reason}; attempt ${attempts + 1} of ${attempts_max} is due at ${isoOrNull(next_attempt_at)}`;
    default:
      return reason ?? state;
  }
}

function whyNot(event: EventRow, { events, created_at }: Bystander): string {
  if (created_at > event.created_at) return `made at ${iso(created_at)}, after the event`;
  const lists = events.some((pattern) => matches(pattern, event.kind));
  return lists
    ? `did not list ${event.kind} when it happened`
    : `lists ${events.join(", ")}, and not ${event.kind}`;
}
