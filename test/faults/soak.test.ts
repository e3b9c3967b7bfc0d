import { expect, test } from "bun:test";
import { isClean, soak } from "../../scripts/faults/soak.ts";

// The short form of `scripts/faults/soak --speed 50 --minutes 60`.
test.skipIf(process.platform !== "linux")(
  "an hour in six seconds: runs, waits and retries come to their end, none before its time, and no file stays open",
  async () => {
    const report = await soak({ minutes: 0.1, speed: 600, perSecond: 20, seed: 1 });
    expect(report).toMatchObject({ odd: [], early: 0, unfinished: { runs: 0, deliveries: 0 } });
    expect(report.runs).toBeGreaterThan(5);
    expect(isClean(report)).toBe(true);
  },
  120_000,
);
