import { describe, expect, test } from "bun:test";
import type { Json } from "../../src/lib/json.ts";
import { inputCheck, inputSchemaFaults } from "../../src/workflows/input-schema.ts";
import type { InputSchema } from "../../src/workflows/schema.ts";

const schema = (properties: object, more: object = {}): InputSchema =>
  ({ title: "", description: "", required: [], properties, ...more }) as InputSchema;

const fields = (given: InputSchema) => inputSchemaFaults(given).map(({ field }) => field);
const inputFaults = (given: InputSchema, input: Json) => {
  expect(inputSchemaFaults(given)).toEqual([]);
  return inputCheck(given)(input);
};

describe("an input", () => {
  const order = schema(
    {
      name: { title: "Name", type: "string", minLength: 2, ui_metadata: { order: 0 } },
      count: { title: "Count", type: "integer", maximum: 9 },
      tags: { title: "Tags", type: "array", items: { type: "string" }, uniqueItems: true },
      slug: { title: "Slug", type: "string", pattern: "^[a-z]+(-[a-z]+)*$" },
      link: { title: "Link", type: "string", format: "uri" },
      plan: { title: "Plan", enum: ["free", "paid"] },
    },
    { required: ["name"], additionalProperties: false },
  );

  test("that fits has no faults", () => {
    const input = {
      name: "Ada",
      count: 3,
      tags: ["a", "b"],
      slug: "a-b",
      link: "https://x.example",
      plan: "free",
    };
    expect(inputFaults(order, input)).toEqual([]);
  });

  test("is told every way in which it does not fit, without its values", () => {
    const faults = inputFaults(order, { count: "x", tags: [1], slug: "A", plan: "x", more: 1 });
    expect(Object.fromEntries(faults.map(({ field, expected }) => [field, expected]))).toMatchObject({
      name: "a value",
      count: "integer",
      "tags.0": "string",
      plan: "one of free, paid",
      more: "no such property",
    });
    expect(faults.map(({ field }) => field)).toContain("slug");
    expect(inputFaults(order, { name: "Ada", tags: ["a", "a"] })).toHaveLength(1);
  });

  test("is an object, whatever the schema says", () => {
    expect(inputFaults(schema({}), [] as unknown as Json)).toEqual([
      { field: "", expected: "object", received: "array of 0" },
    ]);
  });

  test("of many or long values is checked in good time", () => {
    const given = schema({
      link: { title: "", format: "uri-reference" },
      words: { title: "", pattern: "(\\s*)*x" },
      list: { title: "", uniqueItems: true, items: { type: "string" } },
    });
    const before = performance.now();
    const input = {
      link: "a".repeat(500_000),
      words: " ".repeat(500_000),
      list: Array(100_000).fill(1) as Json[],
    };
    expect(inputFaults(given, input).length).toBeGreaterThan(0);
    // Minutes, where a pattern or a list is checked the usual way; a busy machine takes a second.
    expect(performance.now() - before).toBeLessThan(4_000);
  });

  test("is checked against definitions and alternatives of draft-07", () => {
    const given = schema(
      {
        place: { title: "", $ref: "#/definitions/place" },
        id: { title: "", oneOf: [{ type: "integer" }, { type: "string" }] },
      },
      {
        definitions: {
          place: { type: "object", required: ["city"], properties: { city: { type: "string" } } },
        },
      },
    );
    expect(inputFaults(given, { place: { city: "Kyiv" }, id: 1 })).toEqual([]);
    expect(inputFaults(given, { place: {}, id: 1 })).toEqual([
      { field: "place.city", expected: "a value", received: "nothing" },
    ]);
  });

  test("is not checked by what is no keyword of draft-07", () => {
    const given = schema({
      a: {
        title: "",
        "~refine": [{ check: 1 }],
        $id: ":",
        $dynamicRef: "#x",
        unevaluatedProperties: false,
        items: null,
        ui_metadata: {},
      },
    });
    expect(inputFaults(given, { a: { b: 1 } })).toEqual([]);
  });
});

describe("an input_schema is refused", () => {
  test.each([
    ["for an unknown type", { a: { title: "", type: "text" } }, {}, "input_schema.properties.a.type"],
    [
      "for a keyword of the wrong kind",
      { a: { title: "", minLength: "2" } },
      {},
      "input_schema.properties.a.minLength",
    ],
    ["for an enum that is no list", { a: { title: "", enum: "x" } }, {}, "input_schema.properties.a.enum"],
    ["for a broken pattern", { a: { title: "", pattern: "(" } }, {}, "input_schema.properties.a.pattern"],
    [
      "for a look-around",
      { a: { title: "", items: { pattern: "(?=a)" } } },
      {},
      "input_schema.properties.a.items.pattern",
    ],
    [
      "for a property pattern that could stall",
      {},
      { patternProperties: { "(a+)+$": {} } },
      "input_schema.patternProperties",
    ],
    ["for a required name without a property", {}, { required: ["a"] }, "input_schema.required.0"],
    ["for another root than an object", {}, { type: "array" }, "input_schema.type"],
    [
      "for a reference elsewhere",
      { a: { title: "", $ref: "http://x/y" } },
      {},
      "input_schema.properties.a.$ref",
    ],
    ["for a reference to nothing", { a: { title: "", $ref: "#/definitions/b" } }, {}, "input_schema"],
    [
      "for a property that is no schema",
      { a: { title: "", items: 5 } },
      {},
      "input_schema.properties.a.items",
    ],
    ["for its size", { a: { title: "", default: "x".repeat(70_000) } }, {}, "input_schema"],
  ])("%s", (_, properties, more, field) => {
    expect(fields(schema(properties, more))).toEqual([field]);
  });

  test("for references in a circle and for references that multiply", () => {
    const circle = { definitions: { a: { allOf: [{ $ref: "#/definitions/a" }] } } };
    expect(
      inputSchemaFaults(schema({ x: { title: "", $ref: "#/definitions/a" } }, circle))[0]?.expected,
    ).toBe("references without a circle");
    const definitions: Record<string, object> = { d0: { type: "string" } };
    for (let i = 1; i <= 30; i++)
      definitions[`d${i}`] = {
        anyOf: [{ $ref: `#/definitions/d${i - 1}` }, { $ref: `#/definitions/d${i - 1}` }],
      };
    expect(
      inputSchemaFaults(schema({ x: { title: "", $ref: "#/definitions/d30" } }, { definitions }))[0]
        ?.expected,
    ).toBe("fewer subschemas");
  });

  test("with every fault at once", () => {
    const given = schema(
      { a: { title: "", type: "x" }, b: { title: "", pattern: "[" } },
      { required: ["c"] },
    );
    expect(fields(given)).toEqual([
      "input_schema.properties.a.type",
      "input_schema.properties.b.pattern",
      "input_schema.required.0",
    ]);
  });
});
