import { isObject, type Json, type JsonObject } from "../lib/json.ts";

const DEEPEST = 12;
const MOST_VALUES = 2_000;

/**
 * A value of a JSON Schema's form, made without thinking: what the schema names itself, `words` for texts, the
 * least for the rest. Undefined where it would take thought, as for a pattern.
 */
export const formed = (schema: JsonObject, words: string): Json | undefined =>
  made(schema, { root: schema, words, depth: 0, budget: { left: MOST_VALUES } });

/** `budget` is shared: lists of lists grow beyond any use. */
type Making = { root: JsonObject; words: string; depth: number; budget: { left: number } };

function made(schema: Json | undefined, making: Making): Json | undefined {
  if (schema === undefined || schema === true) return making.words;
  if (!isObject(schema) || making.depth > DEEPEST || making.budget.left-- <= 0) return undefined;
  const inside = { ...making, depth: making.depth + 1 };
  const { $ref, allOf, anyOf, oneOf, enum: listed, examples } = schema as JsonObject;
  if (typeof $ref === "string") return made(at($ref, making.root), inside);
  for (const given of [schema["const"], schema["default"], first(listed), first(examples)])
    if (given !== undefined) return given as Json;
  if (Array.isArray(allOf)) return made(together(schema as JsonObject, allOf), inside);
  const choices = anyOf ?? oneOf;
  if (Array.isArray(choices)) return firstOf(choices, (choice) => made(choice, inside));
  return plain(schema as JsonObject, inside);
}

function plain(schema: JsonObject, making: Making): Json | undefined {
  const { type, properties, required, items, minItems, minLength, maxLength, pattern } = schema;
  const kind = first(type) ?? type ?? (properties || required ? "object" : items ? "array" : "string");
  switch (kind) {
    case "object": {
      const names = Array.isArray(required) ? (required as string[]) : [];
      const fields = isObject(properties) ? (properties as JsonObject) : {};
      const entries = names.map((name) => [name, made(fields[name], making)] as const);
      return entries.some(([, value]) => value === undefined)
        ? undefined
        : (Object.fromEntries(entries) as JsonObject);
    }
    case "array": {
      const list = Array.from({ length: Math.min(Number(minItems ?? 0), 100) }, () => made(items, making));
      return list.includes(undefined) ? undefined : (list as Json[]);
    }
    case "string":
      if (pattern !== undefined) return undefined;
      return dated(schema["format"]) ?? fitting(making.words, Number(minLength ?? 0), maxLength);
    case "integer":
    case "number":
      return least(schema);
    case "boolean":
      return false;
    case "null":
      return null;
    default:
      return undefined;
  }
}

const first = (list: Json | undefined): Json | undefined => (Array.isArray(list) ? list[0] : undefined);

function firstOf(list: Json[], make: (one: Json) => Json | undefined): Json | undefined {
  for (const one of list) {
    const value = make(one);
    if (value !== undefined) return value;
  }
  return undefined;
}

/** What all of them ask for, as far as it can be put into one. */
function together({ allOf: _, ...schema }: JsonObject, parts: Json[]): JsonObject {
  const all = [schema, ...parts.filter(isObject)] as JsonObject[];
  return {
    ...Object.assign({}, ...all),
    properties: Object.assign({}, ...all.map(({ properties }) => properties ?? {})),
    required: [...new Set(all.flatMap(({ required }) => (required as string[] | undefined) ?? []))],
  };
}

function at(ref: string, root: JsonObject): Json | undefined {
  if (!ref.startsWith("#")) return undefined;
  let found: Json | undefined = root;
  for (const segment of ref.slice(1).split("/").slice(1)) {
    const name = segment.replaceAll("~1", "/").replaceAll("~0", "~");
    found = isObject(found) ? (found as JsonObject)[name] : undefined;
  }
  return found ?? false;
}

const fitting = (words: string, least: number, most: Json | undefined): string =>
  words.padEnd(Math.min(least, 10_000), ".").slice(0, typeof most === "number" ? most : undefined);

function dated(format: Json | undefined): string | undefined {
  if (format === "date-time") return "1970-01-01T00:00:00Z";
  return format === "date" ? "1970-01-01" : undefined;
}

function least({ minimum, exclusiveMinimum, maximum, exclusiveMaximum, multipleOf }: JsonObject): number {
  const step = typeof multipleOf === "number" ? multipleOf : 1;
  const above = typeof exclusiveMinimum === "number" ? exclusiveMinimum + step : undefined;
  const below = typeof exclusiveMaximum === "number" ? exclusiveMaximum - step : undefined;
  const low = (minimum as number | undefined) ?? above;
  if (low !== undefined) return Math.ceil(low / step) * step;
  return Math.min(0, (maximum as number | undefined) ?? below ?? 0);
}
