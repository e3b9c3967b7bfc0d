import Type from "typebox";
import { json } from "../lib/schema.ts";

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

/** Interface 2.6, with what tells why. */
export const LogEntry = json(Type.Object(entry));
export const Logs = json(Type.Object({ logs: Type.Array(LogEntry.schema) }));

export const DeliveryRecord = json(
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

export const Stats = json(
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

export const DryRunAnswer = json(
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

export const TestAnswer = json(
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

export const AlertList = json(
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
