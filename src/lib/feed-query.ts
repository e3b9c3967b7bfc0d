import Type from "typebox";

/** The query of a list that is read newest first; `cursor` comes out of the Link of the answer before. */
export const feedQuery = {
  limit: Type.Integer({ minimum: 1, maximum: 1_000, default: 100 }),
  offset: Type.Integer({ minimum: 0, maximum: 10_000, default: 0 }),
  cursor: Type.Optional(
    Type.String({ pattern: "^\\d{1,15}_[0-9a-f-]{36}$", description: "From the Link of an answer." }),
  ),
  since: Type.Optional(Type.String({ maxLength: 40, description: "ISO 8601, included." })),
  until: Type.Optional(Type.String({ maxLength: 40, description: "ISO 8601, included." })),
};
