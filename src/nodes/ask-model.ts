import Type from "typebox";
import { secretsOf } from "../connections/conceal.ts";
import type { OpenConnection } from "../connections/types.ts";
import { conceal } from "../lib/conceal.ts";
import { ModelError, type ModelMessage } from "../models/model.ts";
import { connectionField, openConnection } from "./connection.ts";
import { NodeError, type NodeRun } from "./node.ts";

/** What every node that asks a model takes, */
export const modelFields = {
  connection: connectionField("Key of the model's provider"),
  model: Type.Optional(
    Type.String({
      description:
        "provider/name; the configured default unless given. With a connection, the provider's part may be left out.",
    }),
  ),
  max_tokens: Type.Optional(Type.Integer({ minimum: 1, description: "Longest answer, in tokens." })),
};

/** and what it says of the cost. */
export const usageField = Type.Object(
  {
    prompt_tokens: Type.Integer({ description: "Tokens read." }),
    completion_tokens: Type.Integer({ description: "Tokens written." }),
  },
  { description: "What the answer took." },
);

type Asked = { connection?: string; model?: string; temperature?: number; max_tokens?: number };

/** Asks a model once; its failure is the step's. */
export async function askModel(run: NodeRun, { connection, ...asked }: Asked, messages: ModelMessage[]) {
  const { models, signal } = run;
  const opened = await openConnection(run, connection, ["model"]);
  const model = opened ? modelOf(opened, asked.model) : (asked.model ?? models.default_model);
  const secrets = opened ? secretsOf(opened) : [];
  const access = opened && { api_key: opened.api_key, base_url: opened.base_url };
  try {
    const answer = await models.complete({ ...asked, model, messages, signal, access });
    const { prompt_tokens, completion_tokens } = answer.usage;
    return {
      text: conceal(answer.text, secrets),
      tokens: prompt_tokens + completion_tokens,
      external_calls: 1,
      output: { model, usage: { prompt_tokens, completion_tokens } },
    };
  } catch (error) {
    if (!(error instanceof ModelError)) throw error;
    throw new NodeError(error.code, conceal(error.message, secrets), { retryable: error.retryable });
  }
}

/** The key goes to the provider that it is for and to no other. */
function modelOf(
  { provider, name }: Extract<OpenConnection, { type: "model" }>,
  model: string | undefined,
): string {
  if (model === undefined)
    throw new NodeError("INVALID_CONFIG", "model: expected a model, as the connection names none");
  if (model.startsWith(`${provider}/`)) return model;
  if (!model.includes("/")) return `${provider}/${model}`;
  throw new NodeError(
    "INVALID_CONFIG",
    `model: expected one of ${provider}, whose key the connection ${JSON.stringify(name)} holds`,
  );
}
