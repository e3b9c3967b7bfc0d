import { expect, test } from "bun:test";
import { lookAtDefaults } from "../../scripts/faults/defaults.ts";

test.skipIf(process.platform !== "linux")(
  "without an option it listens on loopback alone, keeps its files to itself and opens nothing to strangers",
  async () => {
    const { faults, checks, listens } = await lookAtDefaults();
    expect(faults).toEqual([]);
    expect(listens).toEqual([expect.stringMatching(/^127\.0\.0\.1:\d+$/)]);
    expect(checks).toBeGreaterThan(500);
  },
  60_000,
);
