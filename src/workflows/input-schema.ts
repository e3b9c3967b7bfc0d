import { schemaCheck, schemaFaults } from "../lib/draft-07.ts";
import { describe, type Fault } from "../lib/errors.ts";
import type { Json } from "../lib/json.ts";
import type { InputSchema } from "./schema.ts";

/** What makes an `input_schema` unusable (JSON Schema draft-07, interface 2.1.1), with paths. */
export function inputSchemaFaults(schema: InputSchema): Fault[] {
  const at = "input_schema";
  const faults = schemaFaults(schema, at);
  if (schema["type"] !== undefined && schema["type"] !== "object") {
    faults.push({ field: `${at}.type`, expected: "object", received: describe(schema["type"]) });
  }
  for (const [index, name] of schema.required.entries()) {
    if (Object.hasOwn(schema.properties, name)) continue;
    const received = name.slice(0, 100);
    faults.push({ field: `${at}.required.${index}`, expected: "the name of a property", received });
  }
  return faults;
}

/** Every way in which an input does not fit; it is an object whatever the schema says: inputs go by name. */
export const inputCheck = (schema: InputSchema): ((input: Json) => Fault[]) =>
  schemaCheck({ ...schema, type: "object" });
