import Type, { type Static } from "typebox";
import { json, query } from "../lib/schema.ts";

// Interface 2.2 names some of these fields, design 3 decides the rest.

export const orNull = <T extends Parameters<typeof Type.Union>[0][number]>(schema: T) =>
  Type.Union([schema, Type.Null()]);
const id = Type.String({ minLength: 1, maxLength: 100 });
const closed = { additionalProperties: false };
const modelName = Type.String({
  maxLength: 200,
  pattern: "^[a-z0-9_-]+/\\S+$",
  description: "provider/name",
});

const seconds = Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 3_600 }));
const TimeLimits = Type.Object(
  {
    connect_seconds: seconds,
    first_token_seconds: seconds,
    between_tokens_seconds: seconds,
    total_seconds: seconds,
  },
  { ...closed, description: "How long a model may take; usually 10, 120, 60 and 1800 seconds." },
);

export const ModelConfig = Type.Object(
  {
    temperature: Type.Optional(Type.Number({ minimum: 0, maximum: 2 })),
    max_tokens: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })),
    reasoning_effort: Type.Optional(Type.Enum(["minimal", "low", "medium", "high"])),
    max_input_tokens: Type.Optional(
      Type.Integer({ minimum: 1_000, description: "Most of the conversation that the model is sent." }),
    ),
    time_limits: Type.Optional(TimeLimits),
    fallback_models: Type.Optional(Type.Array(modelName, { maxItems: 5 })),
    connection: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 100,
        description:
          "Key of the model's provider: a connection of the project, of type model, by name or id; the operator's unless given.",
      }),
    ),
  },
  closed,
);

export const Tool = Type.Object(
  {
    workflow_id: id,
    description: Type.Optional(Type.String({ maxLength: 2_000 })),
    run_behavior: Type.Optional(Type.Enum(["auto_run", "request_confirmation"])),
    timeout_seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: 3_600 })),
    input_config: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  },
  closed,
);
export const SubAgent = Type.Object(
  {
    agent_id: id,
    description: Type.Optional(Type.String({ maxLength: 2_000 })),
    timeout_seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: 3_600 })),
  },
  closed,
);
export const Dataset = Type.Object(
  {
    dataset_id: id,
    top_k: Type.Optional(Type.Integer({ minimum: 1, maximum: 50 })),
    threshold: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
  },
  closed,
);
export const Suggestion = Type.Object(
  {
    title: Type.String({ maxLength: 200 }),
    label: Type.Optional(Type.String({ maxLength: 200 })),
    action: Type.String({ maxLength: 2_000 }),
  },
  closed,
);

export const ResponseFormat = Type.Object(
  {
    type: Type.Enum(["text", "json_object", "json_schema"]),
    schema: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), { description: "JSON Schema (draft-07) of json_schema." }),
    ),
    name: Type.Optional(Type.String({ pattern: "^[a-zA-Z0-9_-]{1,64}$" })),
  },
  { ...closed, description: "The form that every answer has; it is checked, and told again once." },
);

// Open, as clients keep more in it; these are in force.
export const AttachmentConfig = Type.Object(
  {
    enable: Type.Optional(Type.Boolean({ description: "false: messages with pictures are refused." })),
    max_count_per_message: Type.Optional(Type.Integer({ minimum: 1, maximum: 10 })),
    max_file_size: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 5_242_880, description: "Bytes of one picture." }),
    ),
  },
  { additionalProperties: true, description: "What pictures a message may carry; usually ten of 5 MB." },
);

