import { Format } from "typebox/format";
import * as Draft07 from "typebox/schema";
import { describe, type Fault } from "./errors.ts";
import { isObject } from "./json.ts";
import { LinearPattern, PatternError } from "./linear-pattern.ts";
import { toFaults } from "./schema-faults.ts";

/**
 * JSON Schemas (draft-07) that other people wrote, and the check of values against them. Such a schema is
 * interpreted, never compiled to code, only the keywords of draft-07 reach the checker, and what could hold
 * the program up is refused by `schemaFaults`, which is to be asked before a schema is stored or used.
 */

const LARGEST_SCHEMA = 64 * 1024;
// With every reference written out: subschemas in all, and those that look at one and the same value.
const MOST_SUBSCHEMAS = 10_000;
const MOST_AT_ONE_PLACE = 100;
const TYPES = ["array", "boolean", "integer", "null", "number", "object", "string"];

const MAPS = ["properties", "patternProperties", "definitions", "$defs", "dependencies"];
const LISTS = ["allOf", "anyOf", "oneOf"];
const SINGLES = [
  "items",
  "additionalItems",
  "additionalProperties",
  "contains",
  "not",
  "if",
  "then",
  "else",
  "propertyNames",
];
const PLAIN = [
  "$ref",
  "type",
  "enum",
  "const",
  "format",
  "pattern",
  "required",
  "uniqueItems",
  "multipleOf",
  "maximum",
  "exclusiveMaximum",
  "minimum",
  "exclusiveMinimum",
  "maxLength",
  "minLength",
  "maxItems",
  "minItems",
  "maxProperties",
  "minProperties",
];
/** These apply to the value itself, the other subschemas to what is inside of it. */
const IN_PLACE = new Set(["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependencies", "$ref"]);

// The library's own expressions for these take up to seconds on a long text.
const LONGEST_URI = 8_192;
for (const name of ["uri", "uri-reference", "uri-template", "iri", "iri-reference", "url"]) {
  const base = name.endsWith("reference") || name === "uri-template" ? "http://base.invalid" : undefined;
  Format.Set(name, (text) => text.length <= LONGEST_URI && URL.canParse(text, base));
}

type Schema = boolean | { [keyword: string]: unknown };

/** What makes a schema unusable, with paths below `at`. */
export function schemaFaults(schema: unknown, at: string): Fault[] {
  if ((JSON.stringify(schema) ?? "").length > LARGEST_SCHEMA) {
    return [{ field: at, expected: `at most ${LARGEST_SCHEMA} characters`, received: "more" }];
  }
  const faults: Fault[] = [];
  inspect(schema, at, faults);
  // Only of what is a schema at all can the size be told.
  return faults.length > 0 ? faults : sizeFaults(prune(schema), at);
}

/** The check of values: every way in which one does not fit, with paths into it. For a schema without faults. */
export function schemaCheck(schema: unknown): (value: unknown) => Fault[] {
  const armed = arm(prune(schema));
  const fits = plainCheck(armed);
  return (value) => {
    if (fits ? fits(value) : Draft07.Check(armed, value)) return [];
    const [, errors] = Draft07.Errors(armed, value);
    return toFaults(errors, value);
  };
}

const NOTES = new Set([
  "title",
  "description",
  "default",
  "examples",
  "ui_metadata",
  "$comment",
  "$schema",
  "$id",
]);
const PLAIN_TYPES: Record<string, (value: unknown) => boolean> = {
  string: (value) => typeof value === "string",
  number: (value) => typeof value === "number",
  integer: (value) => Number.isInteger(value),
  boolean: (value) => typeof value === "boolean",
  object: isObject,
  array: Array.isArray,
  null: (value) => value === null,
};

/**
 * The check of an object whose properties have a type and nothing more, which is what most forms are:
 * twenty times as fast as walking through the schema. Undefined for every other schema.
 */
