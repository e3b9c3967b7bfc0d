import Type from "typebox";
import { FORMATS } from "../lib/formats.ts";
import { defineNode, NodeError } from "./node.ts";

export const parseData = defineNode({
  name: "parse_data",
  title: "Parse data",
  description: "Reads JSON, JSON lines, CSV, XML, YAML or a query string out of a text.",
  effect: "none",
  input: Type.Object(
    {
      text: Type.String({ description: "What to read." }),
      format: Type.Enum([...FORMATS], { description: "What it is." }),
      header: Type.Optional(
        Type.Union([Type.Boolean(), Type.Array(Type.String({ maxLength: 500 }), { maxItems: 1_000 })], {
          description: "CSV: whether the first line names the columns (true unless given), or their names.",
        }),
      ),
      delimiter: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 5,
          description:
            "CSV: what stands between columns; of comma, semicolon, tab and | the one in the first line unless given.",
        }),
      ),
      convert_values: Type.Optional(
        Type.Boolean({
          description:
            "CSV, XML, query: make numbers, true and false of texts that are written so; false unless given.",
        }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    data: Type.Unknown({
      description:
        "CSV and JSON lines: a list of rows. XML: attributes begin with @, text beside elements is #text.",
    }),
    count: Type.Union([Type.Integer(), Type.Null()], {
      description: "How many rows there are, if it is a list.",
    }),
  }),
  async run({ text, format, ...options }) {
    // Their parsers come with the first text: most programs never need them.
    const { parseText, UnreadableData } = await import("../lib/data-formats.ts");
    try {
      const data = parseText(text, format, options);
      return { output: { data, count: Array.isArray(data) ? data.length : null } };
    } catch (error) {
      if (error instanceof UnreadableData) throw new NodeError("UNREADABLE", error.message);
      throw error;
    }
  },
});
