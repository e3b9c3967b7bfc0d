import { describe, expect, test } from "bun:test";
import { schemaCheck } from "../../src/lib/draft-07.ts";

/** What is said of `value` where the schema of `a` refuses it. */
const said = (schema: object, value: unknown) =>
  schemaCheck({ type: "object", properties: { a: schema } })({ a: value }).map(
    ({ field, expected, received }) => `${field}: ${expected}, not ${received}`,
  );

describe("a value that does not fit is told in plain words", () => {
  const cases: [object, unknown, string][] = [
    [{ type: ["string", "null"] }, 3, "a: string or null, not number"],
    [{ anyOf: [{ type: "string" }, { type: "number" }] }, true, "a: string or number, not boolean"],
    [
      { oneOf: [{ type: "string" }, { minLength: 1 }] },
      "x",
      "a: exactly one of the forms that it may have, not string",
    ],
    [{ not: { type: "string" } }, "x", "a: anything but this, not string"],
    [{ enum: ["a", 3, null] }, "c", "a: one of a, 3, null, not string"],
    [
      { enum: Array.from({ length: 22 }, (_, n) => n) },
      "c",
      `a: one of ${Array.from({ length: 20 }, (_, n) => n).join(", ")} and 2 more, not string`,
    ],
    [{ const: { x: 1 } }, 2, 'a: {"x":1}, not number'],
    [{ pattern: "^[a-z]+$" }, "A", "a: text that matches ^[a-z]+$, not string"],
    [{ minLength: 1 }, "", "a: at least 1 character, not empty text"],
    [{ maxLength: 2 }, "abc", "a: at most 2 characters, not string"],
    [{ minItems: 1 }, [], "a: at least 1 item, not array of 0"],
    [{ uniqueItems: true }, [1, 1], "a: each item once, not array of 2"],
    [{ contains: { type: "string" } }, [1], "a: an item of the kind that it must contain, not array of 1"],
    [{ minProperties: 1 }, {}, "a: at least 1 property, not object"],
    [{ maxProperties: 1 }, { a: 1, b: 2 }, "a: at most 1 property, not object"],
    [{ dependencies: { b: ["c"] } }, { b: 1 }, "a: c beside b, not object"],
    [{ exclusiveMinimum: 5 }, 5, "a: more than 5, not number"],
    [{ exclusiveMaximum: 5 }, 5, "a: less than 5, not number"],
    [{ multipleOf: 5 }, 3, "a: a multiple of 5, not number"],
    [
      JSON.parse('{"if": {"type": "string"}, "then": {"minLength": 3}}'),
      "a",
      'a: what the schema asks for under "then", not string',
    ],
  ];
  for (const [schema, value, words] of cases)
    test(JSON.stringify(schema).slice(0, 60), () => expect(said(schema, value)).toEqual([words]));

  test("by its name, where that is what does not fit", () => {
    expect(said({ propertyNames: { pattern: "^a" } }, { b: 1 })).toEqual([
      "a.b: a name that matches ^a, not b",
    ]);
  });

  test("by what is wrong inside, where it has one of its types", () => {
    const schema = { anyOf: [{ type: "null" }, { type: "string" }, { type: "object", required: ["x"] }] };
    expect(said(schema, {})).toEqual(["a.x: a value, not nothing"]);
    expect(said(schema, 3)).toEqual(["a: null or string or object, not number"]);
  });
});
