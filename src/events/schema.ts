import Type, { type Static } from "typebox";
import { feedQuery } from "../lib/feed-query.ts";
import { answers, query } from "../lib/schema.ts";
import { EVENT_KINDS } from "./kinds.ts";

export const ListEvents = query(
  Type.Object({
    ...feedQuery,
    event: Type.Optional(Type.Enum([...EVENT_KINDS])),
    subject_id: Type.Optional(
      Type.String({ maxLength: 100, description: "The execution or conversation it tells of." }),
    ),
  }),
);
export type ListEvents = Static<typeof ListEvents.schema>;

const textOrNull = Type.Union([Type.String(), Type.Null()]);
const at = Type.String({ format: "date-time" });
const atOrNull = Type.Union([at, Type.Null()]);

const entry = {
  id: Type.String(),
  event: Type.String(),
  timestamp: at,
  subject_id: Type.String(),
};

export const EventList = answers(
  Type.Array(
    Type.Object({
      ...entry,
      outcomes: Type.Record(Type.String(), Type.Integer(), {
        description: "How many webhooks of each outcome.",
      }),
    }),
  ),
);

/** An event with a line for every webhook of its project. */
export const EventRecord = answers(
  Type.Object({
    ...entry,
    data: Type.Record(Type.String(), Type.Unknown()),
    webhooks: Type.Array(
      Type.Object({
        webhook_id: Type.String(),
        name: textOrNull,
        outcome: Type.String(),
        reason: Type.String(),
        delivery_id: textOrNull,
        attempts: Type.Integer(),
        attempts_max: Type.Integer(),
        response_code: Type.Union([Type.Integer(), Type.Null()]),
        error_class: textOrNull,
        last_attempt_at: atOrNull,
        next_attempt_at: atOrNull,
        earlier_delivery_ids: Type.Array(Type.String()),
      }),
    ),
  }),
);
