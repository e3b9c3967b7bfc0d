import type { Fault } from "../lib/errors.ts";
import { isObject, type Json, type JsonObject } from "../lib/json.ts";
import { isTemplate, renderDeep } from "../lib/template.ts";
import { conditionFaults, evaluate } from "../webhooks/conditions.ts";
import { NodeError } from "./node.ts";

/** A rendered value as a yes or no: nothing, false, zero, the empty string and the word "false" mean no. */
export const isTruthy = (value: Json | undefined): boolean =>
  value !== undefined &&
  value !== null &&
  value !== false &&
  value !== 0 &&
  value !== "" &&
  value !== "false";

/**
 * Whether a condition holds: a text is rendered and taken as yes or no, an object holds operators by the
 * dotted path of what they look at, as the conditions of subscriptions do. Operands may be templates.
 */
export function holds(when: Json, scope: Record<string, Json>): boolean {
  const rendered = renderDeep(when, scope);
  if (!isObject(rendered)) return isTruthy(rendered);
  const fault = conditionFaults(rendered, "")[0];
  if (fault) {
    const where = fault.field.replace(/^\./, "");
    throw new NodeError(
      "INVALID_CONFIG",
      `condition ${where}: expected ${fault.expected}, received ${fault.received}`,
    );
  }
  return evaluate(rendered as JsonObject, scope).holds;
}

/** The dotted paths that a condition of operators looks at. */
export function whenPaths(when: unknown): string[] {
  if (!isObject(when)) return [];
  return Object.entries(when).flatMap(([field, expected]) =>
    field === "any" || field === "$or"
      ? Array.isArray(expected)
        ? expected.flatMap(whenPaths)
        : []
      : [field],
  );
}

/** Mistakes of a condition that can be seen before anything is rendered. */
export const whenFaults = (when: unknown, at: string): Fault[] =>
  isObject(when) ? conditionFaults(stoodIn(when), at) : [];

// What a template will become is not known yet: it is passed over with something that every such place takes.
function stoodIn(value: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => {
      if (Array.isArray(item)) return [key, item.map((each) => (isObject(each) ? stoodIn(each) : each))];
      if (isObject(item)) return [key, stoodIn(item)];
      if (typeof item !== "string" || !mayBeTemplate(item)) return [key, item];
      return [key, /^\$?n?in$/.test(key) ? [] : /^\$?exists?$/.test(key) ? true : item.slice(0, 100)];
    }),
  );
}

function mayBeTemplate(text: string): boolean {
  try {
    return isTemplate(text);
  } catch {
    return true; // told as a template fault
  }
}
