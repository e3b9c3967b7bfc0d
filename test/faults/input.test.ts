import { expect, test } from "bun:test";
import { isClean, sendEverything } from "../../scripts/faults/input.ts";

// The short form of `scripts/faults/input --raw 1000000 --walked 100000`.
test("what no client should send is refused or taken, and never crashes, fails or holds up the program", async () => {
  const report = await sendEverything({ raw: 1_000, walked: 600, each_text: 5, seed: 11 });
  expect(report).toMatchObject({ odd: [], stalls: [], schemas: { wrong: [] }, texts: { changed: [] } });
  expect(report.ended).toBeUndefined();
  expect(isClean(report)).toBe(true);
  expect(report.texts.sent - report.texts.refused).toBeGreaterThan(200);
  expect(report.schemas.samples).toBeGreaterThan(90);
}, 120_000);
