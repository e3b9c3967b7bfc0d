import Type, { type Static } from "typebox";
import { json, query } from "../lib/schema.ts";
import { LONGEST_TEMPLATE } from "../lib/template.ts";
import { AUTHENTICATION_TYPES, AUTHENTICATIONS } from "./authentication/index.ts";

const closed = { additionalProperties: false } as const;

/** What an agent is told where a trigger says nothing else. */
export const DEFAULT_MESSAGE = "{{ event.body }}";
export const USUAL_RESPONSE_CODE = 202;
export const USUAL_OVERLAP_SECONDS = 86_400;

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;

const told = [...AUTHENTICATIONS.values()].map(({ type, description, fields }) => {
  const names = Object.keys(fields.properties);
  return `${type}: ${description}${names.length > 0 ? ` (${names.join(", ")})` : ""}`;
});

// The fields of each type are held against its own schema by the service: which they are depends on `type`.
const AuthConfig = Type.Object(
  { type: Type.Enum(AUTHENTICATION_TYPES, { description: "How its sender is known; none must be said." }) },
  { additionalProperties: true, description: told.join(" ") },
);

const name = Type.String({ minLength: 1, maxLength: 200 });
const description = Type.String({ maxLength: 2_000 });
const method = Type.Union([Type.Enum([...METHODS]), Type.Null()], {
  description: "The one method it takes; null: any.",
});
const response_code = Type.Integer({
  minimum: 200,
  maximum: 299,
  description: `What whoever called is answered once the message is on disk; ${USUAL_RESPONSE_CODE} unless given.`,
});
const message = Type.String({
  minLength: 1,
  maxLength: LONGEST_TEMPLATE,
  description:
    "What the agent is told, a template over `event` {method, path, query, headers, body}. " +
    `${DEFAULT_MESSAGE} unless given; another one that comes to nothing tells the agent nothing.`,
});
const conversation_id = Type.Union([Type.String({ minLength: 1, maxLength: 2_000 }), Type.Null()], {
  description: "A template: what comes to the same text is one conversation. null: a new one each time.",
});
const trigger_type = Type.Enum(["webhook"]);
const task_config = Type.Object(
  {
    message: Type.Optional(Type.Union([message, Type.Null()])),
    conversation_id: Type.Optional(conversation_id),
  },
  closed,
);

/** Design 3, "Trigger". */
export const CreateTrigger = json(
  Type.Object(
    {
      name: Type.Optional(name),
      description: Type.Optional(description),
      trigger_type: Type.Optional(trigger_type),
      trigger_config: Type.Object(
        {
          auth_config: AuthConfig,
          method: Type.Optional(method),
          response_code: Type.Optional(response_code),
        },
        closed,
      ),
      task_config: Type.Optional(task_config),
      is_active: Type.Optional(Type.Boolean({ description: "true unless given." })),
    },
    closed,
  ),
);
export type CreateTrigger = Static<typeof CreateTrigger.schema>;

/**
 * Any subset, also of trigger_config and task_config. Within auth_config a secret that is left out stays while
 * the type stays. A path may be given as it is: a record that was read can be sent back.
 */
export const UpdateTrigger = json(
  Type.Object(
    {
      name: Type.Optional(name),
      description: Type.Optional(Type.Union([description, Type.Null()])),
      trigger_type: Type.Optional(trigger_type),
      trigger_config: Type.Optional(
        Type.Object(
          {
            path: Type.Optional(Type.String({ description: "As it is; it never changes." })),
            auth_config: Type.Optional(AuthConfig),
            method: Type.Optional(method),
            response_code: Type.Optional(Type.Union([response_code, Type.Null()])),
          },
          closed,
        ),
      ),
      task_config: Type.Optional(Type.Union([task_config, Type.Null()])),
      is_active: Type.Optional(Type.Boolean()),
    },
    closed,
  ),
);
export type UpdateTrigger = Static<typeof UpdateTrigger.schema>;

export const RotateTriggerSecret = json(
  Type.Object(
    {
      secret: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 1_024,
          description: "The new one; made where none is given and its sender does not issue it.",
        }),
      ),
      overlap_seconds: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: 30 * 86_400,
          description: `How long the one before it still counts; ${USUAL_OVERLAP_SECONDS} unless given.`,
        }),
      ),
    },
    closed,
  ),
);
export type RotateTriggerSecret = Static<typeof RotateTriggerSecret.schema>;

const paging = {
  limit: Type.Integer({ minimum: 1, maximum: 1_000, default: 100 }),
  offset: Type.Integer({ minimum: 0, default: 0 }),
};
export const ListTriggers = query(Type.Object(paging));
export type ListTriggers = Static<typeof ListTriggers.schema>;

export const STATUSES = ["accepted", "rejected", "completed", "failed"] as const;

export const ListTriggerEvents = query(
  Type.Object({
    ...paging,
    status: Type.Optional(Type.Enum([...STATUSES], { description: "Only these." })),
  }),
);
export type ListTriggerEvents = Static<typeof ListTriggerEvents.schema>;

const stringOrNull = Type.Union([Type.String(), Type.Null()]);

const fields = {
  id: Type.String(),
  agent_id: Type.String(),
  workspace_id: Type.String(),
  project_id: Type.String(),
  name: Type.String(),
  description: Type.String(),
  trigger_type,
  trigger_config: Type.Object({
    path: Type.String({ description: "UUID in the address." }),
    method,
    auth_config: Type.Object(
      { type: Type.Enum(AUTHENTICATION_TYPES) },
      { additionalProperties: true, description: "Its secret is left out." },
    ),
    response_code: Type.Integer(),
  }),
  task_config: Type.Object({ message: Type.String(), conversation_id: stringOrNull }),
  is_active: Type.Boolean(),
  url: Type.String({ description: "Where it is called." }),
  previous_secret_until: Type.Union([Type.String(), Type.Null()], {
    description: "Until when the secret before the present one counts as well.",
  }),
  created_at: Type.String(),
  updated_at: stringOrNull,
};

export const Trigger = Type.Object(fields);
export type Trigger = Static<typeof Trigger>;

/** `secret`: one that was made here, shown in this answer and in no other. */
export const NewTrigger = Type.Object({ ...fields, secret: Type.Optional(Type.String()) });
export type NewTrigger = Static<typeof NewTrigger>;

export const TriggerEvent = Type.Object({
  id: Type.String(),
  trigger_id: Type.String(),
  agent_id: Type.String(),
  request: Type.Object({
    method: Type.String(),
    path: Type.String(),
    query: Type.Record(Type.String(), Type.Unknown()),
    headers: Type.Record(Type.String(), Type.String(), { description: "Credentials removed." }),
    body: Type.Unknown({ description: "Null where its sender was not recognised." }),
  }),
  response: Type.Object({ status: Type.Integer(), body: Type.Unknown() }),
  status: Type.Enum([...STATUSES]),
  error: Type.Union([Type.Object({ code: Type.String(), message: Type.String() }), Type.Null()]),
  conversation_id: stringOrNull,
  execution_id: Type.Union([Type.String(), Type.Null()], { description: "The agent's turn." }),
  redelivery_of: stringOrNull,
  created_at: Type.String(),
  completed_at: stringOrNull,
});
export type TriggerEvent = Static<typeof TriggerEvent>;
