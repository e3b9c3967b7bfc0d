import { describe, invalidField } from "./errors.ts";
import { readMoment } from "./moment.ts";

/**
 * An `expires_at` as clients write it, in epoch milliseconds; null for "never".
 * Throws `invalid_input` unless it is an ISO 8601 time after `now`.
 */
export function parseExpiry(text: string | null | undefined, now: number): number | null {
  if (text === null || text === undefined) return null;
  const at = readMoment(text);
  if (at !== undefined && at > now) return at;
  const received = at === undefined ? describe(text) : "a time that has passed";
  throw invalidField("expires_at", "an ISO 8601 time in the future", received);
}
