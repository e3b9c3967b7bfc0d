import { expect, test } from "bun:test";
import fc from "fast-check";
import { iso, realTime, scaledClock } from "../../src/lib/clock.ts";
import { TestClock } from "../helpers/clock.ts";

test("a scaled clock passes a day in 24 minutes, and its timers are never early", async () => {
  const real = new TestClock();
  const clock = scaledClock(60, real);
  const start = clock.now();
  expect(start).toBe(real.now());
  const day = 86_400_000;
  let due = 0;
  clock.after(day, () => {
    due = clock.now();
  });
  await real.advance(24 * 60_000 - 1);
  expect(due).toBe(0);
  await real.advance(1);
  expect(due).toBe(start + day);
  expect([realTime(clock), realTime(real)]).toEqual([real, real]);
});

test("a scaled clock is made again elsewhere from its pace", async () => {
  const real = new TestClock();
  const clock = scaledClock(60, real);
  await real.advance(5_000);
  const { scale, from } = clock.pace!;
  expect(scaledClock(scale, real, from).now()).toBe(clock.now());
  expect(clock.now()).toBe(from + 300_000);
});

test("whoever is woken finds the time come, at any scale", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 3_600 }),
      fc.integer({ min: 0, max: 1e7 }),
      async (scale, ms) => {
        const real = new TestClock();
        const clock = scaledClock(scale, real);
        const at = clock.now() + ms;
        let woken = -1;
        clock.after(ms, () => {
          woken = clock.now();
        });
        await real.advance(Math.ceil(ms / scale));
        expect(woken).toBeGreaterThanOrEqual(at);
      },
    ),
    { numRuns: 50 },
  );
});

test("a time is written as the language writes it, whatever was written before", () => {
  const time = fc.oneof(
    fc.integer({ min: 1_700_000_000_000, max: 1_700_000_003_000 }),
    fc.double({ min: -8.64e15, max: 8.64e15, noNaN: true }),
  );
  fc.assert(
    fc.property(fc.array(time), (times) => {
      for (const ms of times) expect(iso(ms)).toBe(new Date(ms).toISOString());
    }),
  );
  expect(() => iso(Number.NaN)).toThrow(RangeError);
});
