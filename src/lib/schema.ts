import type { Static, TSchema } from "typebox";
import { Compile, type Validator } from "typebox/compile";
import type { Fault } from "./errors.ts";
import { isObject } from "./json.ts";
import { toFaults } from "./schema-faults.ts";

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
    validate(
      value: unknown,
    ): { value: Static<T> } | { issues: (Fault & { message: string; path: string[] })[] };
  };
};

function wrap<T extends TSchema>(schema: T, prepare?: (value: unknown) => unknown): Schema<T> {
  let compiled: Validator | undefined;
  const faults = (value: unknown): Fault[] => {
    compiled ??= Compile(schema) as unknown as Validator;
    if (compiled.Check(value)) return [];
    return toFaults(compiled.Errors(value), value);
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

/** The same for a change of a record: null puts a field back to its default, where it has one. */
export const changes = <T extends TSchema>(schema: T, defaults: Record<string, unknown>) =>
  wrap(schema, (value) =>
    isObject(value)
      ? Object.fromEntries(
          Object.entries(value).map(([field, given]) => [
            field,
            given === null && Object.hasOwn(defaults, field) ? structuredClone(defaults[field]) : given,
          ]),
        )
      : value,
  );

/**
 * A body that its service checks: the route describes it and lets it through, so that what the schema finds
 * and what only the service can tell are answered together.
 */
export const checkedLater = <T extends TSchema>(schema: Schema<T>): Schema<T> => ({
  ...schema,
  "~standard": {
    version: 1,
    vendor: "typebox",
    validate: (value) => ({ value: value as Static<T> }),
  },
});

/**
 * The shape of an answer: for the description of the interface and for the compiler. Nothing is looked through
 * when it is sent, so a fault of a schema can turn no good answer into an error; the end-to-end tests hold
 * every answer to it.
 */
export const answers = <T extends TSchema>(schema: T): Schema<T> => checkedLater(json(schema));

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
