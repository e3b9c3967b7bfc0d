import { Format } from "typebox/format";
import * as Draft07 from "typebox/schema";
import { describe, type Fault } from "../lib/errors.ts";
import { isObject, type Json } from "../lib/json.ts";
import { toFaults } from "../lib/schema-faults.ts";
import type { InputSchema } from "./schema.ts";

/**
 * What people write as `input_schema` (JSON Schema draft-07, interface 2.1.1) and the check of inputs
 * against it. The schema comes from outside: it is interpreted, never compiled to code, and keeps to what
 * cannot stall the program.
 */

const LARGEST_SCHEMA = 64 * 1024;
const LONGEST_PATTERN = 200;
const TYPES = ["array", "boolean", "integer", "null", "number", "object", "string"];

// The library's own expressions for these take seconds on a long text.
const LONGEST_URI = 8_192;
for (const name of ["uri", "uri-reference", "uri-template", "iri", "iri-reference", "url"]) {
  const relative = name.endsWith("reference") || name === "uri-template";
  Format.Set(name, (text) => text.length <= LONGEST_URI && URL.canParse(text, relative ? "http://base.invalid" : undefined));
}

/** What makes a schema unusable, with paths below `at`. */
export function schemaFaults(schema: InputSchema, at = "input_schema"): Fault[] {
  if (JSON.stringify(schema).length > LARGEST_SCHEMA) {
    return [{ field: at, expected: `at most ${LARGEST_SCHEMA} characters`, received: "more" }];
  }
  const faults: Fault[] = [];
  inspect(schema, at, faults);
  for (const name of schema.required) {
    if (!Object.hasOwn(schema.properties, name)) {
      faults.push({ field: `${at}.required`, expected: "names of properties", received: name.slice(0, 100) });
    }
  }
  return faults;
}

const MAPS_OF_SCHEMAS = ["properties", "patternProperties", "definitions", "$defs"];
const LISTS_OF_SCHEMAS = ["allOf", "anyOf", "oneOf"];
const SCHEMAS = ["items", "additionalItems", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames"];

function inspect(schema: unknown, at: string, faults: Fault[]): void {
  if (typeof schema === "boolean") return;
  if (!isObject(schema)) {
    faults.push({ field: at, expected: "a schema", received: describe(schema) });
    return;
  }
  const { type, pattern, $ref } = schema;
  const types = Array.isArray(type) ? type : type === undefined ? [] : [type];
  if (!types.every((one) => TYPES.includes(one as string))) {
    faults.push({ field: `${at}.type`, expected: `one of ${TYPES.join(", ")}`, received: describe(type) });
  }
  if (pattern !== undefined) checkPattern(pattern, `${at}.pattern`, faults);
  if ($ref !== undefined && !(typeof $ref === "string" && /^#\/(definitions|\$defs)\//.test($ref))) {
    faults.push({ field: `${at}.$ref`, expected: "a reference into definitions", received: describe($ref) });
  }
  for (const key of MAPS_OF_SCHEMAS) {
    const map = schema[key];
    if (!isObject(map)) continue;
    for (const [name, inner] of Object.entries(map)) {
      if (key === "patternProperties") checkPattern(name, `${at}.${key}`, faults);
      inspect(inner, `${at}.${key}.${name}`, faults);
    }
  }
  for (const key of LISTS_OF_SCHEMAS) {
    const list = schema[key];
    if (Array.isArray(list)) for (const [index, inner] of list.entries()) inspect(inner, `${at}.${key}.${index}`, faults);
  }
  for (const key of SCHEMAS) {
    const inner = schema[key];
    if (Array.isArray(inner)) for (const [index, one] of inner.entries()) inspect(one, `${at}.${key}.${index}`, faults);
    else if (inner !== undefined) inspect(inner, `${at}.${key}`, faults);
  }
}

// JavaScript's expressions backtrack: a repeated group is where that becomes endless.
const REPEATED_GROUP = /\)[*+{?]/;

function checkPattern(pattern: unknown, field: string, faults: Fault[]): void {
  const fault = (expected: string) => faults.push({ field, expected, received: describe(pattern) });
  if (typeof pattern !== "string") return void fault("a regular expression");
  if (pattern.length > LONGEST_PATTERN) return void fault(`at most ${LONGEST_PATTERN} characters`);
  if (REPEATED_GROUP.test(pattern)) return void fault("an expression without repeated groups");
  try {
    new RegExp(pattern, "u");
  } catch {
    fault("a regular expression");
  }
}

/** Every way in which an input does not fit, with paths into the input. */
export function inputFaults(schema: InputSchema, input: Json): Fault[] {
  try {
    // The root is an object whatever the schema says: inputs are reached by name.
    const whole = { type: "object", ...schema };
    if (Draft07.Check(whole, input)) return [];
    const [, errors] = Draft07.Errors(whole, input);
    return toFaults(errors, input);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return [{ field: "", expected: "a schema that comes to an end", received: "endless references" }];
  }
}
