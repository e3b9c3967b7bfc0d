import type { DeliveryRow } from "../events/store.ts";
import type { Caller } from "../keys/schema.ts";
import { type Clock, iso, isoOrNull } from "../lib/clock.ts";
import { notFound } from "../lib/errors.ts";
import { windowOf } from "../lib/feed.ts";
import { HOUR_MS, hourOf } from "../lib/histogram.ts";
import { isUuid } from "../lib/ids.ts";
import { percentile, summarise } from "./figures.ts";
import type { ListLogs, ReadStats } from "./schema.ts";
import type { AttemptRow, DeliveryStore, LogRow, SubscriptionRow } from "./store.ts";

export type Deliveries = ReturnType<typeof createDeliveries>;

const STATS_SAMPLE = 1_000;

/** What became of events: the log and its figures. */
export function createDeliveries(deps: {
  store: DeliveryStore;
  inScope: (caller: Caller, webhook_id: string) => Promise<SubscriptionRow>;
  clock: Clock;
}) {
  const { store, inScope, clock } = deps;

  async function find(webhook: SubscriptionRow, id: string): Promise<DeliveryRow> {
    const delivery = isUuid(id) ? await store.find(id) : undefined;
    if (delivery?.subscription_id !== webhook.id) throw notFound("delivery", id);
    return delivery;
  }

  return {
    /** Interface 2.6: one entry a delivery, newest first; the figures are those of its last attempt. */
    async logs(caller: Caller, webhook_id: string, { status, event, ...asked }: ListLogs) {
      await inScope(caller, webhook_id);
      const { items, next } = await store.logs(webhook_id, { ...windowOf(asked), status, event });
      return { items: items.map(presentEntry), next };
    },

    /** One delivery with its bytes (null where none were written) and every attempt. */
    async get(caller: Caller, webhook_id: string, id: string) {
      const delivery = await find(await inScope(caller, webhook_id), id);
      const attempts = await store.attempts(id);
      const { body, ...rest } = delivery;
      const last = attempts.at(-1);
      return {
        ...presentEntry({
          ...rest,
          payload_size: Buffer.byteLength(body),
          attempted_at: last?.started_at ?? null,
          response_excerpt: last?.response_excerpt ?? null,
          error_class: last?.error_class ?? null,
          error: last?.error ?? null,
        }),
        payload: body === "" ? null : body,
        history: attempts.map(presentAttempt),
      };
    },

    /**
     * Totals since the webhook was made, what waits, and the last `hours`. The percentiles at the top are
     * exact over the newest attempts, those of the window good to a fifth; null where nothing is known.
     */
    async stats(caller: Caller, webhook_id: string, { hours }: ReadStats) {
      const webhook = await inScope(caller, webhook_id);
      const now = clock.now();
      const since = hourOf(now) - (hours - 1) * HOUR_MS;
      const known = await store.stats(webhook_id, { sample: STATS_SAMPLE, since, now });
      const { total_deliveries, successful_deliveries, failed_deliveries } = webhook;
      const ended = successful_deliveries + failed_deliveries;
      const sorted = known.response_times.sort((a, b) => a - b);
      return {
        webhook_id,
        status: webhook.status,
        total_deliveries,
        successful_deliveries,
        failed_deliveries,
        waiting_deliveries: known.waiting,
        success_rate: ended === 0 ? null : successful_deliveries / ended,
        response_time_ms: {
          p50: percentile(sorted, 0.5),
          p95: percentile(sorted, 0.95),
          p99: percentile(sorted, 0.99),
          attempts: sorted.length,
        },
        last_delivery: isoOrNull(webhook.last_delivery_at),
        oldest_due_at: isoOrNull(known.oldest_due_at),
        next_attempt_at: isoOrNull(known.next_attempt_at),
        window: { hours, since: iso(since), ...summarise(known.figures) },
      };
    },
  };
}

export const presentEntry = (row: LogRow) => ({
  id: row.id,
  delivery_id: row.id,
  event_id: row.event_id,
  timestamp: iso(row.attempted_at ?? row.created_at),
  event: row.kind,
  status: row.state,
  reason: row.reason,
  response_code: row.response_code,
  response_time_ms: row.response_time_ms,
  response_excerpt: row.response_excerpt,
  error_class: row.error_class,
  error: row.error,
  attempts: row.attempts,
  attempts_max: row.attempts_max,
  next_attempt_at: isoOrNull(row.next_attempt_at),
  payload_size: row.payload_size,
  created_at: iso(row.created_at),
});

const presentAttempt = (row: AttemptRow) => ({
  number: row.number,
  timestamp: iso(row.started_at),
  response_code: row.response_code,
  response_time_ms: row.response_time_ms,
  response_excerpt: row.response_excerpt,
  error_class: row.error_class,
  error: row.error,
});
