import Type from "typebox";
import { schemaCheck, schemaFaults } from "../lib/draft-07.ts";
import { isObject, type Json } from "../lib/json.ts";
import { jsonIn } from "../lib/json-in-text.ts";
import { defineNode, NodeError } from "./node.ts";

export const stringToJson = defineNode({
  name: "string_to_json",
  title: "String to JSON",
  description:
    "Finds the JSON in a text, such as a model's answer: in a code fence, or with words around it.",
  effect: "none",
  input: Type.Object(
    {
      text: Type.Unknown({ description: "The text; what is no text any more is given on as it is." }),
      json_schema: Type.Optional(
        Type.Record(Type.String(), Type.Unknown(), {
          description: "JSON Schema (draft-07) that the value must fit.",
        }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({ json: Type.Unknown({ description: "The value that was found." }) }),
  check: ({ json_schema }) => (isObject(json_schema) ? schemaFaults(json_schema, "json_schema") : []),
  now({ text, json_schema }) {
    const value = typeof text === "string" ? jsonIn(text) : (text as Json);
    if (value === undefined) throw new NodeError("NOT_JSON", "There is no JSON in the text.");
    const wrong = json_schema && schemaFaults(json_schema, "json_schema")[0];
    if (wrong) throw new NodeError("INVALID_CONFIG", `${wrong.field}: expected ${wrong.expected}`);
    const fault = json_schema && schemaCheck(json_schema)(value)[0];
    if (fault) {
      const where = fault.field ? `${fault.field}: ` : "";
      throw new NodeError("JSON_MISFIT", `${where}expected ${fault.expected}, received ${fault.received}.`);
    }
    return { output: { json: value } };
  },
});
