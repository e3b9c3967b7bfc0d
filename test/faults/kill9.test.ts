import { expect, test } from "bun:test";
import { isClean, killRounds } from "../../scripts/faults/kill9.ts";
import { isClean as isCleanMixed, mixedRounds } from "../../scripts/faults/lib/mixed.ts";

// The short form of `scripts/faults/kill9 --rounds 1000`.
test("twenty kills under load lose and double nothing, and each restart answers within a second", async () => {
  const report = await killRounds({ rounds: 20, seed: 1 });
  expect(report).toMatchObject({ lost: 0, unfinished: 0, doubled: 0, undelivered: 0, integrity: "ok" });
  expect(isClean(report)).toBe(true);
  expect(report.acknowledged).toBeGreaterThan(20);
  expect(report.restart_ms.p50).toBeLessThan(1_000);
}, 120_000);

test("a dozen kills of the server and of commands beside it, under mixed load and in migrations, lose nothing", async () => {
  const report = await mixedRounds({ rounds: 12, runs: 20, migrations: 2, seed: 3 });
  expect(report).toMatchObject({
    lost: [],
    doubled: 0,
    undelivered: 0,
    integrity: { checks: 2, faults: [] },
  });
  expect(report.migrations).toMatchObject({ migrations: 2, lost: 0, faults: [] });
  expect(report.runs).toBeGreaterThanOrEqual(12 * 20);
  expect(isCleanMixed(report)).toBe(true);
}, 120_000);
