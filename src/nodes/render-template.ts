import Type from "typebox";
import { defineNode } from "./node.ts";

export const renderTemplate = defineNode({
  name: "render_template",
  title: "Render template",
  description: "Writes a text out of inputs and earlier steps: a mail, a prompt, a page.",
  effect: "none",
  input: Type.Object(
    {
      // Rendered like every other text of a configuration, before the node sees it, and never again.
      template: Type.Unknown({
        description:
          "The text, with {{ }} for values and {% %} for loops and conditions; a lone value becomes text.",
      }),
      trim: Type.Optional(
        Type.Boolean({ description: "Cut blanks off both ends and empty lines to one; false unless given." }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({ text: Type.String({ description: "What came of it." }) }),
  now({ template, trim }) {
    const text = typeof template === "string" ? template : JSON.stringify(template);
    return { output: { text: trim ? text.trim().replace(/\n(?:[ \t]*\n){2,}/g, "\n\n") : text } };
  },
});
