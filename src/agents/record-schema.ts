import Type from "typebox";
import { answers } from "../lib/schema.ts";
import {
  AttachmentConfig,
  Dataset,
  ModelConfig,
  orNull,
  PUBLIC_FIELDS,
  ResponseFormat,
  SubAgent,
  Suggestion,
  Tool,
} from "./schema.ts";

const text = Type.String();
const textOrNull = orNull(text);
const at = Type.String({ format: "date-time" });
const object = Type.Record(text, Type.Unknown());

const what = {
  name: text,
  description: text,
  visibility: Type.Enum(["private", "public"]),
  system_prompt: textOrNull,
  model: textOrNull,
  model_config: ModelConfig,
  tools: Type.Array(Tool),
  sub_agents: Type.Array(SubAgent),
  datasets: Type.Array(Dataset),
  mcp_servers: Type.Array(object),
  response_format: orNull(ResponseFormat),
  auto_generate_title: Type.Boolean(),
  welcome_message: textOrNull,
  suggested_messages: Type.Array(Suggestion),
  suggest_replies: Type.Boolean(),
  agent_metadata: object,
  recursion_limit: Type.Integer(),
  conversation_idle_hours: Type.Integer(),
  // Not with agents of before there were such settings.
  public_reasoning: Type.Optional(Type.Boolean()),
  can_resolve: Type.Optional(Type.Boolean()),
  attachment_config: orNull(AttachmentConfig),
};

const Agent = Type.Object({
  id: text,
  workspace_id: text,
  project_id: text,
  ...what,
  created_at: at,
  updated_at: orNull(at),
});
export const AgentRecord = answers(Agent);
export const AgentList = answers(Type.Array(Agent));
export const PublicAgentRecord = answers(Type.Pick(Agent, [...PUBLIC_FIELDS]));

const Version = Type.Object({
  agent_id: text,
  version: Type.Integer(),
  is_current: Type.Boolean(),
  ...what,
  created_at: at,
});
export const VersionRecord = answers(Version);
export const VersionList = answers(Type.Array(Version));

export const Stopped = answers(
  Type.Object({
    conversation_id: text,
    stopped: Type.Array(text, { description: "The answers that were ended, by their execution_id." }),
  }),
);
