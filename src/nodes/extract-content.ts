import Type from "typebox";
import { LARGEST_HTML, readHtml } from "../lib/html.ts";
import { defineNode } from "./node.ts";

/** What both nodes that read pages take, */
export const readingFields = {
  format: Type.Optional(Type.Enum(["markdown", "text"], { description: "markdown unless given." })),
  main_only: Type.Optional(
    Type.Boolean({
      description: "Leave out navigation, headers, footers and forms; false unless given.",
    }),
  ),
};

/** and what both give on. */
export const pageFields = {
  title: Type.Union([Type.String(), Type.Null()], { description: "The page's title." }),
  description: Type.Union([Type.String(), Type.Null()], { description: "What the page says of itself." }),
  content: Type.String({ description: "The page's text." }),
  links: Type.Array(
    Type.Object({
      text: Type.String({ description: "What it says." }),
      url: Type.String({ description: "Where it leads, in full." }),
    }),
    { description: "Its links, at most 1000." },
  ),
};

export const extractContent = defineNode({
  name: "extract_content",
  title: "Extract content",
  description: "Reads HTML: its text as Markdown or plain, its title and its links.",
  effect: "none",
  input: Type.Object(
    {
      html: Type.String({ maxLength: LARGEST_HTML, description: "The HTML." }),
      base_url: Type.Optional(
        Type.String({
          maxLength: 2_048,
          description: "Where it is from, so that links can be told in full.",
        }),
      ),
      ...readingFields,
    },
    { additionalProperties: false },
  ),
  output: Type.Object(pageFields),
  run: async ({ html, base_url, format = "markdown", main_only }) => ({
    output: readHtml(html, {
      format,
      base: base_url !== undefined && URL.canParse(base_url) ? base_url : undefined,
      mainOnly: main_only,
    }),
  }),
});
