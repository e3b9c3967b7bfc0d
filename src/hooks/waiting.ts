import { queryOf } from "../http/context.ts";
import { invalidField } from "../lib/errors.ts";

/** Senders give up on an answer after a minute or so, and a proxy in between before that. */
export const LONGEST_WAIT_SECONDS = 60;

// RFC 7240; what a preference says wrong is no fault.
const PREFERENCE = /(?:^|[,;])\s*wait\s*=\s*"?(\d{1,9})"?\s*(?=$|[,;])/i;

/**
 * How long a sender wants to wait for the result, in seconds: `?wait=`, else `Prefer: wait=`; 0 without
 * either. Throws `invalid_input` on a `wait` that is no whole number up to 60; a preference of more is one of 60.
 */
export function waitOf(url: string, headers: Headers): number {
  if (url.includes("wait=")) {
    const [given, ...more] = new URLSearchParams(queryOf(url)).getAll("wait");
    if (given !== undefined) {
      if (more.length > 0 || !/^\d{1,9}$/.test(given) || Number(given) > LONGEST_WAIT_SECONDS) {
        const received = /^\d{1,9}$/.test(given) ? given : "another form";
        throw invalidField("wait", `whole seconds, at most ${LONGEST_WAIT_SECONDS}`, received);
      }
      return Number(given);
    }
  }
  const preferred = headers.get("prefer");
  const seconds = preferred === null ? undefined : PREFERENCE.exec(preferred)?.[1];
  return seconds === undefined ? 0 : Math.min(Number(seconds), LONGEST_WAIT_SECONDS);
}
