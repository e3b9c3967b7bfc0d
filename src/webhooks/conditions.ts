import { describe, type Fault } from "../lib/errors.ts";
import { isObject, type JsonObject, readPath } from "../lib/json.ts";

/**
 * Interface 6.4: a map from a field of `data` (dotted paths allowed) to an operator object. All fields
 * must hold; `any` is a list of such maps of which one must. A bare value means eq, a bare list in.
 */
export type Conditions = JsonObject;

export type Verdict = { holds: true } | { holds: false; reason: string };

type Scalar = string | number | boolean | null;
type Operator = keyof typeof OPERATORS;
type Test = (observed: unknown, operand: never) => boolean;

const MOST_CONDITIONS = 100;
const MOST_DEPTH = 8;
const MOST_VALUES = 1_000;
const LONGEST_VALUE = 1_000;

const isScalar = (value: unknown): value is Scalar =>
  value === null || typeof value === "string" || typeof value === "number" || typeof value === "boolean";

// A list in the data matches when one of its elements does.
const some =
  (test: (value: unknown, operand: never) => boolean): Test =>
  (observed, operand) =>
    Array.isArray(observed) ? observed.some((each) => test(each, operand)) : test(observed, operand);

const equal = some((value, operand: Scalar) => value === operand);
const oneOf = some((value, operand: Scalar[]) => operand.includes(value as Scalar));

/** Undefined when the two cannot be ordered: numbers go with numbers, text with text, nothing is converted. */
function compare(a: unknown, b: unknown): number | undefined {
  if (typeof a === "number" && typeof b === "number") return a - b;
  // By code point, which UTF-8 keeps and JavaScript's own order does not.
  if (typeof a === "string" && typeof b === "string") return Buffer.compare(Buffer.from(a), Buffer.from(b));
  return undefined;
}
const ordered = (test: (order: number) => boolean) =>
  some((value, operand: unknown) => {
    const order = compare(value, operand);
    return order !== undefined && test(order);
  });
const text = (test: (value: string, operand: string) => boolean) =>
  some(
    (value, operand: unknown) =>
      typeof value === "string" && typeof operand === "string" && test(value, operand),
  );

// What a field that is not there answers: false, but for the operators that ask for an absence.
const OPERATORS = {
  eq: equal,
  ne: (observed: unknown, operand: never) => observed === undefined || !equal(observed, operand),
  lt: ordered((order) => order < 0),
  lte: ordered((order) => order <= 0),
  gt: ordered((order) => order > 0),
  gte: ordered((order) => order >= 0),
  in: oneOf,
  nin: (observed: unknown, operand: never) => observed === undefined || !oneOf(observed, operand),
  exists: (observed: unknown, operand: never) => (observed !== undefined) === operand,
  contains: (observed: unknown, operand: never) =>
    typeof observed === "string"
      ? typeof operand === "string" && observed.includes(operand)
      : Array.isArray(observed) && observed.includes(operand),
  starts_with: text((value, operand) => value.startsWith(operand)),
  ends_with: text((value, operand) => value.endsWith(operand)),
} satisfies Record<string, Test>;

const OPERATOR_NAMES = [...Object.keys(OPERATORS), "not"];

// What users of other systems write.
const ALIASES: Record<string, string> = {
  neq: "ne",
  exist: "exists",
  startsWith: "starts_with",
  endsWith: "ends_with",
};

function operatorOf(name: string): Operator | "not" | undefined {
  const bare = name.startsWith("$") ? name.slice(1) : name;
  const known = Object.hasOwn(ALIASES, bare) ? ALIASES[bare] : bare;
  return OPERATOR_NAMES.find((operator) => operator === known) as Operator | "not" | undefined;
}

const isAny = (field: string): boolean => field === "any" || field === "$or";

/** Whether the data passes; if not, which condition failed and what it saw. `conditions` are valid. */
export function evaluate(conditions: Conditions, data: JsonObject): Verdict {
  for (const [field, expected] of Object.entries(conditions)) {
    if (isAny(field)) {
      const verdicts = (expected as Conditions[]).map((each) => evaluate(each, data));
      if (verdicts.some((verdict) => verdict.holds)) continue;
      const reasons = verdicts.map((verdict) => (verdict.holds ? "" : verdict.reason));
      return { holds: false, reason: `none of any: ${reasons.join("; ")}` };
    }
    const observed = readPath(data, field);
    const failed = firstFailure(expected, observed);
    if (failed) return { holds: false, reason: `${field} ${failed}, observed ${show(observed)}` };
  }
  return { holds: true };
}

