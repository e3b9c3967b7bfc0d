import type { EventKind } from "../events/kinds.ts";
import { matches } from "../events/kinds.ts";
import type { Caller } from "../keys/schema.ts";
import type { Clock } from "../lib/clock.ts";
import { newId } from "../lib/ids.ts";
import { type JsonObject, readPath } from "../lib/json.ts";
import { type Conditions, evaluate } from "./conditions.ts";
import { firstKind, sampleBody, sampleData } from "./samples.ts";
import type { DryRun } from "./schema.ts";
import type { SubscriptionRow } from "./store.ts";

export type DryRunning = ReturnType<typeof createDryRun>;

/** Tells what would become of an event at a webhook, and sends and stores nothing. */
export function createDryRun(deps: {
  inScope: (caller: Caller, webhook_id: string) => Promise<SubscriptionRow>;
  clock: Clock;
}) {
  return async (caller: Caller, webhook_id: string, { event, data: given }: DryRun) => {
    const webhook = await deps.inScope(caller, webhook_id);
    const kind = (event as EventKind | undefined) ?? firstKind(webhook.events);
    const at = deps.clock.now();
    const data = (given as JsonObject | undefined) ?? sampleData(kind, at);
    const stop = obstacle(webhook, kind, data);
    const body = sampleBody(webhook, { id: newId(), kind, at, data });
    return {
      webhook_id,
      event: kind,
      would_send: stop === undefined,
      outcome: stop?.outcome ?? (webhook.batch_settings ? "batched" : "delivered"),
      reason: stop?.reason ?? batching(webhook),
      conditions: judged(webhook.conditions ?? {}, data),
      batched: webhook.batch_settings !== null,
      /** What the receiver would get; where it takes batches, a batch of this event alone. */
      payload: body,
      payload_size: Buffer.byteLength(body),
    };
  };
}

/** The first thing that would keep the event back, in the order in which events are decided about. */
function obstacle(webhook: SubscriptionRow, kind: EventKind, data: JsonObject) {
  if (!webhook.events.some((pattern) => matches(pattern, kind))) {
    return { outcome: "not_subscribed", reason: `lists ${webhook.events.join(", ")}, and not ${kind}` };
  }
  const verdict = webhook.conditions ? evaluate(webhook.conditions, data) : undefined;
  if (verdict?.holds === false) return { outcome: "filtered", reason: verdict.reason };
  if (webhook.status === "paused")
    return { outcome: "paused", reason: webhook.status_reason ?? "the webhook is paused" };
  return undefined;
}

const batching = ({ batch_settings: batch }: SubscriptionRow): string | null =>
  batch && `sent with others, at ${batch.max_events} events or ${batch.max_wait_seconds} s after the first`;

/** Each condition by itself, with what it saw; null stands for a field that is not there. */
const judged = (conditions: Conditions, data: JsonObject) =>
  Object.entries(conditions).map(([field, expected]) => ({
    field,
    expected,
    observed: readPath(data, field) ?? null,
    holds: evaluate({ [field]: expected }, data).holds,
  }));