const fields = {
  description: Type.Optional(orNull(Type.String({ maxLength: 10_000 }))),
  system_prompt: Type.Optional(
    orNull(Type.String({ maxLength: 100_000, description: "What the agent is told to be." })),
  ),
  visibility: Type.Optional(
    orNull(Type.Enum(["private", "public"], { description: "public: the anonymous endpoints work for it." })),
  ),
  model: Type.Optional(
    orNull(
      Type.String({
        maxLength: 200,
        pattern: "^[a-z0-9_-]+/\\S+$",
        description: "provider/name; null: the configured default.",
      }),
    ),
  ),
  model_config: Type.Optional(orNull(ModelConfig)),
  tools: Type.Optional(orNull(Type.Array(Tool, { maxItems: 50 }))),
  sub_agents: Type.Optional(orNull(Type.Array(SubAgent, { maxItems: 20 }))),
  datasets: Type.Optional(orNull(Type.Array(Dataset, { maxItems: 20 }))),
  mcp_servers: Type.Optional(
    orNull(Type.Array(Type.Record(Type.String(), Type.Unknown()), { maxItems: 20 })),
  ),
  response_format: Type.Optional(orNull(ResponseFormat)),
  auto_generate_title: Type.Optional(orNull(Type.Boolean())),
  welcome_message: Type.Optional(orNull(Type.String({ maxLength: 10_000 }))),
  suggested_messages: Type.Optional(orNull(Type.Array(Suggestion, { maxItems: 4 }))),
  suggest_replies: Type.Optional(orNull(Type.Boolean())),
  agent_metadata: Type.Optional(orNull(Type.Record(Type.String(), Type.Unknown()))),
  recursion_limit: Type.Optional(orNull(Type.Integer({ minimum: 1, maximum: 100 }))),
  conversation_idle_hours: Type.Optional(
    orNull(
      Type.Integer({
        minimum: 1,
        maximum: 8_760,
        description: "A conversation completes when nothing was said in it for so long; 24.",
      }),
    ),
  ),
  attachment_config: Type.Optional(orNull(AttachmentConfig)),
  public_reasoning: Type.Optional(
    orNull(
      Type.Boolean({ description: "Whether those without a key are told what the model thinks; false." }),
    ),
  ),
  can_resolve: Type.Optional(
    orNull(Type.Boolean({ description: "Whether the agent may close its conversations; false." })),
  ),
};
const name = Type.String({ minLength: 1, maxLength: 200 });

export const CreateAgent = json(Type.Object({ name, ...fields }, closed));
export type CreateAgent = Static<typeof CreateAgent.schema>;

/** Any subset of the fields of a create request; null puts a field back to its default. */
export const UpdateAgent = json(Type.Object({ name: Type.Optional(name), ...fields }, closed));
export type UpdateAgent = Static<typeof UpdateAgent.schema>;

const scope = {
  workspace_id: Type.String({ description: "The calling key's workspace." }),
  project_id: Type.Optional(Type.String({ description: "The calling key's project, where given." })),
};
export const InWorkspace = query(Type.Object(scope));
export type InWorkspace = Static<typeof InWorkspace.schema>;

const paging = {
  limit: Type.Integer({ minimum: 1, maximum: 1000, default: 100 }),
  offset: Type.Integer({ minimum: 0, default: 0 }),
};
export const ListAgents = query(
  Type.Object({
    ...scope,
    ...paging,
    search_query: Type.Optional(
      Type.String({ maxLength: 100, description: "Part of the name or description." }),
    ),
  }),
);
export type ListAgents = Static<typeof ListAgents.schema>;

export const Paging = query(Type.Object(paging));
export type Paging = Static<typeof Paging.schema>;

export const AnswerApproval = json(
  Type.Object(
    {
      approved: Type.Boolean({ description: "Whether the call may run." }),
      reason: Type.Optional(Type.String({ maxLength: 2_000, description: "Told to the model with a no." })),
    },
    closed,
  ),
);

/** The fields beside name, description and visibility, with their defaults; stored as one JSON object. */
export const DEFAULT_SETTINGS = {
  system_prompt: null as string | null,
  model: null as string | null,
  model_config: {} as Static<typeof ModelConfig>,
  tools: [] as Static<typeof Tool>[],
  sub_agents: [] as Static<typeof SubAgent>[],
  datasets: [] as Static<typeof Dataset>[],
  mcp_servers: [] as Record<string, unknown>[],
  response_format: null as Static<typeof ResponseFormat> | null,
  auto_generate_title: true,
  welcome_message: null as string | null,
  suggested_messages: [] as Static<typeof Suggestion>[],
  suggest_replies: false,
  agent_metadata: {} as Record<string, unknown>,
  recursion_limit: 25,
  conversation_idle_hours: 24,
  attachment_config: null as Static<typeof AttachmentConfig> | null,
  public_reasoning: false,
  can_resolve: false,
};
export type AgentSettings = typeof DEFAULT_SETTINGS;

export type Agent = AgentSettings & {
  id: string;
  workspace_id: string;
  project_id: string;
  name: string;
  description: string;
  visibility: "private" | "public";
  created_at: string;
  updated_at: string | null;
};

/** Interface 2.2: what everyone may know of a public agent, these eight fields and no other. */
export const PUBLIC_FIELDS = [
  "id",
  "name",
  "description",
  "auto_generate_title",
  "welcome_message",
  "suggested_messages",
  "agent_metadata",
  "suggest_replies",
] as const;
export type PublicAgent = Pick<Agent, (typeof PUBLIC_FIELDS)[number]>;
