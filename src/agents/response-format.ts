import { schemaCheck, schemaFaults } from "../lib/draft-07.ts";
import type { Fault } from "../lib/errors.ts";
import type { JsonObject } from "../lib/json.ts";
import type { ModelMessage, ResponseFormat } from "../models/model.ts";
import type { AgentSettings } from "./schema.ts";

/** The form that an agent's answers have, and how to tell whether one has it. */
export type AnswerFormat = {
  wire: ResponseFormat;
  /** `value`: the JSON alone, as text; `fault`: in what the answer does not fit. */
  read(text: string): { value: string } | { fault: string };
};

/** Undefined where an agent answers as it likes. */
export function answerFormatOf({ response_format }: AgentSettings): AnswerFormat | undefined {
  if (!response_format || response_format.type === "text") return undefined;
  if (response_format.type === "json_object")
    return { wire: { type: "json_object" }, read: reader({ type: "object" }) };
  const { schema = {}, name } = response_format;
  const wire = { type: "json_schema" as const, schema: schema as JsonObject, ...(name ? { name } : {}) };
  return { wire, read: reader(schema) };
}

/** What makes an agent's response_format unusable, with paths. */
export function responseFormatFaults(format: AgentSettings["response_format"] | undefined): Fault[] {
  if (format?.type !== "json_schema") return [];
  if (!format.schema)
    return [{ field: "response_format.schema", expected: "a JSON Schema", received: "nothing" }];
  return schemaFaults(format.schema, "response_format.schema");
}

function reader(schema: Record<string, unknown>): AnswerFormat["read"] {
  const faultsOf = schemaCheck(schema);
  return (text) => {
    // Models like to wrap JSON in a fence although told not to.
    const inner = /^\s*```(?:json)?\s*([\s\S]*?)\s*```\s*$/.exec(text)?.[1] ?? text.trim();
    let value: unknown;
    try {
      value = JSON.parse(inner);
    } catch {
      return { fault: "it is not JSON" };
    }
    const fault = faultsOf(value)[0];
    if (!fault) return { value: inner };
    return { fault: `${fault.field || "the value"}: expected ${fault.expected}, received ${fault.received}` };
  };
}

/** The wish in words, for models whose servers do not hold them to it. */
export function instructed(said: ModelMessage[], { wire }: AnswerFormat): ModelMessage[] {
  const wish =
    wire.type === "json_schema"
      ? `When you answer, answer with one JSON value and nothing else. It has to fit this JSON Schema:\n${JSON.stringify(wire.schema)}`
      : "When you answer, answer with one JSON object and nothing else.";
  const [first, ...rest] = said;
  return first?.role === "system"
    ? [{ role: "system", content: `${first.content as string}\n\n${wish}` }, ...rest]
    : [{ role: "system", content: wish }, ...said];
}

/** What a model that missed the form is told, once. */
export const correction = (text: string, fault: string): ModelMessage[] => [
  ...(text.trim() === "" ? [] : [{ role: "assistant" as const, content: text }]),
  {
    role: "user",
    content: `This answer cannot be used: ${fault}. Answer again with the JSON alone.`,
  },
];
