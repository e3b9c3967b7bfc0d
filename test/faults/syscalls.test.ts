import { expect, test } from "bun:test";
import { faultCalls, isClean, straceMissing } from "../../scripts/faults/syscalls.ts";

// The short form of `scripts/faults/syscalls`.
const missing = straceMissing();

test.skipIf(missing !== undefined)(
  `a kill or a refusal at a write of an accepted webhook loses nothing${missing ? ` (skipped: ${missing})` : ""}`,
  async () => {
    const reports = await faultCalls({ every: 23, flow: "webhook" });
    expect(reports.map(({ fault }) => fault)).toEqual(["killed", "EIO", "ENOSPC"]);
    for (const report of reports) {
      expect(report.points).toBeGreaterThan(0);
      expect(report).toMatchObject({ lost: 0, unfinished: 0, doubled: 0, corrupt: 0, odd: [] });
      expect(isClean(report)).toBe(true);
    }
  },
  60_000,
);
