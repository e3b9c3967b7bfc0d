import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { JsonObject } from "../../src/lib/json.ts";
import { filterFaults, includeFields } from "../../src/webhooks/filters.ts";

const key = fc.constantFrom<string[]>("a", "b", "c", "__proto__", "length");
const data = fc.letrec<{ value: JsonObject[string]; object: JsonObject }>((tie) => ({
  value: fc.oneof({ maxDepth: 3 }, fc.integer(), fc.string(), fc.array(tie("value")), tie("object")),
  object: fc.array(fc.tuple(key, tie("value"))).map((pairs) => Object.fromEntries(pairs) as JsonObject),
})).object;
const path = fc.array(key, { minLength: 1, maxLength: 3 }).map((keys) => keys.join("."));

describe("include_fields", () => {
  test("keeps the named fields, whole, and nothing else", () => {
    const data = { a: 1, b: { c: 2, d: { e: 3 } }, f: 4 };
    expect(includeFields(data, ["a", "b.d"])).toEqual({ a: 1, b: { d: { e: 3 } } });
  });

  test("walks through lists and keeps the field in each element", () => {
    const data: JsonObject = { variants: [{ price: 1, name: "x" }, { price: 2 }, "odd"] };
    expect(includeFields(data, ["variants.price"])).toEqual({ variants: [{ price: 1 }, { price: 2 }] });
  });

  test("a field that is not there is left out, and an empty list leaves nothing", () => {
    expect(includeFields({ a: 1 }, ["b", "a.x"])).toEqual({});
    expect(includeFields({ a: 1 }, [])).toEqual({});
  });

  test("a shorter path takes in a longer one, in either order", () => {
    const data = { a: { b: 1, c: 2 } };
    expect(includeFields(data, ["a", "a.b"])).toEqual(data);
    expect(includeFields(data, ["a.b", "a"])).toEqual(data);
  });

  test("applied twice it is the same as once", () => {
    fc.assert(
      fc.property(data, fc.array(path), (data, paths) => {
        const once = includeFields(data, paths);
        expect(JSON.stringify(includeFields(once, paths))).toBe(JSON.stringify(once));
      }),
    );
  });

  test("every top-level field unnamed is gone, every one named whole is unchanged", () => {
    fc.assert(
      fc.property(data, fc.array(key), (data, names) => {
        const kept = includeFields(data, names);
        for (const name of Object.keys(data)) {
          expect(Object.hasOwn(kept, name)).toBe(names.includes(name));
          if (names.includes(name)) expect(JSON.stringify(kept[name])).toBe(JSON.stringify(data[name]!));
        }
      }),
    );
  });

  test("no field named __proto__ becomes a prototype", () => {
    const data = JSON.parse('{"__proto__": {"admin": true}}');
    const kept = includeFields(data, ["__proto__"]);
    expect(Object.getPrototypeOf(kept)).toBe(Object.prototype);
    expect(JSON.stringify(kept)).toBe('{"__proto__":{"admin":true}}');
  });

  test("a path with an empty name is a fault", () => {
    expect(filterFaults({ include_fields: ["a.b", "a..b", ".a", ""] })).toHaveLength(3);
  });
});
