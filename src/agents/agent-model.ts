import { secretsOf } from "../connections/conceal.ts";
import type { OpenConnection } from "../connections/types.ts";
import { conceal } from "../lib/conceal.ts";
import {
  ModelError,
  type ModelPart,
  type ModelRequest,
  type Models,
  type ModelTool,
  type TimeLimits,
} from "../models/model.ts";
import { windowOf } from "../models/windows.ts";
import { tokensOf } from "./history.ts";
import type { AgentTarget } from "./service.ts";

export type ModelDeps = {
  models: Models;
  connections: { open(project_id: string, ref: string): Promise<OpenConnection | "foreign" | undefined> };
};

/** The model that an agent names, else the configured default; as provider/name. */
export const modelOf = (models: Pick<Models, "default_model">, { settings }: AgentTarget): string =>
  settings.model ?? models.default_model;

/**
 * What an agent's model answers, asked with the key of the connection that the agent names where it names
 * one. Throws ModelError, also under way; the key stands in none.
 */
export async function askModelOf(
  { models, connections }: ModelDeps,
  agent: AgentTarget,
  request: Omit<ModelRequest, "model" | "access">,
): Promise<AsyncIterable<ModelPart>> {
  const model = modelOf(models, agent);
  const { connection: ref } = agent.settings.model_config;
  if (ref === undefined) return models.stream({ ...request, model });
  const opened = await connections.open(agent.project_id, ref);
  const { api_key, base_url, provider } = usable(opened, ref);
  if (!model.startsWith(`${provider}/`)) {
    const words = `The connection ${shown(ref)} holds a key of ${provider}, and the agent's model is ${model}.`;
    throw new ModelError("MODEL_UNKNOWN", words, false);
  }
  const secrets = secretsOf(opened as OpenConnection);
  return concealing(models.stream({ ...request, model, access: { api_key, base_url } }), secrets);
}

const shown = (ref: string): string => JSON.stringify(ref.slice(0, 100));

function usable(opened: OpenConnection | "foreign" | undefined, ref: string) {
  if (opened === undefined || opened === "foreign") {
    const words = `There is no connection ${shown(ref)} in the agent's project; was it deleted?`;
    throw new ModelError("MODEL_UNKNOWN", words, false);
  }
  if (opened.type === "model") return opened;
  const words = `The connection ${shown(ref)} is of type ${opened.type}; expected model.`;
  throw new ModelError("MODEL_UNKNOWN", words, false);
}

/** Some servers say back what they were sent, in their words for a failure. */
async function* concealing(stream: AsyncIterable<ModelPart>, secrets: string[]): AsyncIterable<ModelPart> {
  try {
    yield* stream;
  } catch (error) {
    if (!(error instanceof ModelError)) throw error;
    const { code, message, retryable, retry_after } = error;
    throw new ModelError(code, conceal(message, secrets), retryable, retry_after);
  }
}

const ms = (seconds: number | undefined): number | undefined => seconds && seconds * 1_000;

/** As an agent has them, in milliseconds; what it leaves open is left out. */
export function limitsOf(given: AgentTarget["settings"]["model_config"]["time_limits"]): Partial<TimeLimits> {
  const limits = {
    connect: ms(given?.connect_seconds),
    first_token: ms(given?.first_token_seconds),
    between_tokens: ms(given?.between_tokens_seconds),
    total: ms(given?.total_seconds),
  };
  return Object.fromEntries(Object.entries(limits).filter(([, limit]) => limit !== undefined));
}

const LEAST_ROOM = 1_000;

/** What is left of the model's window for messages. */
export function budgetOf(
  model: string,
  { max_tokens, max_input_tokens }: AgentTarget["settings"]["model_config"],
  tools: ModelTool[],
): number {
  const window = windowOf(model);
  const reserve = Math.min(max_tokens ?? window / 8, window / 2);
  const room = window - reserve - tokensOf({ role: "system", content: JSON.stringify(tools) });
  return Math.max(LEAST_ROOM, Math.min(room, max_input_tokens ?? room));
}
