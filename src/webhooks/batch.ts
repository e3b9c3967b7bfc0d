import { envelope } from "../events/envelope.ts";
import { BATCH_KIND } from "../events/kinds.ts";
import type { EventRow } from "../events/store.ts";
import type { Filters } from "./filters.ts";

/** Interface 2.5 and 6.3.7: a batch closes at so many events, or so long after its first one. */
export type BatchSettings = { max_events: number; max_wait_seconds: number };

type Receiver = { id: string; filters: Filters | null };

/** The body of one event's delivery, from its row. */
export const eventBody = (event: EventRow, webhook: Receiver): string =>
  envelope(
    { kind: event.kind, at: event.created_at, data: JSON.parse(event.data), text: event.data },
    webhook,
  );

/**
 * The body of a batch (design 3): the four keys of every envelope, `event: "batch"`, and in `data` the batch's
 * id, which is also its webhook-id, and every event's own envelope with the event's id in front.
 */
export function batchBody(batch: { id: string; at: number; events: EventRow[] }, webhook: Receiver): string {
  const { id, at, events } = batch;
  const each = events.map((event) => `{"id":"${event.id}",${eventBody(event, webhook).slice(1)}`);
  const text = `{"batch_id":"${id}","count":${events.length},"events":[${each.join(",")}]}`;
  return envelope({ kind: BATCH_KIND, at, data: {}, text }, { id: webhook.id, filters: null });
}
