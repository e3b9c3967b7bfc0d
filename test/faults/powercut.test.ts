import { describe, expect, test } from "bun:test";
import { shimMissing } from "../../scripts/faults/lib/disk-shim.ts";
import { cutPower } from "../../scripts/faults/powercut.ts";

// The short form of `scripts/faults/powercut --images 100000`.
const missing = shimMissing();

describe.skipIf(missing !== undefined)(`the power is cut${missing ? ` (skipped: ${missing})` : ""}`, () => {
  test("at 150 moments of a run: nothing acknowledged is lost, every file opens and is whole", async () => {
    const report = await cutPower({ images: 150, acknowledged: 200, seed: 1 });
    expect(report).toMatchObject({ images: 150, lost: 0, unreadable: 0, corrupt: 0 });
    expect(report.acknowledged).toBeGreaterThanOrEqual(200);
    expect(report.syncs).toBeGreaterThan(5);
  }, 60_000);

  test("on a disk that does not sync what it says it does, and then the same check finds losses", async () => {
    const report = await cutPower({ images: 60, acknowledged: 100, seed: 1, lyingDisk: true });
    expect(report.lost + report.unreadable + report.corrupt).toBeGreaterThan(0);
  }, 60_000);
});
