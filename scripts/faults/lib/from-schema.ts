import * as fc from "fast-check";
import type { Schema } from "./openapi.ts";

/** Anything that JSON can say, with texts that trip up parsers. */
export const junk: fc.Arbitrary<unknown> = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.string({ unit: "binary", maxLength: 40 }).filter((text) => text.isWellFormed()),
  fc.constantFrom(
    "",
    " ",
    "null",
    "__proto__",
    "../..",
    "{{ inputs }}",
    "{% for",
    "a".repeat(300),
    -1,
    0,
    1e308,
    2 ** 53,
  ),
  fc.constantFrom([], {}, [[]], { "": 0 }, { constructor: { prototype: 1 } }, true, null),
);

/**
 * Values that a schema may take, with now and then something else in the place of a part of one; `ids` stand
 * where a text is asked for, so that some of what is made leads to what there is.
 */
export function fromSchema(schema: Schema | undefined, ids: string[], depth = 0): fc.Arbitrary<unknown> {
  const fitting = fits(schema ?? {}, ids, depth);
  return fc.oneof({ weight: 24, arbitrary: fitting }, { weight: 1, arbitrary: junk });
}

function fits(schema: Schema, ids: string[], depth: number): fc.Arbitrary<unknown> {
  const below = (child: unknown) => fromSchema(child as Schema, ids, depth + 1);
  if (depth > 6) return fc.constant(null);
  if ("const" in schema) return fc.constant(schema["const"]);
  if (Array.isArray(schema["enum"])) return fc.constantFrom(...schema["enum"]);
  const choices = (schema["anyOf"] ?? schema["oneOf"]) as Schema[] | undefined;
  if (choices) return fc.oneof(...choices.map(below));
  const { type } = schema;
  if (Array.isArray(type)) return fc.oneof(...type.map((each) => below({ ...schema, type: each })));
  const number = (name: string, otherwise: number) => Number(schema[name] ?? otherwise);
  switch (type) {
    case "object": {
      const properties = Object.entries((schema["properties"] ?? {}) as Record<string, Schema>);
      const required = (schema["required"] ?? []) as string[];
      const known = fc.record(Object.fromEntries(properties.map(([name, child]) => [name, below(child)])), {
        requiredKeys: required.filter((name) => properties.some(([each]) => each === name)),
      });
      const open = Object.values((schema["patternProperties"] ?? {}) as Record<string, Schema>)[0];
      if (!open) return known;
      const more = fc.dictionary(fc.string({ maxLength: 12 }), below(open), { maxKeys: 3 });
      return fc.tuple(more, known).map(([others, own]) => ({ ...others, ...(own as object) }));
    }
    case "array":
      return fc.array(below(schema["items"]), {
        minLength: Math.min(number("minItems", 0), 5),
        maxLength: Math.min(number("maxItems", 3), 3 + number("minItems", 0)),
      });
    case "string":
      return textFor(schema, ids);
    case "integer":
      return fc.integer({
        min: number("minimum", -10),
        max: Math.max(number("minimum", -10), Math.min(number("maximum", 1e6), 1e6)),
      });
    case "number":
      return fc.double({ min: number("minimum", -1e6), max: number("maximum", 1e6), noNaN: true });
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    default:
      return junk;
  }
}

function textFor(schema: Schema, ids: string[]): fc.Arbitrary<string> {
  const maxLength = Math.min(Number(schema["maxLength"] ?? 60), 60);
  const plain = fc.string({
    unit: "grapheme",
    minLength: Math.min(Number(schema["minLength"] ?? 0), 5),
    maxLength,
  });
  const patterned =
    typeof schema["pattern"] === "string" ? [fc.stringMatching(new RegExp(schema["pattern"]))] : [];
  const known = fc.constantFrom(...ids, "2026-01-31T09:00:00Z", "http://127.0.0.1:9/", "openai/x", "say");
  return fc.oneof(plain, known, ...patterned);
}
