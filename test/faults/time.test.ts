import { expect, test } from "bun:test";
import { shimMissing } from "../../scripts/faults/lib/disk-shim.ts";
import { setClock } from "../../scripts/faults/time.ts";

const missing = shimMissing();

test.skipIf(missing !== undefined)(
  `a clock set forward by a day and back by two brings nothing early and misses nothing${missing ? ` (skipped: ${missing})` : ""}`,
  async () => {
    const report = await setClock();
    expect(report.faults).toEqual([]);
    expect(report.jumps).toBe(6);
    expect(report.deliveries).toBe(report.runs);
  },
  120_000,
);
