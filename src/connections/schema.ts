import Type, { type Static } from "typebox";
import { json, query } from "../lib/schema.ts";
import { CONNECTION_TYPES, TYPE_NAMES } from "./types.ts";

const closed = { additionalProperties: false } as const;

const name = Type.String({
  minLength: 1,
  maxLength: 100,
  pattern: "^[A-Za-z0-9][A-Za-z0-9 ._-]*$",
  description: "What nodes call it: letters, digits, spaces, dots, - and _; one of a kind in the project.",
});
const told = TYPE_NAMES.map(
  (type) => `${type}: ${Object.keys(CONNECTION_TYPES[type].fields.properties).join(", ")}`,
);
// Held against the type's own fields by the service: which they are depends on another field.
const config = Type.Record(Type.String(), Type.Unknown(), {
  description: `What it holds. ${told.join(". ")}.`,
});

export const CreateConnection = json(
  Type.Object({ name, type: Type.Enum(TYPE_NAMES, { description: "What kind it is." }), config }, closed),
);
export type CreateConnection = Static<typeof CreateConnection.schema>;

/** Any subset; of `config` the fields given are replaced, null clears an optional one. The type stays. */
export const UpdateConnection = json(
  Type.Object({ name: Type.Optional(name), config: Type.Optional(config) }, closed),
);
export type UpdateConnection = Static<typeof UpdateConnection.schema>;

export const InScope = query(
  Type.Object({
    workspace_id: Type.Optional(Type.String({ description: "Must be the key's." })),
    project_id: Type.Optional(Type.String({ description: "Must be the key's." })),
  }),
);
export type InScope = Static<typeof InScope.schema>;

export const ListConnections = query(
  Type.Object({
    ...InScope.schema.properties,
    type: Type.Optional(Type.Enum(TYPE_NAMES, { description: "Only these." })),
    limit: Type.Integer({ minimum: 1, maximum: 1_000, default: 100 }),
    offset: Type.Integer({ minimum: 0, default: 0 }),
  }),
);
export type ListConnections = Static<typeof ListConnections.schema>;

export const Connection = Type.Object(
  {
    id: Type.String(),
    workspace_id: Type.String(),
    project_id: Type.String(),
    name: Type.String(),
    type: Type.Enum(TYPE_NAMES),
    config: Type.Record(Type.String(), Type.Unknown(), { description: "What it holds, secrets left out." }),
    created_at: Type.String(),
    updated_at: Type.Union([Type.String(), Type.Null()]),
  },
  closed,
);
export type Connection = Static<typeof Connection>;
