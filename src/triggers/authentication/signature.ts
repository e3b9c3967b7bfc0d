import { createHmac } from "node:crypto";
import { sameSecret } from "../../lib/secrets.ts";

export type Algorithm = "sha1" | "sha256" | "sha512";
export type Encoding = "hex" | "base64";

export type Mac = {
  algorithm: Algorithm;
  encoding: Encoding;
  /** What the MAC is made over, in order. */
  parts: (string | Uint8Array)[];
};

function mac(key: string | Uint8Array, { algorithm, encoding, parts }: Mac): string {
  const made = createHmac(algorithm, key);
  for (const part of parts) made.update(part);
  return made.digest(encoding);
}

/** True when one of `given` is the MAC by one of `keys`. Every pair is compared, each in constant time. */
export function isSigned(given: string[], keys: (string | Uint8Array)[], over: Mac): boolean {
  let found = false;
  for (const key of keys) {
    const expected = mac(key, over);
    for (const one of given) {
      // Hex is read in either case.
      if (sameSecret(over.encoding === "hex" ? one.toLowerCase() : one, expected)) found = true;
    }
  }
  return found;
}

/** Most signatures of one request that are looked at. */
export const MOST_SIGNATURES = 10;

export const USUAL_TOLERANCE_SECONDS = 300;

const SECONDS = /^\d{1,11}$/;

/** Why a time of signing in epoch seconds does not count; undefined: it does. */
export function staleness(
  timestamp: string | null | undefined,
  now: number,
  tolerance_seconds: number,
): string | undefined {
  if (timestamp === null || timestamp === undefined) return "the time of signing is missing";
  if (!SECONDS.test(timestamp)) return "the time of signing is not in epoch seconds";
  const age = now / 1_000 - Number(timestamp);
  if (Math.abs(age) <= tolerance_seconds) return undefined;
  const seconds = Math.round(Math.abs(age));
  return age > 0 ? `it was signed ${seconds} s ago` : `it was signed ${seconds} s ahead of this clock`;
}

export const MISSING = "the signature is missing";
export const WRONG = "the signature does not fit";
