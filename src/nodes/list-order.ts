import type { Json } from "../lib/json.ts";

// Values of different kinds stand in this order; nothing is converted.
const KINDS = ["boolean", "number", "string", "object"];

function compare(a: Json, b: Json): number {
  if (typeof a !== typeof b) return KINDS.indexOf(typeof a) - KINDS.indexOf(typeof b);
  if (typeof a === "number") return a - (b as number);
  if (typeof a === "boolean") return Number(a) - Number(b);
  if (typeof a === "string") return a < (b as string) ? -1 : a > (b as string) ? 1 : 0;
  return 0;
}

/** Sorted by a value of each item; equal ones stay as they stood, and null comes last either way. */
export function inOrder(items: Json[], by: (item: Json) => Json, descending: boolean): Json[] {
  const keyed = items.map((item) => ({ item, key: by(item) }));
  keyed.sort(({ key: a }, { key: b }) => {
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    return descending ? compare(b, a) : compare(a, b);
  });
  return keyed.map(({ item }) => item);
}

/** Two values have one key when they are equal; objects whatever the order of their fields. */
export const keyOf = (value: Json): string => JSON.stringify(sorted(value));

function sorted(value: Json): Json {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const fields = Object.keys(value).sort();
  return Object.fromEntries(fields.map((name) => [name, sorted(value[name]!)]));
}

/** The least, or the greatest, of the values that are not null; null where there is none. */
export function extreme(values: Json[], greatest: boolean): Json {
  let found: Json = null;
  for (const value of values) {
    if (value === null) continue;
    const order = found === null ? 0 : compare(value, found);
    if (found === null || (greatest ? order > 0 : order < 0)) found = value;
  }
  return found;
}
