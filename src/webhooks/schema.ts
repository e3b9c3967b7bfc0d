import Type, { type Static } from "typebox";
import { BATCH_KIND, EVENT_KINDS, EVENT_PATTERNS } from "../events/kinds.ts";
import type { Fault } from "../lib/errors.ts";
import { feedQuery } from "../lib/feed-query.ts";
import type { JsonObject } from "../lib/json.ts";
import { json, query } from "../lib/schema.ts";
import { AUTHENTICATION_TYPES, authenticationFaults, headerFaults } from "./authentication.ts";
import { conditionFaults } from "./conditions.ts";
import { filterFaults } from "./filters.ts";

const closed = { additionalProperties: false } as const;
const secretText = Type.String({ maxLength: 4_096 });

export const LONGEST_NAME = 200;

const fields = {
  name: Type.String({ minLength: 1, maxLength: LONGEST_NAME }),
  url: Type.String({ minLength: 1, maxLength: 2_048, description: "Where deliveries are sent." }),
  events: Type.Array(Type.Enum([...EVENT_PATTERNS]), { minItems: 1, maxItems: 20, uniqueItems: true }),
  authentication: Type.Object(
    {
      type: Type.Enum(AUTHENTICATION_TYPES),
      token: Type.Optional(secretText),
      username: Type.Optional(secretText),
      password: Type.Optional(secretText),
      name: Type.Optional(Type.String({ maxLength: 100 })),
      value: Type.Optional(secretText),
    },
    { ...closed, description: "bearer: token. basic: username, password. header: name, value." },
  ),
  headers: Type.Record(Type.String(), secretText, {
    maxProperties: 20,
    description: "Sent with every delivery.",
  }),
  retry_policy: Type.Object(
    {
      max_retries: Type.Optional(Type.Integer({ minimum: 0, maximum: 6 })),
      backoff_multiplier: Type.Optional(Type.Number({ minimum: 1, maximum: 10 })),
    },
    closed,
  ),
  conditions: Type.Record(Type.String(), Type.Unknown()),
  filters: Type.Object(
    { include_fields: Type.Array(Type.String({ maxLength: 200 }), { maxItems: 100 }) },
    closed,
  ),
  batch_settings: Type.Object(
    {
      max_events: Type.Integer({ minimum: 1, maximum: 100 }),
      max_wait_seconds: Type.Integer({ minimum: 1, maximum: 3_600 }),
    },
    closed,
  ),
};

const ordered = Type.Boolean({
  description: "One delivery at a time, in the order of events; one that fails holds the later ones.",
});
const limits = {
  concurrency: Type.Integer({ minimum: 1, maximum: 64, description: "Most deliveries under way at a time." }),
  rate_limit_per_second: Type.Integer({
    minimum: 1,
    maximum: 500,
    description: "Most deliveries begun within a second.",
  }),
};

const clearable = <T extends Type.TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]));

const optional = {
  authentication: clearable(fields.authentication),
  headers: clearable(fields.headers),
  retry_policy: clearable(fields.retry_policy),
  conditions: clearable(fields.conditions),
  filters: clearable(fields.filters),
  batch_settings: clearable(fields.batch_settings),
  ordered: Type.Optional(ordered),
  concurrency: clearable(limits.concurrency),
  rate_limit_per_second: clearable(limits.rate_limit_per_second),
};

/** Interface 2.5; `name` is the URL's host when it is not given. */
export const CreateWebhook = json(
  Type.Object(
    { name: Type.Optional(fields.name), url: fields.url, events: fields.events, ...optional },
    closed,
  ),
);
export type CreateWebhook = Static<typeof CreateWebhook.schema>;

/** Any subset; null clears an optional field. */
export const UpdateWebhook = json(
  Type.Object(
    {
      name: Type.Optional(fields.name),
      url: Type.Optional(fields.url),
      events: Type.Optional(fields.events),
      ...optional,
    },
    closed,
  ),
);
export type UpdateWebhook = Static<typeof UpdateWebhook.schema>;

const LONGEST_OVERLAP_SECONDS = 7 * 86_400;
export const USUAL_OVERLAP_SECONDS = 86_400;

export const RotateSecret = query(
  Type.Object({
    overlap_seconds: Type.Integer({
      minimum: 0,
      maximum: LONGEST_OVERLAP_SECONDS,
      default: USUAL_OVERLAP_SECONDS,
      description: "How long the old secret still signs beside the new one.",
    }),
  }),
);
export type RotateSecret = Static<typeof RotateSecret.schema>;

/** What became of the events that a replay sends again; any: all that were sent or given up. */
const REPLAY_STATES = ["failed", "success", "cancelled", "filtered", "any"] as const;

export const ReplayWebhook = json(
  Type.Object(
    {
      since: Type.String({ maxLength: 40, description: "ISO 8601, included." }),
      until: Type.Optional(
        Type.String({ maxLength: 40, description: "ISO 8601, included; now unless given." }),
      ),
      events: Type.Optional(
        Type.Array(Type.Enum([...EVENT_KINDS, BATCH_KIND]), { minItems: 1, maxItems: 20, uniqueItems: true }),
      ),
      status: Type.Optional(Type.Enum([...REPLAY_STATES], { description: "failed unless given." })),
    },
    closed,
  ),
);
export type ReplayWebhook = Static<typeof ReplayWebhook.schema>;

export const TestWebhook = json(
  Type.Object(
    {
      event: Type.Optional(Type.Enum([...EVENT_KINDS])),
      test_data: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
    },
    closed,
  ),
);
export type TestWebhook = Static<typeof TestWebhook.schema>;

/** A sample of an event; `data` is the kind's own sample where it is not given. */
export const DryRun = json(
  Type.Object(
    {
      event: Type.Optional(Type.Enum([...EVENT_KINDS])),
      data: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
    },
    closed,
  ),
);
export type DryRun = Static<typeof DryRun.schema>;

const listing = {
  limit: Type.Integer({ minimum: 1, maximum: 1_000, default: 100 }),
  offset: Type.Integer({ minimum: 0, default: 0 }),
};
export const ListWebhooks = query(Type.Object(listing));
export type ListWebhooks = Static<typeof ListWebhooks.schema>;

export const DELIVERY_STATES = [
  "pending",
  "retrying",
  "success",
  "failed",
  "filtered",
  "paused",
  "held",
  "batched",
  "collecting",
  "cancelled",
] as const;

export const ListLogs = query(
  Type.Object({
    ...feedQuery,
    status: Type.Optional(Type.Enum([...DELIVERY_STATES])),
    event: Type.Optional(Type.Enum([...EVENT_KINDS, BATCH_KIND])),
  }),
);
export type ListLogs = Static<typeof ListLogs.schema>;

export const ReadStats = query(
  Type.Object({ hours: Type.Integer({ minimum: 1, maximum: 168, default: 24, description: "The window." }) }),
);
export type ReadStats = Static<typeof ReadStats.schema>;

/** What the schemas cannot say; the URL is the egress's to judge. */
export function webhookFaults(body: UpdateWebhook): Fault[] {
  return [
    ...(body.authentication ? authenticationFaults(body.authentication) : []),
    ...(body.headers ? headerFaults(body.headers) : []),
    ...(body.conditions ? conditionFaults(body.conditions as JsonObject) : []),
    ...(body.filters ? filterFaults(body.filters) : []),
  ];
}
