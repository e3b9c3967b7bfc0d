import { MOST_HOPS } from "../events/kinds.ts";
import { contextOf } from "../http/context.ts";
import { conflict, invalidField } from "../lib/errors.ts";
import { sha256Hex } from "../lib/secrets.ts";
import { CLAIM_MS, type IdempotencyClaim } from "./store.ts";

export type { IdempotencyClaim } from "./store.ts";

const LONGEST_KEY = 255;

/** What a request that starts work says besides its body. */
export type StartContext = { hop: number; idempotency?: IdempotencyClaim };

/**
 * The idempotency claim of a request, from the first of `names` that it carries; undefined without one,
 * and then nothing is hashed. Throws `invalid_input` on a key that is not 1 to 255 characters.
 */
export function claimOf(
  headers: Headers,
  names: readonly string[],
  request: { scope: string; raw: string; now: number },
): IdempotencyClaim | undefined {
  for (const name of names) {
    const key = headers.get(name);
    if (key === null) continue;
    if (key === "" || key.length > LONGEST_KEY) {
      throw invalidField(name, `1 to ${LONGEST_KEY} characters`, `${key.length} characters`);
    }
    return {
      scope: request.scope,
      key,
      request_hash: sha256Hex(request.raw),
      expires_at: request.now + CLAIM_MS,
    };
  }
  return undefined;
}

/**
 * How many times what led to this request has left and come back already: header `x-service-hop`, 0 without.
 * Throws `conflict` past 8: a subscription feeds the very work that it tells of.
 */
export function hopOf(headers: Headers): number {
  const given = headers.get("x-service-hop");
  if (given === null) return 0;
  if (!/^\d{1,9}$/.test(given)) throw invalidField("x-service-hop", "a whole number", "another form");
  const hop = Number(given);
  if (hop > MOST_HOPS)
    throw conflict(`This request has come round ${hop} times; more than ${MOST_HOPS} is a loop.`);
  return hop;
}

const API_NAMES = ["idempotency-key"];

/** For routes where a key's holder starts work on a target: `Idempotency-Key` and hop (design 3). */
export function startContext(request: Request, target_id: string): StartContext {
  const { raw, clock } = contextOf(request);
  const hop = hopOf(request.headers);
  return {
    hop,
    idempotency: claimOf(request.headers, API_NAMES, { scope: `api/${target_id}`, raw, now: clock.now() }),
  };
}
