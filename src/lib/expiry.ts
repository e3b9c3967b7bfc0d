import { describe, invalidField } from "./errors.ts";

const ISO = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/;

/**
 * An `expires_at` as clients write it, in epoch milliseconds; null for "never".
 * Throws `invalid_input` unless it is an ISO 8601 time after `now`. A date alone means its first moment, UTC.
 */
export function parseExpiry(text: string | null | undefined, now: number): number | null {
  if (text === null || text === undefined) return null;
  const at = ISO.test(text) ? Date.parse(text) : Number.NaN;
  if (at > now) return at;
  const received = Number.isNaN(at) ? describe(text) : "a time that has passed";
  throw invalidField("expires_at", "an ISO 8601 time in the future", received);
}
