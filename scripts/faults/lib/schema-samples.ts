/** In the form of JSON-Schema-Test-Suite. */
export type SchemaSample = {
  description: string;
  schema: unknown;
  tests: { description: string; data: unknown; valid: boolean }[];
};

const sample = (description: string, schema: object, good: unknown[], bad: unknown[]): SchemaSample => ({
  description,
  schema,
  tests: [
    ...good.map((data) => ({ description: JSON.stringify(data), data, valid: true })),
    ...bad.map((data) => ({ description: JSON.stringify(data), data, valid: false })),
  ],
});

/** One for each keyword of draft-07 and for what is easily got wrong about it. */
export const SCHEMA_SAMPLES: SchemaSample[] = [
  sample("integer takes 1.0", { type: "integer" }, [1, 1.0, -3], [1.5, "1", null, true]),
  sample("number is no text", { type: "number" }, [0, 1.5], ["0", null]),
  sample("several types", { type: ["string", "null"] }, ["", null], [0, false]),
  sample(
    "enum compares deeply",
    { enum: [{ a: [1] }, 6, null] },
    [{ a: [1] }, 6, null],
    [{ a: [2] }, "6", 0],
  ),
  sample("const does not mix 0 and false", { const: 0 }, [0], [false, "", null]),
  sample("multipleOf of fractions", { multipleOf: 0.01 }, [4.5, 0, 1], [0.00751]),
  sample("limits", { minimum: 1, maximum: 3 }, [1, 3, "x"], [0.9, 3.1]),
  sample("exclusive limits are numbers", { exclusiveMinimum: 1, exclusiveMaximum: 3 }, [2], [1, 3]),
  sample(
    "length counts characters, not halves",
    { minLength: 2, maxLength: 2 },
    ["ab", "\u{1f600}a"],
    ["\u{1f600}", "abc"],
  ),
  sample("a pattern is not anchored", { pattern: "b+" }, ["abbc", 12], ["ac"]),
  sample("items of one schema", { items: { type: "integer" } }, [[], [1, 2], {}], [[1, "x"]]),
  sample(
    "items by place, and the rest",
    { items: [{ type: "integer" }], additionalItems: false },
    [[1], []],
    [["x"], [1, 2]],
  ),
  sample("contains", { contains: { minimum: 5 } }, [[1, 6]], [[], [1, 2]]),
  sample(
    "uniqueItems compares deeply",
    { uniqueItems: true },
    [
      [1, true],
      [{ a: 1 }, { a: 2 }],
    ],
    [
      [{ a: 1 }, { a: 1 }],
      [1, 1.0],
    ],
  ),
  sample(
    "counts of items and properties",
    { minItems: 1, maxProperties: 1 },
    [[1], { a: 1 }],
    [[], { a: 1, b: 2 }],
  ),
  sample("required", { required: ["a"] }, [{ a: null }, []], [{}, { b: 1 }]),
  sample(
    "properties, patterns and the rest",
    {
      properties: { a: { type: "integer" } },
      patternProperties: { "^x": { type: "string" } },
      additionalProperties: false,
    },
    [{ a: 1, xy: "" }],
    [{ a: "" }, { xy: 1 }, { b: 1 }],
  ),
  sample("propertyNames", { propertyNames: { maxLength: 2 } }, [{ ab: 1 }], [{ abc: 1 }]),
  sample(
    "dependencies on names and on schemas",
    { dependencies: { a: ["b"], c: { required: ["d"] } } },
    [{ a: 1, b: 1 }, { c: 1, d: 1 }, {}],
    [{ a: 1 }, { c: 1 }],
  ),
  sample("allOf", { allOf: [{ minimum: 1 }, { maximum: 2 }] }, [1, 2], [0, 3]),
  sample("anyOf", { anyOf: [{ type: "string" }, { minimum: 5 }] }, ["", 6], [4]),
  sample("oneOf", { oneOf: [{ minimum: 1 }, { maximum: 3 }] }, [0, 4], [2]),
  sample("not", { not: { type: "integer" } }, ["1", 1.5], [1]),
  sample(
    "if, then, else",
    // biome-ignore lint/suspicious/noThenProperty: it is a keyword of the language
    { if: { minimum: 10 }, then: { multipleOf: 10 }, else: { maximum: 5 } },
    [20, 5],
    [15, 6],
  ),
  sample("a schema that is false", { properties: { a: false, b: true } }, [{ b: 1 }, {}], [{ a: 1 }]),
  sample(
    "definitions",
    { definitions: { one: { type: "integer" } }, properties: { a: { $ref: "#/definitions/one" } } },
    [{ a: 1 }],
    [{ a: "1" }],
  ),
  sample(
    "names that objects have of themselves",
    { required: ["constructor"], properties: { toString: { type: "integer" } } },
    [{ constructor: 1, toString: 1 }],
    [{}, { constructor: 1, toString: "x" }],
  ),
];
