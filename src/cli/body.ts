import { readFileSync } from "node:fs";
import type { Static, TSchema } from "typebox";
import { describe, invalid } from "../lib/errors.ts";
import { isObject } from "../lib/json.ts";
import type { Schema } from "../lib/schema.ts";
import { usageError } from "./exit.ts";

/** A JSON object from a file, or from standard input for `-`. */
export function readBody(from: string): Record<string, unknown> {
  let body: unknown;
  try {
    body = JSON.parse(readFileSync(from === "-" ? 0 : from, "utf8"));
  } catch (error) {
    throw usageError(`--from ${from}: ${(error as Error).message}`);
  }
  if (!isObject(body)) throw usageError(`--from ${from}: expected a JSON object, received ${describe(body)}`);
  return body;
}

/** The same check that the API makes of the same body. */
export function checked<T extends TSchema>(schema: Schema<T>, body: Record<string, unknown>): Static<T> {
  // By way of JSON: what is undefined here is not there, as in a request.
  const result = schema["~standard"].validate(JSON.parse(JSON.stringify(body)));
  if ("issues" in result) throw invalid(result.issues);
  return result.value;
}
