import { expect, test } from "bun:test";
import { fillDisk, isClean } from "../../scripts/faults/full-disk.ts";
import { shimMissing } from "../../scripts/faults/lib/disk-shim.ts";

// The short form of `scripts/faults/full-disk --times 50`.
test.skipIf(shimMissing() !== undefined)(
  "a full disk is told of at once, loses nothing, and is got over without a restart",
  async () => {
    const report = await fillDisk({ times: 2 });
    expect(report).toMatchObject({ lost: 0, unfinished: 0, faults: [] });
    expect(isClean(report)).toBe(true);
  },
  120_000,
);
