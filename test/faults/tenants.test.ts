import { expect, test } from "bun:test";
import { isClean, probeTenants } from "../../scripts/faults/tenants.ts";

// The short form of `scripts/faults/tenants --probes 10000`.
test("six hundred reaches for what belongs to others show nothing, change nothing and tell nothing apart", async () => {
  const report = await probeTenants({ probes: 600, seed: 7 });
  expect(report).toMatchObject({ leaks: [], changes: [], odd: [], uneven: [] });
  expect(report.probes).toBeGreaterThanOrEqual(600);
  // Owners do see what is theirs, so that the refusals mean something.
  expect(report.controls).toBeGreaterThan(10);
  expect(isClean(report)).toBe(true);
}, 60_000);
