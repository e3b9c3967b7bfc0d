import { Settings } from "typebox/system";
import { describe, type Fault } from "./errors.ts";

const MOST_FAULTS = 20;
// The validator stops at 8 by itself, and may spend several on one field.
Settings.Set({ maxErrors: 5 * MOST_FAULTS });

/** What the validator complains of, as faults: the first of each field, at most 20. */
export function toFaults(errors: Iterable<unknown>, root: unknown): Fault[] {
  const seen = new Map<string, Fault>();
  for (const error of errors as Iterable<SchemaError>) {
    for (const fault of faultsOf(error, root)) if (!seen.has(fault.field)) seen.set(fault.field, fault);
    if (seen.size >= MOST_FAULTS) break;
  }
  const faults = [...seen.values()];
  // What may be null as well is told by what is wrong inside it.
  return faults.filter(
    ({ field, expected }) =>
      expected !== "null" || !faults.some((other) => other.field.startsWith(`${field}.`)),
  );
}

type SchemaError = {
  keyword: string;
  instancePath: string;
  params: Record<string, unknown>;
  message: string;
};

const dotted = (pointer: string) =>
  pointer
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .join(".");

function faultsOf(error: SchemaError, root: unknown): Fault[] {
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
      return [
        { field: at, expected: "no such property", received: describe(valueAt(root, error.instancePath)) },
      ];
    default:
      return [
        { field: at, expected: expectation(error), received: describe(valueAt(root, error.instancePath)) },
      ];
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
    case "uniqueItems":
      return "each item once";
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
