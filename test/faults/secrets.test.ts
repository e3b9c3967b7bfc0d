import { expect, test } from "bun:test";
import { searchSecrets } from "../../scripts/faults/secrets.ts";

// The short form of `scripts/faults/secrets`.
test("secrets of every kind are used and found nowhere: no row, file, log, answer or command shows one", async () => {
  const report = await searchSecrets({ formats: ["json"] });
  expect(report.hits).toEqual([]);
  // They did arrive where they belong, and much was looked through.
  expect(report.used.length).toBeGreaterThanOrEqual(18);
  expect(Object.keys(report.searched).toSorted()).toEqual([
    "answers",
    "command line",
    "files",
    "logs",
    "rows",
  ]);
  expect(report.searched["answers"]!.places).toBeGreaterThan(200);
}, 120_000);
