import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { attemptsMax, baseDelay, parseRetryAfter, retryDelay } from "../../src/webhooks/retry-schedule.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const policy = fc.option(
  fc.record(
    {
      max_retries: fc.integer({ min: 0, max: 6 }),
      backoff_multiplier: fc.double({ min: 1, max: 10, noNaN: true }),
    },
    { requiredKeys: [] },
  ),
);
const attempts = fc.integer({ min: 1, max: 7 });

describe("the retry schedule", () => {
  test("waits 1 min, 5 min, 15 min, 1 h, 6 h, 24 h", () => {
    const waits = [1, 2, 3, 4, 5, 6].map((attempts) => baseDelay(attempts, null));
    expect(waits).toEqual([MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR, 24 * HOUR]);
  });

  test("six attempts in all unless the policy says otherwise", () => {
    expect(attemptsMax(null)).toBe(6);
    expect(attemptsMax({})).toBe(6);
    expect(attemptsMax({ max_retries: 0 })).toBe(1);
    expect(attemptsMax({ max_retries: 6 })).toBe(7);
  });

  test("a multiplier replaces the table, doubling from a minute and never past a day", () => {
    const waits = [1, 2, 3, 4].map((attempts) => baseDelay(attempts, { backoff_multiplier: 2 }));
    expect(waits).toEqual([MINUTE, 2 * MINUTE, 4 * MINUTE, 8 * MINUTE]);
    expect(baseDelay(6, { backoff_multiplier: 10 })).toBe(24 * HOUR);
  });

  test("jitter only adds, at most a tenth and at most 15 minutes", () => {
    fc.assert(
      fc.property(attempts, policy, random, (attempts, policy, r) => {
        const base = baseDelay(attempts, policy);
        const wait = retryDelay({ attempts, policy, random: () => r });
        expect(wait).toBeGreaterThanOrEqual(Math.floor(base));
        expect(wait).toBeLessThanOrEqual(Math.ceil(base + Math.min(base * 0.1, 15 * MINUTE)));
      }),
    );
  });

  test("Retry-After only lengthens, to a day at most", () => {
    fc.assert(
      fc.property(attempts, policy, random, fc.nat(10 * 24 * HOUR), (attempts, policy, r, retryAfterMs) => {
        const without = retryDelay({ attempts, policy, random: () => r });
        const wait = retryDelay({ attempts, policy, random: () => r, retryAfterMs });
        expect(wait).toBe(Math.max(without, Math.min(retryAfterMs, 24 * HOUR)));
      }),
    );
  });
});

describe("Retry-After", () => {
  const now = Date.UTC(2026, 0, 1);

  test("is read as seconds or as a date", () => {
    expect(parseRetryAfter("120", now)).toBe(120_000);
    expect(parseRetryAfter("Thu, 01 Jan 2026 00:05:00 GMT", now)).toBe(5 * MINUTE);
  });

  test("a date that is past, or nonsense, says nothing", () => {
    for (const value of [undefined, "", "-1", "1.5", "soon", "2026-01-02", "Wed, 31 Dec 2025 00:00:00 GMT"]) {
      expect(parseRetryAfter(value, now)).toBeUndefined();
    }
  });

  test("no text makes it throw or answer less than nothing", () => {
    fc.assert(
      fc.property(fc.string(), (text) => expect(parseRetryAfter(text, now) ?? 0).toBeGreaterThanOrEqual(0)),
    );
  });
});
