import Type from "typebox";
import type { Json } from "../lib/json.ts";
import { defineNode } from "./node.ts";

export const setVariables = defineNode({
  name: "set_variables",
  title: "Set variables",
  description: "Puts values together from inputs and earlier steps; they are also found under `vars`.",
  effect: "none",
  input: Type.Object(
    {
      variables: Type.Record(Type.String(), Type.Unknown(), {
        description: "Names and their values; a text that is one {{ }} keeps the type of its value.",
      }),
    },
    { additionalProperties: false },
  ),
  output: Type.Record(Type.String(), Type.Unknown(), { description: "The variables." }),
  now: ({ variables }) => ({ output: variables as Json }),
});