function plainCheck(schema: unknown): ((value: unknown) => boolean) | undefined {
  if (!isObject(schema) || schema["type"] !== "object") return undefined;
  const { type: _, properties = {}, required = [], ...rest } = schema;
  if (!Object.keys(rest).every((key) => NOTES.has(key))) return undefined;
  if (!isObject(properties) || !Array.isArray(required)) return undefined;
  const checks: [string, (value: unknown) => boolean][] = [];
  for (const [name, property] of Object.entries(properties)) {
    if (!isObject(property)) return undefined;
    const { type, ...notes } = property;
    const check = typeof type === "string" ? PLAIN_TYPES[type] : undefined;
    if (!Object.keys(notes).every((key) => NOTES.has(key))) return undefined;
    if (type !== undefined && !check) return undefined;
    if (check) checks.push([name, check]);
  }
  const names = required as string[];
  return (value) =>
    isObject(value) &&
    names.every((name) => Object.hasOwn(value, name)) &&
    checks.every(([name, check]) => !Object.hasOwn(value, name) || check(value[name]));
}

function inspect(schema: unknown, at: string, faults: Fault[]): void {
  if (typeof schema === "boolean") return;
  const add = (key: string, expected: string, received = describe(isObject(schema) ? schema[key] : schema)) =>
    faults.push({ field: key ? `${at}.${key}` : at, expected, received });
  if (!isObject(schema)) return void add("", "a schema");
  const { type, pattern, $ref, patternProperties } = schema;
  const types = Array.isArray(type) ? type : type == null ? [] : [type];
  if (!types.every((one) => TYPES.includes(one as string))) add("type", `one of ${TYPES.join(", ")}`);
  if (pattern != null) {
    const wrong = patternFault(pattern);
    if (wrong) add("pattern", wrong);
  }
  for (const name of isObject(patternProperties) ? Object.keys(patternProperties) : []) {
    // These are run by JavaScript's engine, so they must be such that it cannot be led astray.
    if (patternFault(name) || !isPlainExpression(name))
      add("patternProperties", "expressions with at most one repeat, behind ^");
  }
  if ($ref != null && !(typeof $ref === "string" && REFERENCE.test($ref)))
    add("$ref", "a reference such as #/definitions/name");
  const inner = children(schema);
  for (const { path, schema: child } of inner) inspect(child, `${at}.${path}`, faults);
  // The subschemas are looked at one by one, so that a fault is told once and where it is.
  const shell: Record<string, unknown> = { ...(prune(schema) as object) };
  for (const key of [...MAPS, ...LISTS, ...SINGLES])
    if (inner.some(({ keyword }) => keyword === key)) delete shell[key];
  for (const key of ["type", "pattern", "patternProperties", "$ref"]) delete shell[key]; // told above
  if (Draft07.Check(META, shell)) return;
  const [, errors] = Draft07.Errors(META, shell);
  for (const fault of toFaults(errors, shell))
    faults.push({ ...fault, field: fault.field ? `${at}.${fault.field}` : at });
}

