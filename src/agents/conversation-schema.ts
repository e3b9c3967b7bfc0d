import Type, { type Static } from "typebox";
import { json, query } from "../lib/schema.ts";

const closed = { additionalProperties: false };
const orNull = <T extends Parameters<typeof Type.Union>[0][number]>(schema: T) =>
  Type.Union([schema, Type.Null()]);

const tag = Type.String({ minLength: 1, maxLength: 50 });
const tags = Type.Array(tag, { maxItems: 20 });

/** Interface 6.2: how a conversation ended. */
export const Resolution = Type.Object(
  {
    type: Type.String({ minLength: 1, maxLength: 100 }),
    category: Type.Optional(Type.String({ maxLength: 100 })),
    tags: Type.Optional(tags),
  },
  closed,
);
export type Resolution = Static<typeof Resolution>;

const ending = {
  resolution: Type.Optional(orNull(Resolution)),
  satisfaction_score: Type.Optional(orNull(Type.Number({ minimum: 0, maximum: 100 }))),
};

export const ListConversations = query(
  Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 1000, default: 100 }),
    offset: Type.Integer({ minimum: 0, default: 0 }),
    user_id: Type.Optional(Type.String({ maxLength: 200, description: "Only of this user." })),
    tag: Type.Optional(Type.String({ maxLength: 50, description: "Only those with this tag." })),
    status: Type.Optional(Type.Enum(["active", "completed"])),
    waiting: Type.Optional(
      Type.Boolean({ description: "true: only those in which a call of a tool waits for approval." }),
    ),
  }),
);
export type ListConversations = Static<typeof ListConversations.schema>;

/** Fields that are sent replace those before; null clears. */
export const UpdateConversation = json(
  Type.Object(
    {
      title: Type.Optional(orNull(Type.String({ maxLength: 200 }))),
      tags: Type.Optional(orNull(tags)),
      metadata: Type.Optional(orNull(Type.Record(Type.String(), Type.Unknown()))),
      ...ending,
    },
    closed,
  ),
);
export type UpdateConversation = Static<typeof UpdateConversation.schema>;

export const CloseConversation = json(Type.Object(ending, closed));
export type CloseConversation = Static<typeof CloseConversation.schema>;

export const GiveFeedback = json(
  Type.Object(
    {
      rating: orNull(Type.Enum(["up", "down"])),
      comment: Type.Optional(orNull(Type.String({ maxLength: 2_000 }))),
    },
    closed,
  ),
);
export type GiveFeedback = Static<typeof GiveFeedback.schema>;
