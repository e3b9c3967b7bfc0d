import { expect, test } from "bun:test";
import { shimMissing } from "../../scripts/faults/lib/disk-shim.ts";
import { faultCalls, isClean } from "../../scripts/faults/syscalls.ts";

// The short form of `scripts/faults/syscalls`.
const missing = shimMissing();

test.skipIf(missing !== undefined)(
  `a kill or a refusal at a write of an accepted webhook loses nothing${missing ? ` (skipped: ${missing})` : ""}`,
  async () => {
    const report = await faultCalls({ every: 23, flow: "webhook" });
    expect(report.flows.map(({ fault }) => fault)).toEqual(["killed", "EIO", "ENOSPC"]);
    for (const tried of report.flows) {
      expect(tried.points).toBeGreaterThan(0);
      expect(tried).toMatchObject({ lost: 0, unfinished: 0, doubled: 0, corrupt: 0, odd: [] });
    }
    expect(isClean(report)).toBe(true);
  },
  60_000,
);
