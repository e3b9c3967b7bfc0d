import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Json, JsonObject } from "../../src/lib/json.ts";
import { conditionFaults, evaluate } from "../../src/webhooks/conditions.ts";

const holds = (conditions: JsonObject, data: JsonObject): boolean => {
  expect(conditionFaults(conditions)).toEqual([]);
  return evaluate(conditions, data).holds;
};

const data = { score: 3, name: "Ada", tags: ["a", "b"], user: { plan: "pro", age: null }, on: true };

// Each line: conditions that hold for `data`, then conditions that do not.
const TABLE: [string, JsonObject, JsonObject][] = [
  ["eq", { score: { eq: 3 } }, { score: { eq: "3" } }],
  ["bare value", { name: "Ada" }, { name: "ada" }],
  ["bare null", { "user.age": null }, { "user.none": null }],
  ["ne", { score: { ne: 4 } }, { score: { ne: 3 } }],
  ["lt", { score: { lt: 4 } }, { score: { lt: 3 } }],
  ["lte", { score: { lte: 3 } }, { score: { lte: 2 } }],
  ["gt", { score: { gt: 2 } }, { score: { gt: 3 } }],
  ["gte", { score: { gte: 3 } }, { score: { gte: 4 } }],
  ["text order", { name: { lt: "B" } }, { name: { gt: "B" } }],
  ["no conversion", { score: { lt: 10 } }, { score: { lt: "10" } }],
  ["in", { score: { in: [1, 3] } }, { score: { in: [1, "3"] } }],
  ["bare list", { score: [1, 3] }, { score: [] }],
  ["nin", { score: { nin: [1] } }, { score: { nin: [3] } }],
  ["exists", { "user.plan": { exists: true } }, { "user.plan": { exists: false } }],
  ["null exists", { "user.age": { exists: true } }, { "user.age": { exists: false } }],
  ["contains in text", { name: { contains: "d" } }, { name: { contains: "x" } }],
  ["contains in a list", { tags: { contains: "a" } }, { tags: { contains: "x" } }],
  ["starts_with", { name: { starts_with: "A" } }, { name: { starts_with: "d" } }],
  ["ends_with", { name: { ends_with: "a" } }, { name: { ends_with: "d" } }],
  ["not", { score: { not: { gt: 3 } } }, { score: { not: { gt: 2 } } }],
  ["two operators", { score: { gt: 2, lt: 4 } }, { score: { gt: 2, lt: 3 } }],
  ["two fields", { score: 3, name: "Ada" }, { score: 3, name: "Bob" }],
  ["any", { any: [{ score: 9 }, { name: "Ada" }] }, { any: [{ score: 9 }, { name: "Bob" }] }],
  ["a list matches by an element", { tags: "b" }, { tags: "c" }],
  ["$ forms", { score: { $gt: 2 }, $or: [{ name: { $startsWith: "A" } }] }, { score: { $neq: 3 } }],
];

describe("conditions", () => {
  for (const [name, yes, no] of TABLE) {
    test(name, () => {
      expect(holds(yes, data)).toBe(true);
      expect(holds(no, data)).toBe(false);
    });
  }

  test("a missing field answers false, but for exists false, ne, nin and not", () => {
    const present: JsonObject[] = [
      { eq: 1 },
      { lt: 1 },
      { gte: "" },
      { in: [1] },
      { contains: "a" },
      { exists: true },
    ];
    const absent: JsonObject[] = [{ exists: false }, { ne: 1 }, { nin: [1] }, { not: { eq: 1 } }];
    for (const operators of present) expect(holds({ missing: operators }, {})).toBe(false);
    for (const operators of absent) expect(holds({ missing: operators }, {})).toBe(true);
  });

  test("what an object inherits is not there", () => {
    for (const field of ["constructor", "__proto__", "toString", "user.constructor"]) {
      expect(holds({ [field]: { exists: true } }, data)).toBe(false);
    }
  });

  test("the verdict names the condition that failed and what it saw", () => {
    expect(evaluate({ name: "Ada", score: { lt: 2 } }, data)).toEqual({
      holds: false,
      reason: "score lt 2, observed 3",
    });
    expect(evaluate({ missing: { gt: 1 } }, data)).toEqual({
      holds: false,
      reason: "missing gt 1, observed nothing",
    });
    expect(evaluate({ any: [{ score: 1 }, { score: 2 }] }, data)).toEqual({
      holds: false,
      reason: "none of any: score eq 1, observed 3; score eq 2, observed 3",
    });
    const long = evaluate({ name: "y" }, { name: "x".repeat(10_000) });
    expect(long.holds === false && long.reason.length).toBeLessThan(200);
  });

  test("no conditions hold for everything", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (data) => holds({}, data as JsonObject)),
    );
  });

  test("text is ordered by code point", () => {
    expect(holds({ a: { lt: "\u{1F600}" } }, { a: "\uFF5E" })).toBe(true);
  });
});