/** The first operator that does not hold, in words. */
function firstFailure(expected: unknown, observed: unknown): string | undefined {
  for (const [name, operand] of Object.entries(operatorsOf(expected))) {
    const operator = operatorOf(name);
    if (operator === undefined) return `${name} is no operator`;
    const holds =
      operator === "not"
        ? firstFailure(operand, observed) !== undefined
        : OPERATORS[operator](observed, operand as never);
    if (!holds) return `${operator} ${show(operand)}`;
  }
  return undefined;
}

function operatorsOf(expected: unknown): Record<string, unknown> {
  if (Array.isArray(expected)) return { in: expected };
  return isObject(expected) ? expected : { eq: expected };
}

const LONGEST_SHOWN = 60;

function show(value: unknown): string {
  if (value === undefined) return "nothing";
  const json = JSON.stringify(value);
  return json.length > LONGEST_SHOWN ? `${json.slice(0, LONGEST_SHOWN)}...` : json;
}

/** Every mistake in conditions as a caller sent them; `at` is where they stand in the body. */
export function conditionFaults(conditions: unknown, at = "conditions"): Fault[] {
  const faults: Fault[] = [];
  let count = 0;

  function map(value: unknown, at: string, depth: number): void {
    if (!isObject(value)) {
      faults.push({ field: at, expected: "an object of field names", received: describe(value) });
      return;
    }
    for (const [field, expected] of Object.entries(value)) {
      if (++count > MOST_CONDITIONS) return;
      if (isAny(field)) any(expected, `${at}.${field}`, depth);
      else if (field.split(".").some((key) => key === "")) {
        faults.push({
          field: `${at}.${field}`,
          expected: "a field name or dotted path",
          received: "an empty name",
        });
      } else operators(expected, `${at}.${field}`, depth);
    }
  }

  function any(value: unknown, at: string, depth: number): void {
    if (!Array.isArray(value) || value.length === 0 || depth >= MOST_DEPTH) {
      faults.push({
        field: at,
        expected: `a list of conditions, ${MOST_DEPTH} deep at most`,
        received: describe(value),
      });
    } else for (const [index, each] of value.entries()) map(each, `${at}.${index}`, depth + 1);
  }

  function operators(expected: unknown, at: string, depth: number): void {
    if (!isObject(expected)) {
      operand(Array.isArray(expected) ? "in" : "eq", expected, at);
      return;
    }
    if (Object.keys(expected).length === 0) {
      faults.push({
        field: at,
        expected: `one of ${OPERATOR_NAMES.join(", ")}`,
        received: "an empty object",
      });
    }
    for (const [name, value] of Object.entries(expected)) {
      if (++count > MOST_CONDITIONS) return;
      const operator = operatorOf(name);
      if (!operator) {
        const names = OPERATOR_NAMES.join(", ");
        faults.push({ field: `${at}.${name}`, expected: `one of ${names}`, received: "an unknown operator" });
      } else if (operator !== "not") operand(operator, value, `${at}.${name}`);
      else if (depth >= MOST_DEPTH) {
        faults.push({ field: `${at}.${name}`, expected: `at most ${MOST_DEPTH} levels`, received: "more" });
      } else operators(value, `${at}.${name}`, depth + 1);
    }
  }

  function operand(operator: Operator, value: unknown, at: string): void {
    const expected = operandFault(operator, value);
    if (expected) faults.push({ field: at, expected, received: describe(value) });
  }

  map(conditions, at, 0);
  if (count > MOST_CONDITIONS) {
    faults.push({ field: at, expected: `at most ${MOST_CONDITIONS} conditions`, received: "more" });
  }
  return faults;
}

/** What the operator takes, when the value is not that. */
function operandFault(operator: Operator, value: unknown): string | undefined {
  const short = (each: unknown) => typeof each !== "string" || each.length <= LONGEST_VALUE;
  switch (operator) {
    case "exists":
      return typeof value === "boolean" ? undefined : "true or false";
    case "in":
    case "nin":
      return Array.isArray(value) &&
        value.length <= MOST_VALUES &&
        value.every((v) => isScalar(v) && short(v))
        ? undefined
        : `a list of at most ${MOST_VALUES} texts, numbers, booleans or nulls`;
    case "lt":
    case "lte":
    case "gt":
    case "gte":
      return (typeof value === "number" || typeof value === "string") && short(value)
        ? undefined
        : "a number or a text";
    case "starts_with":
    case "ends_with":
      return typeof value === "string" && short(value)
        ? undefined
        : `a text of at most ${LONGEST_VALUE} characters`;
    default:
      return isScalar(value) && short(value) ? undefined : "a text, number, boolean or null";
  }
}
