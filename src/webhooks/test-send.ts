import type { EventKind } from "../events/kinds.ts";
import type { Caller } from "../keys/schema.ts";
import { newId } from "../lib/ids.ts";
import type { JsonObject } from "../lib/json.ts";
import { evaluate } from "./conditions.ts";
import { firstKind, sampleBody, sampleData } from "./samples.ts";
import type { TestWebhook } from "./schema.ts";
import { deliveryHeaders, isOurs, type Sender, sendOnce } from "./send.ts";
import type { SubscriptionRow } from "./store.ts";

// Shorter than a delivery's: somebody waits for the answer, and servers in between give up at 30 s.
const TEST_MS = 10_000;

export type TestSend = ReturnType<typeof createTestSend>;

/**
 * Sends a sample to a webhook at once, whatever its status, and tells both sides of it. Counts nowhere
 * and is never retried. Conditions do not hold it back; the answer says what they would have done.
 */
export function createTestSend(
  deps: Sender & { inScope: (caller: Caller, webhook_id: string) => Promise<SubscriptionRow> },
) {
  return async (caller: Caller, webhook_id: string, { event, test_data }: TestWebhook) => {
    const webhook = await deps.inScope(caller, webhook_id);
    const kind = (event as EventKind | undefined) ?? firstKind(webhook.events);
    const at = deps.clock.now();
    const data = { ...sampleData(kind, at), ...(test_data as JsonObject | undefined), test: true };
    const id = newId();
    const body = sampleBody(webhook, { id, kind, at, data });
    const outgoing = { id, body, attempt: 1, hop: 1 };
    const { alike, headers: own } = deliveryHeaders(deps, webhook, outgoing);
    const headers = { ...alike, ...own, "X-Service-Test": "true" };
    const request = { url: webhook.url, headers, body };
    const {
      retry_after_ms: _,
      truncated: __,
      ...received
    } = await sendOnce(deps, { ...request, timeoutMs: TEST_MS });
    const verdict = webhook.conditions ? evaluate(webhook.conditions, data) : { holds: true as const };
    return {
      success: received.error === null,
      webhook_id,
      event: kind,
      sent: { method: "POST", ...request, headers: withoutSecrets(headers) },
      received: {
        response_code: received.response_code,
        response_time_ms: received.response_time_ms,
        response_excerpt: received.response_excerpt,
        error_class: received.error_class,
        error: received.error,
      },
      conditions: { hold: verdict.holds, reason: verdict.holds ? null : verdict.reason },
      verify: howToVerify(webhook_id),
    };
  };
}

/** What a receiver's author does with the bytes above; the secret itself is not repeated here. */
const howToVerify = (id: string) => ({
  secret: `GET /api/v1/webhooks/${id}/secret, or: errand webhooks secret ${id}`,
  service_signature:
    "X-Service-Signature is sha256= and the lowercase hex HMAC-SHA256 of the body's bytes, keyed with the whole secret as it is shown.",
  command: 'printf %s "$BODY" | openssl dgst -sha256 -hmac "$SECRET"',
  standard_webhooks:
    'webhook-signature is v1, and the base64 HMAC-SHA256 of "webhook-id.webhook-timestamp.body", keyed with the base64-decoded part behind whsec_; any Standard Webhooks library checks it.',
});

// Credentials are write-only.
const withoutSecrets = (headers: Record<string, string>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, isOurs(name) ? value : "***"]));