const META = Draft07.Meta["http://json-schema.org/draft-07/schema#"];
const REFERENCE = /^#\/(definitions|\$defs)\/([\w.-]+)$/;
// No repeat at all, or one behind an anchored beginning: linear in the text.
const isPlainExpression = (source: string): boolean =>
  !/[*+?{]/.test(source) || (/^\^[^*+?{|]*[*+?{][^*+?{|]*$/.test(source) && !source.includes("("));

function patternFault(pattern: unknown): string | undefined {
  if (typeof pattern !== "string") return "a regular expression";
  try {
    new LinearPattern(pattern);
    return undefined;
  } catch (error) {
    if (error instanceof PatternError) return error.message;
    throw error;
  }
}

/** The subschemas right below a schema. */
function children(schema: Record<string, unknown>): { keyword: string; path: string; schema: unknown }[] {
  const found: { keyword: string; path: string; schema: unknown }[] = [];
  const all = (keyword: string, entries: Iterable<[string | number, unknown]>) => {
    for (const [key, child] of entries) found.push({ keyword, path: `${keyword}.${key}`, schema: child });
  };
  for (const keyword of MAPS) {
    const map = schema[keyword];
    // A dependency may be a list of names instead of a schema.
    if (isObject(map))
      all(
        keyword,
        Object.entries(map).filter(([, child]) => keyword !== "dependencies" || !Array.isArray(child)),
      );
  }
  for (const keyword of LISTS) {
    const list = schema[keyword];
    if (Array.isArray(list) && list.length > 0) all(keyword, list.entries());
  }
  for (const keyword of SINGLES) {
    const child = schema[keyword];
    if (Array.isArray(child) && keyword === "items") all(keyword, child.entries());
    else if (child != null) found.push({ keyword, path: keyword, schema: child });
  }
  return found;
}

/** The same schema without what draft-07 does not know, such as `ui_metadata`, and without keywords set to null. */
function prune(schema: unknown): Schema {
  if (!isObject(schema)) return schema as boolean;
  // Draft-07: beside a reference nothing else counts.
  if (schema["$ref"] != null && !schema["definitions"] && !schema["$defs"]) return { $ref: schema["$ref"] };
  const kept: [string, unknown][] = PLAIN.filter((key) => Object.hasOwn(schema, key)).map((key) => [
    key,
    schema[key],
  ]);
  for (const key of MAPS) {
    const map = schema[key];
    if (!isObject(map)) kept.push([key, map]);
    else
      kept.push([key, Object.fromEntries(Object.entries(map).map(([name, child]) => [name, prune(child)]))]);
  }
  for (const key of [...LISTS, ...SINGLES]) {
    const child = schema[key];
    kept.push([key, Array.isArray(child) ? child.map(prune) : prune(child)]);
  }
  return Object.fromEntries(
    kept.filter(([key, value]) => value !== undefined && (value !== null || key === "const")),
  );
}

/** Puts in what the checker's own means would be too slow for. */
function arm(schema: Schema): Schema {
  if (typeof schema !== "object" || schema === null) return schema;
  const { pattern, uniqueItems, ...armed } = schema;
  for (const key of MAPS) {
    const map = armed[key];
    if (isObject(map))
      armed[key] = Object.fromEntries(Object.entries(map).map(([name, child]) => [name, armAny(child)]));
  }
  for (const key of [...LISTS, ...SINGLES]) if (armed[key] !== undefined) armed[key] = armAny(armed[key]);
  if (typeof pattern === "string") armed["pattern"] = new LinearPattern(pattern);
  if (uniqueItems === true)
    armed["~refine"] = [{ check: areUnique, error: () => "must be without duplicates" }];
  return armed;
}

const armAny = (child: unknown): unknown =>
  Array.isArray(child) ? child.map((one) => arm(one as Schema)) : arm(child as Schema);

const areUnique = (value: unknown): boolean =>
  !Array.isArray(value) || new Set(value.map((item) => JSON.stringify(sorted(item)))).size === value.length;

const sorted = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((key) => [key, sorted(value[key])]),
  );
};

type Size = { all: number; here: number };

/** A few references to references can stand for more subschemas than there are atoms, and a circle for endlessly many. */
function sizeFaults(root: Schema, at: string): Fault[] {
  const known = new Map<object, Size | "under way">();
  function sizeOf(schema: unknown): Size {
    if (!isObject(schema)) return { all: 1, here: 1 };
    const before = known.get(schema);
    if (before === "under way") throw new SchemaSize("references without a circle");
    if (before) return before;
    known.set(schema, "under way");
    const size = { all: 1, here: 1 };
    const inner = children(schema).filter(({ keyword }) => keyword !== "definitions" && keyword !== "$defs");
    if (typeof schema["$ref"] === "string")
      inner.push({ keyword: "$ref", path: "", schema: target(schema["$ref"]) });
    for (const { keyword, schema: child } of inner) {
      const { all, here } = sizeOf(child);
      size.all += all;
      if (IN_PLACE.has(keyword)) size.here += here;
    }
    if (size.all > MOST_SUBSCHEMAS || size.here > MOST_AT_ONE_PLACE) throw new SchemaSize("fewer subschemas");
    known.set(schema, size);
    return size;
  }
  function target(reference: string): unknown {
    const [, map = "", name = ""] = REFERENCE.exec(reference) ?? [];
    const found =
      isObject(root) && isObject(root[map]) && Object.hasOwn(root[map], name) ? root[map][name] : undefined;
    if (found === undefined)
      throw new SchemaSize("references to definitions that are there", reference.slice(0, 100));
    return found;
  }
  try {
    sizeOf(root);
    return [];
  } catch (error) {
    if (!(error instanceof SchemaSize)) throw error;
    return [{ field: at, expected: error.message, received: error.received }];
  }
}

class SchemaSize extends Error {
  constructor(
    expected: string,
    readonly received = "a schema that cannot be worked through",
  ) {
    super(expected);
  }
}