describe("mistakes are named when they are made", () => {
  const faults: [string, unknown, string][] = [
    ["an unknown operator", { score: { greater: 1 } }, "conditions.score.greater"],
    ["a wrong operand of in", { score: { in: 3 } }, "conditions.score.in"],
    ["a wrong operand of exists", { score: { exists: "yes" } }, "conditions.score.exists"],
    ["a wrong operand of lt", { score: { lt: null } }, "conditions.score.lt"],
    ["a wrong operand of starts_with", { name: { starts_with: 1 } }, "conditions.name.starts_with"],
    ["an object for eq", { name: { eq: {} } }, "conditions.name.eq"],
    ["no operator", { score: {} }, "conditions.score"],
    ["a list of objects", { score: [{ eq: 1 }] }, "conditions.score"],
    ["a wrong not", { score: { not: { greater: 1 } } }, "conditions.score.not.greater"],
    ["any that is no list", { any: { score: 1 } }, "conditions.any"],
    ["any that is empty", { any: [] }, "conditions.any"],
    ["a wrong element of any", { any: [{ score: 1 }, 2] }, "conditions.any.1"],
    ["an empty name", { "a..b": 1 }, "conditions.a..b"],
    ["no object", [], "conditions"],
    ["an inherited name", { score: { constructor: 1 } }, "conditions.score.constructor"],
    ["a value too long", { name: "x".repeat(1_001) }, "conditions.name"],
  ];
  for (const [name, conditions, field] of faults) {
    test(name, () => expect(conditionFaults(conditions).map((fault) => fault.field)).toContain(field));
  }

  test("too many and too deep", () => {
    const many = Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`f${n}`, n]));
    expect(conditionFaults(many)).toHaveLength(1);
    let deep: Json = { eq: 1 };
    for (let n = 0; n < 20; n++) deep = { not: deep };
    expect(conditionFaults({ a: deep })).toHaveLength(1);
  });
});

describe("properties", () => {
  const field = fc.constantFrom("a", "b", "a.b", "any", "$or", "__proto__");
  const operand = fc.oneof(fc.jsonValue(), fc.integer(), fc.string(), fc.constant([1, "a"]), fc.boolean());
  const operator = fc.constantFrom(
    ...[
      "eq",
      "ne",
      "lt",
      "gte",
      "in",
      "nin",
      "exists",
      "contains",
      "starts_with",
      "$gt",
      "not",
      "toString",
      "regex",
    ],
  );
  const conditions = fc.dictionary(field, fc.oneof(operand, fc.dictionary(operator, operand)));
  const anyData = fc.dictionary(fc.constantFrom("a", "b"), fc.jsonValue());

  test("whatever is sent is either faulted or evaluates without throwing", () => {
    fc.assert(
      fc.property(conditions, anyData, (conditions, data) => {
        if (conditionFaults(conditions).length > 0) return;
        expect(typeof evaluate(conditions as JsonObject, data as JsonObject).holds).toBe("boolean");
      }),
      { numRuns: 500 },
    );
  });

  test("eq and ne, in and nin, lt and gte are each other's opposite for numbers that are there", () => {
    fc.assert(
      fc.property(fc.integer(), fc.integer(), fc.array(fc.integer()), (a, x, list) => {
        const pairs: [JsonObject, JsonObject][] = [
          [{ eq: x }, { ne: x }],
          [{ in: list }, { nin: list }],
          [{ lt: x }, { gte: x }],
          [{ gt: x }, { lte: x }],
        ];
        for (const [one, other] of pairs) expect(holds({ a: one }, { a })).toBe(!holds({ a: other }, { a }));
      }),
    );
  });

  test("not is the opposite of what it holds", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.dictionary(operator, operand, { minKeys: 1 }), (a, operators) => {
        if (conditionFaults({ a: operators }).length > 0) return;
        const data = { a } as JsonObject;
        expect(holds({ a: { not: operators } } as JsonObject, data)).toBe(
          !holds({ a: operators } as JsonObject, data),
        );
      }),
    );
  });
});
