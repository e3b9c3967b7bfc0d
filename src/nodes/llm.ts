import Type from "typebox";
import { schemaCheck, schemaFaults } from "../lib/draft-07.ts";
import { isObject, type Json } from "../lib/json.ts";
import { jsonIn } from "../lib/json-in-text.ts";
import type { ModelMessage } from "../models/model.ts";
import { askModel, modelFields, usageField } from "./ask-model.ts";
import { defineNode, NodeError } from "./node.ts";

export const llm = defineNode({
  name: "llm",
  title: "Language model",
  description: "Asks a language model and gives on its answer.",
  effect: "external",
  connections: ["model"],
  retries: { max_attempts: 3, delay_seconds: 2, backoff_multiplier: 2 },
  input: Type.Object(
    {
      prompt: Type.String({ minLength: 1, description: "What the model is asked." }),
      system_prompt: Type.Optional(Type.String({ description: "What the model is told to be." })),
      temperature: Type.Optional(
        Type.Number({ minimum: 0, maximum: 2, description: "How freely it words things." }),
      ),
      ...modelFields,
      json_schema: Type.Optional(
        Type.Record(Type.String(), Type.Unknown(), {
          description:
            "JSON Schema (draft-07) that the answer must fit; `json` of the output holds it parsed.",
        }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    text: Type.String({ description: "The answer." }),
    json: Type.Optional(Type.Unknown({ description: "The answer parsed, where json_schema was given." })),
    model: Type.String({ description: "The model that was asked." }),
    usage: usageField,
  }),
  check: ({ json_schema }) => (isObject(json_schema) ? schemaFaults(json_schema, "json_schema") : []),
  async run({ prompt, system_prompt, json_schema, ...model }, run) {
    const read = json_schema && reader(json_schema);
    const messages = messagesOf({ prompt, system_prompt, json_schema });
    const { text, ...spent } = await askModel(run, model, messages);
    const output = { text, ...spent.output };
    return { ...spent, output: read ? { ...output, json: read(text) } : output };
  },
});

type Asked = { prompt: string; system_prompt?: string; json_schema?: Record<string, unknown> };

function messagesOf({ prompt, system_prompt, json_schema }: Asked): ModelMessage[] {
  const wanted =
    json_schema &&
    `Answer with one JSON value that fits this JSON Schema and nothing else:\n${JSON.stringify(json_schema)}`;
  const told = [system_prompt, wanted].filter((part) => part).join("\n\n");
  const asked: ModelMessage = { role: "user", content: prompt };
  return told ? [{ role: "system", content: told }, asked] : [asked];
}

/** Reads an answer as JSON of the wanted shape. Another try may well give one, so a misfit is retryable. */
function reader(json_schema: Record<string, unknown>): (text: string) => Json {
  const wrong = schemaFaults(json_schema, "json_schema")[0];
  if (wrong) throw new NodeError("INVALID_CONFIG", `${wrong.field}: expected ${wrong.expected}`);
  const faultsOf = schemaCheck(json_schema);
  return (text) => {
    const value = jsonIn(text);
    if (value === undefined) {
      throw new NodeError("NOT_JSON", "The model's answer is not JSON.", { retryable: true });
    }
    const fault = faultsOf(value)[0];
    if (!fault) return value;
    const where = fault.field ? `${fault.field}: ` : "";
    const told = `The model's answer does not fit json_schema: ${where}expected ${fault.expected}, received ${fault.received}.`;
    throw new NodeError("JSON_MISFIT", told, { retryable: true });
  };
}
