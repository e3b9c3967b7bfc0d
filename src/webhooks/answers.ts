import Type from "typebox";
import { answers } from "../lib/schema.ts";

// The shapes of what became of deliveries, as the API answers and describes them.

const text = Type.String();
const count = Type.Integer();
const orNull = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const textOrNull = orNull(text);
const at = Type.String({ format: "date-time" });
const atOrNull = orNull(at);

const answered = {
  response_code: orNull(count),
  response_excerpt: textOrNull,
  error_class: textOrNull,
  error: textOrNull,
};

const entry = {
  id: text,
  delivery_id: text,
  event_id: text,
  timestamp: Type.String({ format: "date-time", description: "Of the last attempt." }),
  event: text,
  status: text,
  reason: textOrNull,
  ...answered,
  response_time_ms: orNull(count),
  attempts: count,
  attempts_max: count,
  next_attempt_at: atOrNull,
  payload_size: count,
  created_at: at,
};

const webhook = {
  id: text,
  workspace_id: text,
  project_id: text,
  name: text,
  url: text,
  events: Type.Array(text),
  status: Type.String({ description: "active or paused" }),
  status_reason: textOrNull,
  authentication: Type.Record(Type.String(), Type.String(), { description: "Without its secrets." }),
  header_names: Type.Array(text),
  retry_policy: orNull(
    Type.Object({
      max_retries: Type.Optional(count),
      backoff_multiplier: Type.Optional(Type.Number()),
    }),
  ),
  conditions: orNull(Type.Record(Type.String(), Type.Unknown())),
  filters: orNull(Type.Object({ include_fields: Type.Array(text) })),
  batch_settings: orNull(Type.Object({ max_events: count, max_wait_seconds: count })),
  ordered: Type.Boolean(),
  concurrency: orNull(count),
  rate_limit_per_second: orNull(count),
  failing_since: orNull(
    Type.String({ format: "date-time", description: "The first failed attempt after the last good one." }),
  ),
  created_at: at,
  updated_at: atOrNull,
  last_delivery: atOrNull,
  delivery_stats: Type.Object({
    total_deliveries: count,
    successful_deliveries: count,
    failed_deliveries: count,
  }),
};

/** Interface 2.5 and design 3. */
export const WebhookRecord = answers(Type.Object(webhook));
export const NewWebhookRecord = answers(Type.Object({ ...webhook, secret: text }));
export const WebhookList = answers(Type.Object({ webhooks: Type.Array(WebhookRecord.schema) }));

export const SecretAnswer = answers(
  Type.Object({
    secret: text,
    previous_secret: orNull(Type.String({ description: "Signs as well, until previous_secret_until." })),
    previous_secret_until: atOrNull,
  }),
);

export const ReplayAnswer = answers(
  Type.Object({
    webhook_id: text,
    replayed: Type.Integer({ description: "How many deliveries go out again." }),
    next_since: orNull(
      Type.String({ format: "date-time", description: "Where the rest begins, if there were more." }),
    ),
  }),
);

/** Interface 2.6, with what tells why. */
export const LogEntry = answers(Type.Object(entry));
export const Logs = answers(Type.Object({ logs: Type.Array(LogEntry.schema) }));

export const DeliveryRecord = answers(
  Type.Object({
    ...entry,
    payload: orNull(
      Type.String({ description: "The bytes sent on every attempt; null where none were written." }),
    ),
    history: Type.Array(Type.Object({ number: count, timestamp: at, ...answered, response_time_ms: count })),
  }),
);

const times = { p50: orNull(count), p95: orNull(count), p99: orNull(count) };
const summary = {
  attempts: count,
  successful_deliveries: count,
  failed_deliveries: count,
  filtered_events: count,
  success_rate: orNull(Type.Number()),
  response_time_ms: Type.Object(times),
};

export const Stats = answers(
  Type.Object({
    webhook_id: text,
    status: text,
    total_deliveries: count,
    successful_deliveries: count,
    failed_deliveries: count,
    waiting_deliveries: count,
    success_rate: orNull(Type.Number()),
    response_time_ms: Type.Object({ ...times, attempts: count }),
    last_delivery: atOrNull,
    oldest_due_at: atOrNull,
    next_attempt_at: atOrNull,
    window: Type.Object({
      hours: count,
      since: at,
      ...summary,
      by_event: Type.Array(Type.Object({ event: text, ...summary })),
      by_hour: Type.Array(Type.Object({ hour: at, ...summary })),
    }),
  }),
);

export const DryRunAnswer = answers(
  Type.Object({
    webhook_id: text,
    event: text,
    would_send: Type.Boolean(),
    outcome: text,
    reason: textOrNull,
    conditions: Type.Array(
      Type.Object({ field: text, expected: Type.Unknown(), observed: Type.Unknown(), holds: Type.Boolean() }),
    ),
    batched: Type.Boolean(),
    payload: text,
    payload_size: count,
  }),
);

export const TestAnswer = answers(
  Type.Object({
    success: Type.Boolean(),
    webhook_id: text,
    event: text,
    sent: Type.Object({
      method: text,
      url: text,
      headers: Type.Record(Type.String(), Type.String()),
      body: text,
    }),
    received: Type.Object({ ...answered, response_time_ms: count }),
    conditions: Type.Object({ hold: Type.Boolean(), reason: textOrNull }),
    verify: Type.Object({ secret: text, service_signature: text, command: text, standard_webhooks: text }),
  }),
);

export const AlertList = answers(
  Type.Object({
    alerts: Type.Array(
      Type.Object({
        id: text,
        kind: Type.Enum(["exhausted", "paused", "recovered"]),
        status: Type.Enum(["pending", "sent", "logged", "failed"]),
        error: textOrNull,
        delivery_id: text,
        event_id: text,
        event: text,
        reason: textOrNull,
        created_at: at,
        ended_at: atOrNull,
      }),
    ),
  }),
);

export const EgressIps = answers(Type.Object({ egress_ips: Type.Array(text) }));
