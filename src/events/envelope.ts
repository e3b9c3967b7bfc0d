import { iso } from "../lib/clock.ts";
import type { JsonObject } from "../lib/json.ts";
import { type Filters, includeFields } from "../webhooks/filters.ts";
import { bytesOf, type HeadParts, headOf } from "./store.ts";

/**
 * The body of a delivery (interface 6.2), written once: these bytes are stored, signed and sent on every
 * attempt. `text` is `data` already as JSON, used where nothing is left out.
 */
export function envelope(
  event: { kind: string; at: number; data: JsonObject; text?: string },
  subscription: { id: string; filters: Filters | null },
): string {
  const { filters } = subscription;
  const data = filters
    ? JSON.stringify(includeFields(event.data, filters.include_fields))
    : (event.text ?? JSON.stringify(event.data));
  return bytesOf({ head: headOf(partsOf(event), subscription.id), body: "" }, data);
}

/** All that stands before the data, but for the webhook's id. */
export function partsOf(event: { kind: string; at: number }): HeadParts {
  const head = JSON.stringify({ event: event.kind, timestamp: iso(event.at), webhook_id: "" });
  return [head.slice(0, -2), '","data":'];
}
