import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { schemaCheck } from "../../src/lib/draft-07.ts";
import type { JsonObject } from "../../src/lib/json.ts";
import { formed } from "../../src/models/formed.ts";

describe("a value made by a schema", () => {
  test.each<[JsonObject, unknown]>([
    [{ type: "string" }, "words"],
    [{ type: "string", minLength: 8, maxLength: 9 }, "words..."],
    [{ type: "string", maxLength: 2 }, "wo"],
    [{ enum: ["a", "b"] }, "a"],
    [{ const: 7 }, 7],
    [{ type: "integer", minimum: 3 }, 3],
    [{ type: "number", exclusiveMinimum: 1, multipleOf: 5 }, 10],
    [{ type: "integer", maximum: -2 }, -2],
    [{ type: ["null", "string"] }, null],
    [{ type: "array", items: { type: "boolean" }, minItems: 2 }, [false, false]],
    [{ type: "object", properties: { a: {}, b: {} }, required: ["a"] }, { a: "words" }],
    [{ allOf: [{ required: ["a"] }, { properties: { a: { type: "null" } } }] }, { a: null }],
    [{ anyOf: [{ type: "string", pattern: "x" }, { type: "boolean" }] }, false],
    [{ $ref: "#/definitions/x", definitions: { x: { type: "integer" } } }, 0],
    [{ type: "string", pattern: "^a$" }, undefined],
    [{ $ref: "#" }, undefined],
    [{ $ref: "#/nowhere" }, undefined],
  ])("of %j is %j", (schema, value) => {
    expect(formed(schema, "words")).toEqual(value as never);
  });

  test("is given up where it would grow without end", () => {
    let schema: JsonObject = { type: "string" };
    for (let n = 0; n < 10; n++) schema = { type: "array", minItems: 100, items: schema };
    expect(formed(schema, "words")).toBeUndefined();
    expect(formed({ $ref: "#/%E0%A4%A" }, "words")).toBeUndefined();
  });

  test("fits it, and nothing that is no schema breaks it", () => {
    const { schema } = fc.letrec((tie) => ({
      schema: fc.oneof(
        { maxDepth: 3 },
        fc.record({ type: fc.constantFrom("string", "integer", "number", "boolean", "null") }),
        fc.record({
          type: fc.constant("string"),
          minLength: fc.nat(20),
          maxLength: fc.nat(20).map((n) => n + 20),
        }),
        fc.record({ type: fc.constant("integer"), minimum: fc.integer({ min: -50, max: 50 }) }),
        fc.record({ type: fc.constant("array"), items: tie("schema"), minItems: fc.nat(3) }),
        fc.record({ anyOf: fc.array(tie("schema"), { minLength: 1, maxLength: 2 }) }),
        fc
          .dictionary(fc.constantFrom("a", "b", "c"), tie("schema"))
          .map((properties) => ({ type: "object", properties, required: Object.keys(properties) })),
      ),
    }));
    fc.assert(
      fc.property(schema, (made) => {
        expect(schemaCheck(made)(formed(made as JsonObject, "words"))).toEqual([]);
      }),
      { numRuns: 200 },
    );
    fc.assert(
      fc.property(fc.object(), (any) => void formed(any as JsonObject, "words")),
      { numRuns: 200 },
    );
  });
});
