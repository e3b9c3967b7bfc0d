import Type from "typebox";
import type { Json } from "../lib/json.ts";
import { ModelError, type ModelMessage } from "../models/model.ts";
import { defineNode, NodeError } from "./node.ts";

export const llm = defineNode({
  name: "llm",
  title: "Language model",
  description: "Asks a language model and gives on its answer.",
  effect: "external",
  retries: { max_attempts: 3, delay_seconds: 2, backoff_multiplier: 2 },
  input: Type.Object(
    {
      prompt: Type.String({ minLength: 1, description: "What the model is asked." }),
      system_prompt: Type.Optional(Type.String({ description: "What the model is told to be." })),
      model: Type.Optional(Type.String({ description: "provider/name; the configured default unless given." })),
      temperature: Type.Optional(Type.Number({ minimum: 0, maximum: 2, description: "How freely it words things." })),
      max_tokens: Type.Optional(Type.Integer({ minimum: 1, description: "Longest answer, in tokens." })),
      json: Type.Optional(
        Type.Boolean({ description: "The answer must be JSON; `json` of the output holds it parsed." }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    text: Type.String({ description: "The answer." }),
    json: Type.Optional(Type.Unknown({ description: "The answer parsed, where JSON was asked for." })),
    model: Type.String({ description: "The model that was asked." }),
    usage: Type.Object({
      prompt_tokens: Type.Integer({ description: "Tokens read." }),
      completion_tokens: Type.Integer({ description: "Tokens written." }),
    }),
  }),
  async run(input, { models, signal }) {
    const model = input.model ?? models.default_model;
    try {
      const answer = await models.complete({
        model,
        messages: messagesOf(input),
        temperature: input.temperature,
        max_tokens: input.max_tokens,
        signal,
      });
      const { prompt_tokens, completion_tokens } = answer.usage;
      const output = { text: answer.text, model, usage: { prompt_tokens, completion_tokens } };
      return {
        tokens: prompt_tokens + completion_tokens,
        external_calls: 1,
        output: input.json ? { ...output, json: parsed(answer.text) } : output,
      };
    } catch (error) {
      if (error instanceof ModelError) throw new NodeError(error.code, error.message, { retryable: error.retryable });
      throw error;
    }
  },
});

function messagesOf({ prompt, system_prompt, json }: { prompt: string; system_prompt?: string; json?: boolean }) {
  const system = [system_prompt, json ? "Answer with one JSON value and nothing else." : undefined];
  const told = system.filter((part) => part !== undefined).join("\n\n");
  const messages: ModelMessage[] = [{ role: "user", content: prompt }];
  return told ? [{ role: "system", content: told } satisfies ModelMessage, ...messages] : messages;
}

// Models like to wrap JSON in a fence although told not to.
function parsed(text: string): Json {
  const inner = /^\s*```(?:json)?\s*([\s\S]*?)\s*```\s*$/.exec(text)?.[1] ?? text;
  try {
    return JSON.parse(inner) as Json;
  } catch {
    throw new NodeError("NOT_JSON", "The model's answer is not JSON.", { retryable: true });
  }
}
