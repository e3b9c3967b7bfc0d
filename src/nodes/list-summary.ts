import { type Json, type JsonObject, readPath } from "../lib/json.ts";
import { extreme, keyOf } from "./list-order.ts";
import { NodeError } from "./node.ts";

export const FUNCTIONS = [
  "count",
  "count_unique",
  "sum",
  "average",
  "median",
  "min",
  "max",
  "first",
  "last",
  "join",
  "collect",
] as const;

type Figure = { function: (typeof FUNCTIONS)[number]; field?: string; separator?: string };

/** Figures of a list, by name. What is not there or null does not count; text is never taken for a number. */
export const summarize = (items: Json[], figures: Record<string, Figure>): JsonObject =>
  Object.fromEntries(Object.entries(figures).map(([name, figure]) => [name, work(items, figure, name)]));

function work(items: Json[], { function: what, field, separator = ", " }: Figure, name: string): Json {
  const all = field === undefined ? items : items.map((item) => (readPath(item, field) ?? null) as Json);
  const values = all.filter((value) => value !== null);
  switch (what) {
    case "count":
      return values.length;
    case "count_unique":
      return new Set(values.map(keyOf)).size;
    case "sum":
      return total(numbers(values, name));
    case "average":
      return values.length === 0 ? null : total(numbers(values, name)) / values.length;
    case "median":
      return median(numbers(values, name));
    case "min":
    case "max":
      return extreme(values, what === "max");
    case "first":
      return values[0] ?? null;
    case "last":
      return values.at(-1) ?? null;
    case "join":
      return values
        .map((value) => (typeof value === "object" ? JSON.stringify(value) : String(value)))
        .join(separator);
    case "collect":
      return values;
  }
}

function numbers(values: Json[], name: string): number[] {
  const odd = values.findIndex((value) => typeof value !== "number");
  if (odd === -1) return values as number[];
  const received = Array.isArray(values[odd]) ? "a list" : `a ${typeof values[odd]}`;
  throw new NodeError("NOT_A_NUMBER", `summary.${name}: expected numbers, received ${received}.`);
}

/** With what rounding loses kept beside it, so that 0.1 ten times is 1. */
function total(values: number[]): number {
  let sum = 0;
  let lost = 0;
  for (const value of values) {
    const next = sum + value;
    lost += Math.abs(sum) >= Math.abs(value) ? sum - next + value : value - next + sum;
    sum = next;
  }
  return sum + lost;
}

function median(values: number[]): Json {
  if (values.length === 0) return null;
  const ordered = values.toSorted((a, b) => a - b);
  const middle = ordered.length >> 1;
  return ordered.length % 2 === 1 ? ordered[middle]! : (ordered[middle - 1]! + ordered[middle]!) / 2;
}
