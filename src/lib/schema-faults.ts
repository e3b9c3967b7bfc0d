import { Settings } from "typebox/system";
import { describe, type Fault } from "./errors.ts";

const MOST_FAULTS = 20;
// The validator stops at 8 by itself, and may spend several on one field.
Settings.Set({ maxErrors: 5 * MOST_FAULTS });

/**
 * What the validator complains of, as faults: the first of each field, at most 20. Of a value that may have one
 * of several types either all of them are told, or, where it has one of them, what is wrong inside it.
 */
export function toFaults(errors: Iterable<unknown>, root: unknown): Fault[] {
  const seen = new Map<string, Fault>();
  const types = new Map<string, Set<string>>();
  for (const error of errors as Iterable<SchemaError>) {
    for (const fault of faultsOf(error, root)) {
      const { field } = fault;
      if (isAlternative(error)) types.set(field, (types.get(field) ?? new Set()).add(fault.expected));
      if (!seen.has(field)) seen.set(field, fault);
    }
    if (seen.size >= MOST_FAULTS) break;
  }
  const faults = [...seen.values()].map((fault) => {
    const named = [...(types.get(fault.field) ?? [])];
    return named.includes(fault.expected) ? { ...fault, expected: named.join(" or ") } : fault;
  });
  return faults.filter(
    ({ field }) => !types.has(field) || !faults.some((other) => other.field.startsWith(`${field}.`)),
  );
}

const isAlternative = ({ keyword, schemaPath }: SchemaError): boolean =>
  keyword === "type" && /\/(anyOf|oneOf)\/\d+$/.test(schemaPath);

type SchemaError = {
  keyword: string;
  schemaPath: string;
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
    case "propertyNames":
      return []; // each such property is named by an error of its own
    case "boolean":
      return [
        { field: at, expected: "no such property", received: describe(valueAt(root, error.instancePath)) },
      ];
    default: {
      const received = isOfName(error)
        ? at.slice(at.lastIndexOf(".") + 1)
        : describe(valueAt(root, error.instancePath));
      return [{ field: at, expected: expectation(error), received }];
    }
  }
}

const MOST_NAMED = 20;

/** It is the property's name that does not fit, and not its value. */
const isOfName = ({ schemaPath }: SchemaError): boolean => schemaPath.endsWith("/propertyNames");

function expectation(error: SchemaError): string {
  const { keyword, params, message } = error;
  const limit = Number(params["limit"]);
  const some = (one: string, many = `${one}s`) => `${limit} ${limit === 1 ? one : many}`;
  switch (keyword) {
    case "minLength":
      return `at least ${some("character")}`;
    case "maxLength":
      return `at most ${some("character")}`;
    case "minItems":
      return `at least ${some("item")}`;
    case "maxItems":
      return `at most ${some("item")}`;
    case "minProperties":
      return `at least ${some("property", "properties")}`;
    case "maxProperties":
      return `at most ${some("property", "properties")}`;
    case "uniqueItems":
    case "~refine": // ours, where the items are compared as they should be
      return "each item once";
    case "contains":
      return "an item of the kind that it must contain";
    case "minimum":
      return `${limit} or more`;
    case "maximum":
      return `${limit} or less`;
    case "exclusiveMinimum":
      return `more than ${limit}`;
    case "exclusiveMaximum":
      return `less than ${limit}`;
    case "multipleOf":
      return `a multiple of ${params["multipleOf"]}`;
    case "type":
      return [params["type"]].flat().join(" or ");
    case "enum": {
      const values = params["allowedValues"] as unknown[];
      const named = values.slice(0, MOST_NAMED).map(wordOf).join(", ");
      return `one of ${named}${values.length > MOST_NAMED ? ` and ${values.length - MOST_NAMED} more` : ""}`;
    }
    case "const":
      return JSON.stringify(params["allowedValue"]);
    case "format":
      return String(params["format"]);
    case "pattern": {
      // An expression of ours is named by itself, one of the language as it stands between its slashes.
      const pattern = String(params["pattern"]).replace(/^\/(.*)\/u?$/s, "$1");
      return `${isOfName(error) ? "a name" : "text"} that matches ${pattern}`;
    }
    case "dependencies":
      return `${(params["dependencies"] as string[]).join(", ")} beside ${params["property"]}`;
    case "anyOf":
      return "one of the forms that it may have";
    case "oneOf":
      return "exactly one of the forms that it may have";
    case "not":
      return "anything but this";
    case "if":
      return `what the schema asks for under ${JSON.stringify(params["failingKeyword"])}`;
    default:
      return message.replace(/^must (be )?/, "");
  }
}

const wordOf = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

function valueAt(root: unknown, pointer: string): unknown {
  let at = root;
  for (const part of pointer.split("/").slice(1)) {
    if (typeof at !== "object" || at === null) return undefined;
    at = (at as Record<string, unknown>)[part.replaceAll("~1", "/").replaceAll("~0", "~")];
  }
  return at;
}
