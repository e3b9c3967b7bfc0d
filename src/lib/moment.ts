import { describe, invalidField } from "./errors.ts";

const ISO = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/;

/** An ISO 8601 time as clients write it, in epoch milliseconds; a date alone means its first moment, UTC. */
export function readMoment(text: string): number | undefined {
  const at = ISO.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? undefined : at;
}

/** The same for a field of a request. Throws `invalid_input`. */
export function parseMoment(field: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const at = readMoment(text);
  if (at === undefined) throw invalidField(field, "an ISO 8601 time", describe(text));
  return at;
}
