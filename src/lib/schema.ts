import type { Static, TSchema } from "typebox";
import { Compile, type Validator } from "typebox/compile";
import { describe, type Fault } from "./errors.ts";

/**
 * A typebox 1.x schema as a Standard Schema, the form Elysia 1.4 takes from outside its own typebox.
 * Compiled at first use: an appliance starts often and most routes are not called in its first second.
 */
export type Schema<T extends TSchema> = {
  schema: T;
  /** Every fault of a value; empty when it fits. */
  faults(value: unknown): Fault[];
  "~standard": {
    version: 1;
    vendor: "typebox";
    types?: { input: Static<T>; output: Static<T> };
    validate(value: unknown): { value: Static<T> } | { issues: (Fault & { message: string; path: string[] })[] };
  };
};

const MOST_FAULTS = 20;

function wrap<T extends TSchema>(schema: T, prepare?: (value: unknown) => unknown): Schema<T> {
  let compiled: Validator | undefined;
  const faults = (value: unknown): Fault[] => {
    compiled ??= Compile(schema) as unknown as Validator;
    if (compiled.Check(value)) return [];
    const seen = new Map<string, Fault>();
    for (const error of compiled.Errors(value) as unknown as SchemaError[]) {
      for (const fault of toFaults(error, value)) if (!seen.has(fault.field)) seen.set(fault.field, fault);
      if (seen.size >= MOST_FAULTS) break;
    }
    return [...seen.values()];
  };
  return {
    schema,
    faults,
    "~standard": {
      version: 1,
      vendor: "typebox",
      validate(input) {
        const value = prepare ? prepare(input) : input;
        const found = faults(value);
        if (found.length === 0) return { value: value as Static<T> };
        const issues = found.map((fault) => ({
          ...fault,
          message: `expected ${fault.expected}`,
          path: fault.field.split("."),
        }));
        return { issues };
      },
    },
  };
}

/** The shape of a JSON body: checked as it is, never coerced. */
export const json = <T extends TSchema>(schema: T) => wrap(schema);

/** The shape of a query string: flat, defaults filled in, text turned into numbers and booleans. */
export function query<T extends TSchema>(schema: T) {
  const properties = Object.entries((schema as { properties?: Record<string, Property> }).properties ?? {});
  return wrap(schema, (value) => {
    const given = { ...(value as Record<string, unknown>) };
    for (const [name, property] of properties) {
      if (given[name] === undefined && property.default !== undefined) given[name] = property.default;
      else if (typeof given[name] === "string") given[name] = fromText(given[name], property.type);
      if (given[name] === undefined) delete given[name];
    }
    return given;
  });
}

type Property = { type?: string; default?: unknown };

// Plain decimal only: "0x10" and "1e2" are typing errors, not sixteen and a hundred.
function fromText(text: string, type: string | undefined): unknown {
  if (type === "integer" || type === "number") return /^-?\d{1,15}(\.\d+)?$/.test(text) ? Number(text) : text;
  if (type === "boolean") return text === "true" ? true : text === "false" ? false : text;
  return text;
}

type SchemaError = { keyword: string; instancePath: string; params: Record<string, unknown>; message: string };

const dotted = (pointer: string) =>
  pointer
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .join(".");

function toFaults(error: SchemaError, root: unknown): Fault[] {
  const at = dotted(error.instancePath);
  const inside = (name: string) => (at ? `${at}.${name}` : name);
  const params = error.params;
  switch (error.keyword) {
    case "required":
      return (params["requiredProperties"] as string[]).map((name) => ({
        field: inside(name),
        expected: "a value",
        received: "nothing",
      }));
    case "additionalProperties":
      return []; // each such property is named by an error of its own
    case "boolean":
      return [{ field: at, expected: "no such property", received: describe(valueAt(root, error.instancePath)) }];
    default:
      return [{ field: at, expected: expectation(error), received: describe(valueAt(root, error.instancePath)) }];
  }
}

function expectation({ keyword, params, message }: SchemaError): string {
  const limit = String(params["limit"]);
  switch (keyword) {
    case "minLength":
      return `at least ${limit} characters`;
    case "maxLength":
      return `at most ${limit} characters`;
    case "minItems":
      return `at least ${limit} items`;
    case "maxItems":
      return `at most ${limit} items`;
    case "minimum":
      return `${limit} or more`;
    case "maximum":
      return `${limit} or less`;
    case "type":
      return String(params["type"]);
    case "enum":
      return `one of ${(params["allowedValues"] as unknown[]).join(", ")}`;
    case "const":
      return JSON.stringify(params["allowedValue"]);
    case "format":
      return String(params["format"]);
    default:
      return message.replace(/^must (be )?/, "");
  }
}

function valueAt(root: unknown, pointer: string): unknown {
  let at = root;
  for (const part of pointer.split("/").slice(1)) {
    if (typeof at !== "object" || at === null) return undefined;
    at = (at as Record<string, unknown>)[part.replaceAll("~1", "/").replaceAll("~0", "~")];
  }
  return at;
}
