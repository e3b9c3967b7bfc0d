import { LRUCache } from "lru-cache";
import type { Clock } from "../lib/clock.ts";
import { limiterKey } from "./client-address.ts";

export type Verdict = {
  allowed: boolean;
  /** Requests left in the window. */
  remaining: number;
  /** Seconds until the window ends, at least 1. */
  reset: number;
};

export type Limiter = {
  name: string;
  quota: number;
  /** Counts one request of the address. */
  take(address: string): Verdict;
};

const WINDOW_MS = 60_000;
const WINDOW_SECONDS = 60;
const COUNTED = 16_384;
const REFUSED = 3_616;

type Window = { start: number; count: number };

/**
 * Counts requests per client in windows of 60 s that begin with a client's first request, so at most
 * `quota` pass in each. Holds at most 20,000 clients. A client that used up its quota moves to a table of
 * its own: a flood of fresh addresses cannot push it out and so give it a new quota; to do that would
 * take thousands of addresses that each use up theirs within the same minute.
 */
export function createLimiter({
  name,
  quota,
  clock,
}: {
  name: string;
  quota: number;
  clock: Clock;
}): Limiter {
  // Their memory is taken with the first client.
  let tables: { counted: LRUCache<string, Window>; refused: LRUCache<string, Window> } | undefined;

  function verdict(window: Window, now: number, allowed: boolean): Verdict {
    const reset = Math.max(1, Math.ceil((window.start + WINDOW_MS - now) / 1_000));
    return { allowed, remaining: Math.max(0, quota - window.count), reset };
  }

  // A clock set back must not lock a client out for longer than a window.
  const live = (window: Window | undefined, now: number): window is Window =>
    window !== undefined && now >= window.start && now - window.start < WINDOW_MS;

  return {
    name,
    quota,
    take(address) {
      tables ??= { counted: new LRUCache({ max: COUNTED }), refused: new LRUCache({ max: REFUSED }) };
      const { counted, refused } = tables;
      const key = limiterKey(address);
      const now = clock.now();
      const spent = refused.get(key);
      if (spent) {
        if (live(spent, now)) return verdict(spent, now, false);
        refused.delete(key);
      }
      let window = counted.get(key);
      if (!live(window, now)) {
        window = { start: now, count: 0 };
        counted.set(key, window);
      }
      window.count++;
      if (window.count < quota) return verdict(window, now, true);
      counted.delete(key);
      refused.set(key, window);
      return verdict(window, now, window.count === quota);
    },
  };
}

/** `RateLimit` and `RateLimit-Policy` as draft-ietf-httpapi-ratelimit-headers has them; several join. */
export function limitHeaders(results: { limiter: Limiter; verdict: Verdict }[]): Record<string, string> {
  if (results.length === 0) return {};
  const headers: Record<string, string> = {
    "ratelimit-policy": results
      .map(({ limiter }) => `"${limiter.name}";q=${limiter.quota};w=${WINDOW_SECONDS}`)
      .join(", "),
    ratelimit: results
      .map(({ limiter, verdict }) => `"${limiter.name}";r=${verdict.remaining};t=${verdict.reset}`)
      .join(", "),
  };
  const refused = results.filter(({ verdict }) => !verdict.allowed);
  if (refused.length > 0)
    headers["retry-after"] = String(Math.max(...refused.map(({ verdict }) => verdict.reset)));
  return headers;
}

/** No limiter where nothing is limited: a quota of 0. */
export const limiterOf = (name: string, quota: number, clock: Clock): Limiter | undefined =>
  quota > 0 ? createLimiter({ name, quota, clock }) : undefined;
