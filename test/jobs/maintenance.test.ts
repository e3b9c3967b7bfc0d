import { expect, test } from "bun:test";
import { startChores } from "../../src/jobs/maintenance.ts";
import { scaledClock } from "../../src/lib/clock.ts";
import { TestClock } from "../helpers/clock.ts";

const HOUR = 3_600_000;

test("a chore runs at each of its times and at no other", async () => {
  const clock = new TestClock(Date.UTC(2026, 0, 1, 0, 5));
  const times: string[] = [];
  const stop = startChores(
    [
      {
        name: "hourly",
        pattern: "17 * * * *",
        run: async () => void times.push(new Date(clock.now()).toISOString()),
      },
    ],
    clock,
    () => {},
  );
  await clock.advance(3 * HOUR);
  stop();
  await clock.advance(3 * HOUR);
  expect(times).toEqual(["2026-01-01T00:17:00.000Z", "2026-01-01T01:17:00.000Z", "2026-01-01T02:17:00.000Z"]);
});

test("a chore that fails is reported and runs again the next time", async () => {
  const clock = new TestClock();
  const failures: string[] = [];
  let runs = 0;
  const run = async () => {
    runs++;
    throw new Error("no");
  };
  const stop = startChores([{ name: "bad", pattern: "0 * * * *", run }], clock, (name) =>
    failures.push(name),
  );
  await clock.advance(2 * HOUR + 1);
  stop();
  expect([runs, failures]).toEqual([2, ["bad", "bad"]]);
});

test("where time runs fast a chore runs at its own times, and at most once a second of the wall's", async () => {
  const real = new TestClock(Date.UTC(2026, 0, 1));
  for (const [scale, pattern, most] of [
    [60, "0 * * * *", 2],
    [3_600, "* * * * *", 60],
  ] as const) {
    const clock = scaledClock(scale, real);
    let runs = 0;
    const run = async () => void runs++;
    const stop = startChores([{ name: "often", pattern, run }], clock, () => {});
    await real.advance(scale === 60 ? 121_000 : 60_000);
    stop();
    expect(runs).toBeGreaterThan(most * 0.9 - 1);
    expect(runs).toBeLessThanOrEqual(most);
  }
});
