import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Json } from "../../src/lib/json.ts";
import { listOperations } from "../../src/nodes/list-operations.ts";
import { run } from "./setup.ts";

const orders = [
  { id: 1, who: { name: "Ada" }, total: 30, tags: ["new"] },
  { id: 2, who: { name: "Bob" }, total: 10, tags: [] },
  { id: 3, who: { name: "Ada" }, total: 20, tags: ["new", "big"] },
  { id: 4, who: { name: "Eve" }, tags: ["big"] },
];

type Output = { items: Json[]; count: number; first: Json; last: Json; summary: Record<string, Json> };
const work = async (operations: object[], list: unknown[] = orders, more: object = {}) =>
  (await run(listOperations, { list, operations, ...more })).output as Output;
const ids = async (...operations: object[]) =>
  (await work(operations)).items.map((one) => (one as { id: number }).id);

describe("list_operations", () => {
  test("works one operation after the other", async () => {
    const { items, count, first, last } = await work([
      { operation: "filter", where: { "who.name": ["Ada", "Bob"], total: { gte: 10 } } },
      { operation: "sort", field: "total", order: "desc" },
      { operation: "limit", count: 2 },
      { operation: "map", fields: { name: "who.name", sum: "total" } },
    ]);
    expect(items).toEqual([
      { name: "Ada", sum: 30 },
      { name: "Ada", sum: 20 },
    ]);
    expect({ count, first, last }).toEqual({ count: 2, first: items[0]!, last: items[1]! });
  });

  test("sorts with nothing last, whichever way, and keeps equal ones as they stood", async () => {
    expect(await ids({ operation: "sort", field: "total" })).toEqual([2, 3, 1, 4]);
    expect(await ids({ operation: "sort", field: "total", order: "desc" })).toEqual([1, 3, 2, 4]);
    expect(await ids({ operation: "sort", field: "who.name" })).toEqual([1, 3, 2, 4]);
    expect((await work([{ operation: "sort" }], ["b", 10, null, true, "a", 9])).items).toEqual([
      true,
      9,
      10,
      "a",
      "b",
      null,
    ]);
  });

  test("skips, reverses and cuts from either end", async () => {
    expect(await ids({ operation: "skip", count: 1 }, { operation: "reverse" })).toEqual([4, 3, 2]);
    expect(await ids({ operation: "limit", count: 2, from: "end" })).toEqual([3, 4]);
    expect(await ids({ operation: "limit", count: 0, from: "end" })).toEqual([]);
  });

  test("keeps the first of equal items, objects whatever the order of their fields", async () => {
    expect(await ids({ operation: "unique", field: "who.name" })).toEqual([1, 2, 4]);
    const twice = [{ a: 1, b: { c: 2, d: 3 } }, { b: { d: 3, c: 2 }, a: 1 }, 1, "1", 1];
    expect((await work([{ operation: "unique" }], twice)).items).toEqual([twice[0]!, 1, "1"]);
  });

  test("maps to a field, flattens and cuts in parts", async () => {
    expect((await work([{ operation: "map", field: "tags" }, { operation: "flatten" }])).items).toEqual([
      "new",
      "new",
      "big",
      "big",
    ]);
    expect((await work([{ operation: "map", field: "total" }])).items).toEqual([30, 10, 20, null]);
    expect((await work([{ operation: "chunk", size: 2 }], [1, 2, 3])).items).toEqual([[1, 2], [3]]);
  });

  test("groups with figures of each group", async () => {
    const { items } = await work([
      {
        operation: "group",
        field: "who.name",
        keep_items: false,
        summary: { sum: { function: "sum", field: "total" } },
      },
    ]);
    expect(items).toEqual([
      { key: "Ada", count: 2, summary: { sum: 50 } },
      { key: "Bob", count: 1, summary: { sum: 10 } },
      { key: "Eve", count: 1, summary: { sum: 0 } },
    ]);
  });

  test("works out figures of what is left", async () => {
    const of = (what: string, field?: string) => ({ function: what, ...(field ? { field } : {}) });
    const summary = {
      all: of("count"),
      priced: of("count", "total"),
      names: of("count_unique", "who.name"),
      sum: of("sum", "total"),
      average: of("average", "total"),
      median: of("median", "total"),
      least: of("min", "total"),
      most: of("max", "total"),
      first: of("first", "who.name"),
      last: of("last", "total"),
      joined: { function: "join", field: "who.name", separator: "/" },
      collected: of("collect", "total"),
    };
    expect((await work([], orders, { summary })).summary).toEqual({
      all: 4,
      priced: 3,
      names: 3,
      sum: 60,
      average: 20,
      median: 20,
      least: 10,
      most: 30,
      first: "Ada",
      last: 20,
      joined: "Ada/Bob/Ada/Eve",
      collected: [30, 10, 20],
    });
  });

  test("figures of nothing are no errors", async () => {
    const { summary, first, last } = await work([], [], {
      summary: {
        a: { function: "average" },
        b: { function: "max" },
        c: { function: "sum" },
        d: { function: "median" },
      },
    });
    expect(summary).toEqual({ a: null, b: null, c: 0, d: null });
    expect([first, last]).toEqual([null, null]);
  });

  test("sums what binary fractions cannot hold", async () => {
    const { summary } = await work([], Array(10).fill(0.1), { summary: { sum: { function: "sum" } } });
    expect(summary["sum"]).toBe(1);
  });

  test("does not take text for a number", async () => {
    const adding = work([], [1, "2"], { summary: { sum: { function: "sum" } } });
    await expect(adding).rejects.toMatchObject({
      code: "NOT_A_NUMBER",
      message: "summary.sum: expected numbers, received a string.",
    });
  });

  test("filters items that are no objects by value", async () => {
    expect((await work([{ operation: "filter", where: { value: { gt: 1 } } }], [1, 2, "3"])).items).toEqual([
      2,
    ]);
  });

  test.each([
    [{ operation: "shuffle" }],
    [{ operation: "filter", where: { a: { like: 1 } } }],
    [{ operation: "map" }],
    [{ operation: "map", field: "a", fields: { b: "c" } }],
    [{ operation: "chunk", size: 0 }],
    [{ operation: "limit", count: -1 }],
    [{ operation: "limit", count: 1, by: 2 }],
  ])("refuses %j", async (operation) => {
    await expect(work([operation])).rejects.toMatchObject({ code: "INVALID_CONFIG" });
  });

  test("takes lists alone, and no endless ones", async () => {
    await expect(run(listOperations, { list: "a,b" })).rejects.toMatchObject({ code: "INVALID_CONFIG" });
    await expect(run(listOperations, { list: Array(20_001).fill(1) })).rejects.toMatchObject({
      code: "INVALID_CONFIG",
    });
    const flattened = work([{ operation: "flatten" }], [Array(20_001).fill(1)]);
    await expect(flattened).rejects.toMatchObject({ code: "LIST_TOO_LONG" });
  });

  test("any list is sorted, grouped and counted without loss", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.jsonValue({ maxDepth: 2 })), async (list) => {
        const sorted = (await work([{ operation: "sort" }], list)).items;
        expect(sorted).toHaveLength(list.length);
        const again = (await work([{ operation: "sort" }], sorted)).items;
        expect(again).toEqual(sorted);
        const groups = (
          await work(
            [
              { operation: "map", fields: { v: "0" } },
              { operation: "group", field: "v" },
            ],
            list,
          )
        ).items;
        const total = groups.reduce<number>((sum, one) => sum + (one as { count: number }).count, 0);
        expect(total).toBe(list.length);
      }),
      { numRuns: 50 },
    );
  });
});
