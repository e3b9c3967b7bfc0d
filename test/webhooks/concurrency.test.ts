import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { createConcurrency, type Limits } from "../../src/webhooks/concurrency.ts";
import { TestClock } from "../helpers/clock.ts";

const setup = () => {
  const clock = new TestClock();
  const looks: number[] = [];
  return { clock, looks, concurrency: createConcurrency({ clock, look: () => looks.push(clock.now()) }) };
};
const none: Limits = { concurrency: null, rate_limit_per_second: null };
const times = (count: number, act: () => void) => {
  for (let n = 0; n < count; n++) act();
};

describe("what a receiver is trusted with", () => {
  test("begins with 8 attempts at a time and grows to 64", () => {
    const { concurrency } = setup();
    expect(concurrency.of("a")).toBe(8);
    times(10, () => concurrency.learn("a", "good"));
    expect(concurrency.of("a")).toBe(18);
    times(100, () => concurrency.learn("a", "good"));
    expect(concurrency.of("a")).toBe(64);
  });

  test("is taken back by the first failure, of that receiver alone", () => {
    const { concurrency } = setup();
    for (const id of ["a", "b"]) times(100, () => concurrency.learn(id, "good"));
    concurrency.learn("a", "bad");
    expect([concurrency.of("a"), concurrency.of("b")]).toEqual([8, 64]);
    expect([concurrency.isProven("a"), concurrency.isProven("b")]).toEqual([false, true]);
  });

  test("is one attempt after an answer that never came, until it answers again", () => {
    const { concurrency } = setup();
    concurrency.learn("a", "late");
    concurrency.learn("a", "bad");
    expect(concurrency.of("a")).toBe(1);
    times(8, () => concurrency.learn("a", "good"));
    expect([concurrency.of("a"), concurrency.isProven("a")]).toEqual([9, true]);
  });
});

describe("a webhook's own limits", () => {
  test("of attempts at a time stand above trust", () => {
    const { concurrency } = setup();
    const limits = { ...none, concurrency: 2 };
    const first = concurrency.enter("a", limits);
    const second = concurrency.enter("a", limits);
    expect(concurrency.of("a")).toBe(2);
    expect([first, second, concurrency.enter("a", limits)]).toEqual([
      { leave: expect.any(Function) },
      { leave: expect.any(Function) },
      { wait_ms: 250 },
    ]);
    if ("leave" in first) first.leave();
    expect(concurrency.enter("a", limits)).toHaveProperty("leave");
    concurrency.enter("a", none);
    expect(concurrency.of("a")).toBe(8);
  });

  test("of attempts a second: who asks for more is told when, and the runner looks again then", async () => {
    const { concurrency, clock, looks } = setup();
    const limits = { ...none, rate_limit_per_second: 2 };
    const start = clock.now();
    concurrency.enter("a", limits);
    await clock.advance(400);
    concurrency.enter("a", limits);
    expect(concurrency.of("a")).toBe(2); // those under way, and none more
    expect(concurrency.enter("a", limits)).toEqual({ wait_ms: 600 });
    await clock.advance(600);
    expect(looks).toEqual([start + 1_000]);
    expect(concurrency.of("a")).toBe(3);
  });

  test("never let more begin than they say, in any second and at any time", () => {
    const step = fc.record({ wait: fc.integer({ min: 0, max: 700 }), leave: fc.boolean() });
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 5 }),
        fc.integer({ min: 1, max: 4 }),
        fc.array(step, { maxLength: 60 }),
        (rate, most, steps) => {
          let now = 0;
          const clock = { now: () => now, after: () => () => {} };
          const concurrency = createConcurrency({ clock, look() {} });
          const begun: number[] = [];
          const underWay: (() => void)[] = [];
          for (const { wait, leave } of steps) {
            now += wait;
            if (leave) underWay.shift()?.();
            const entry = concurrency.enter("a", { concurrency: most, rate_limit_per_second: rate });
            if ("wait_ms" in entry) expect(entry.wait_ms).toBeGreaterThan(0);
            else {
              begun.push(now);
              underWay.push(entry.leave);
            }
            expect(underWay.length).toBeLessThanOrEqual(most);
            expect(begun.filter((at) => at > now - 1_000).length).toBeLessThanOrEqual(rate);
          }
        },
      ),
    );
  });
});
