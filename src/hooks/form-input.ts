import { parseJson } from "../http/body.ts";
import type { FormValue } from "../http/form.ts";
import { AppError, type Fault } from "../lib/errors.ts";
import { isObject, type Json, type JsonObject } from "../lib/json.ts";
import type { Definition } from "../workflows/service.ts";

export type InputSchema = Definition["input_schema"];
export type Property = {
  [keyword: string]: unknown;
  title?: string;
  description?: string;
  ui_metadata?: { order?: number; type?: string | null; value?: unknown };
};

/** How one input is written as text: as it is, as a number, as yes or no, as one of a list, or as JSON. */
export type Form = "text" | "number" | "boolean" | "choice" | "json";

export function formOf(property: Property): Form {
  if (Array.isArray(property["enum"])) return "choice";
  switch (typeOf(property)) {
    case "boolean":
      return "boolean";
    case "number":
    case "integer":
      return "number";
    case "array":
    case "object":
      return "json";
    case "string":
      return "text";
  }
  return STRUCTURE.some((keyword) => property[keyword] !== undefined) ? "json" : "text";
}

const STRUCTURE = ["items", "properties", "$ref", "anyOf", "oneOf", "allOf"];

/** The first type that a value may have, null apart. */
export function typeOf({ type }: Property): unknown {
  return Array.isArray(type) ? type.find((one) => one !== "null") : type;
}

/**
 * The inputs that the fields of a form stand for, each by the form its property takes; an empty field is
 * one that was left out. What cannot be read stays text, for the schema to refuse; text that is to be JSON
 * and is not is a fault here.
 */
export function inputOf(
  { properties }: InputSchema,
  fields: Record<string, FormValue>,
): { input: JsonObject; faults: Fault[] } {
  const faults: Fault[] = [];
  const entries: [string, Json][] = [];
  for (const [name, given] of Object.entries(fields)) {
    const property = Object.hasOwn(properties, name) ? (properties[name] as Property) : undefined;
    const texts = (Array.isArray(given) ? given : [given]) as string[];
    if (texts.every((text) => text === "")) continue;
    if (property && formOf(property) !== "json") {
      entries.push([name, read(property, texts.at(-1)!)]);
    } else if (!property || texts.length > 1) {
      const { items } = property ?? {};
      const values = texts.map((text) => (isObject(items) ? read(items as Property, text) : text));
      entries.push([name, values.length === 1 ? values[0]! : values]);
    } else {
      try {
        entries.push([name, parseJson(Buffer.from(texts[0]!), texts[0]!) as Json]);
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        const { expected, received } = error.extra.faults![0]!;
        faults.push({ field: `input_data.${name}`, expected, received });
      }
    }
  }
  return { input: Object.fromEntries(entries), faults };
}

const NUMBER = /^-?\d{1,300}(\.\d{1,300})?([eE][+-]?\d{1,3})?$/;
const WORDS = new Map([
  ["true", true],
  ["on", true],
  ["yes", true],
  ["1", true],
  ["false", false],
  ["off", false],
  ["no", false],
  ["0", false],
]);

function read(property: Property, text: string): Json {
  switch (formOf(property)) {
    case "choice":
      return (property["enum"] as Json[]).find((value) => choiceText(value) === text) ?? text;
    case "boolean":
      return WORDS.get(text.toLowerCase()) ?? text;
    case "number": {
      const number = NUMBER.test(text.trim()) ? Number(text) : Number.NaN;
      return Number.isFinite(number) ? number : text;
    }
    default:
      return text;
  }
}

/** What stands in a form for one value of an enum. */
export const choiceText = (value: Json): string =>
  typeof value === "string" ? value : JSON.stringify(value);
