import { nearest } from "../lib/nearest.ts";
import { nodeType, nodeTypes } from "../nodes/index.ts";
import type { Call } from "./command.ts";
import { EXIT, ExitError } from "./exit.ts";
import { putJson, putList, putRecord } from "./output.ts";

/** A JSON Schema, as far as it is told here. */
type Shape = {
  type?: string | string[];
  description?: string;
  properties?: Record<string, Shape>;
  required?: string[];
  enum?: unknown[];
  const?: unknown;
  items?: Shape;
  anyOf?: Shape[];
  default?: unknown;
};

export async function listNodes(call: Call): Promise<void> {
  const types = [...nodeTypes.values()].map(({ name, title, description, effect }) => ({
    name,
    title,
    description,
    effect,
  }));
  putList(
    call,
    types,
    [
      { title: "NAME", value: (one) => one.name },
      { title: "EFFECT", value: (one) => one.effect },
      { title: "WHAT IT DOES", value: (one) => one.description },
    ],
    "there are no node types",
  );
}

export async function showNode(call: Call): Promise<void> {
  const name = call.args[0]!;
  const type = nodeType(name);
  if (!type) {
    const close = nearest(name, [...nodeTypes.keys()]);
    throw new ExitError(
      EXIT.refused,
      `no node type ${name}`,
      close ? `did you mean ${close}?` : "see errand nodes list",
    );
  }
  const { title, description, effect, retries, input, output } = type;
  const plain = JSON.parse(JSON.stringify({ input_schema: input.schema, output_schema: output }));
  const record = { name, title, description, effect, retries: retries ?? null };
  if (call.flags["json"]) return putJson(call.output, { ...record, ...plain });
  putRecord(call, record);
  putFields(call, "INPUT", plain.input_schema);
  putFields(call, "OUTPUT", plain.output_schema);
}

function putFields(call: Call, title: string, schema: Shape): void {
  const fields = Object.entries(schema.properties ?? {});
  call.output.data(fields.length === 0 ? `\n${title}: ${typeOf(schema)}\n` : "\n");
  if (fields.length === 0) return;
  putList(
    call,
    fields,
    [
      { title, value: ([name]) => name },
      { title: "TYPE", value: ([, field]) => typeOf(field) },
      { title: "REQUIRED", value: ([name]) => (schema.required?.includes(name) ? "yes" : "no") },
      { title: "WHAT IT IS", value: ([, { description }]) => description },
    ],
    "",
  );
}

function typeOf({ type, enum: values, const: only, items, anyOf }: Shape): string {
  if (values) return values.join(" | ");
  if (only !== undefined) return String(only);
  if (anyOf) return [...new Set(anyOf.map(typeOf))].join(" | ");
  if (type === "array" && items) return `array of ${typeOf(items)}`;
  return Array.isArray(type) ? type.join(" | ") : (type ?? "anything");
}
