import { expect, test } from "bun:test";
import { isClean, runAbuses } from "../../scripts/faults/evil-model.ts";

// The short form of `scripts/faults/evil-model`.
test.skipIf(process.platform !== "linux")(
  "a model that abuses its tools, its stream and its words brings nothing about and stops nobody",
  async () => {
    const report = await runAbuses({ every: 3 });
    expect(report).toMatchObject({ successes: [], odd: [] });
    expect(report.abuses).toBeGreaterThan(50);
    expect(report.ran).toBeGreaterThan(5);
    expect(isClean(report)).toBe(true);
  },
  120_000,
);
