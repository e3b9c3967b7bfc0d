import { expect, test } from "bun:test";
import { isWhole, measure } from "../../scripts/faults/receivers.ts";

// The short form of `scripts/faults/receivers`; its times are for a machine that does nothing else.
test("receivers that hang, flood, bomb, refuse and put off lose nothing, and keep no healthy one waiting", async () => {
  const report = await measure({ hanging: 80, seconds: 1, webhooks: 20, events: 50 });
  expect(report).toMatchObject({ deliveries: 20 * 50 + 10 * 10, lost: 0, unfinished: 0, integrity: "ok" });
  expect(isWhole(report)).toBe(true);
  expect(report.beside_hanging_ms.count).toBe(report.alone_ms.count);
  // Were it kept waiting, then for the 30 s that a hanging one takes.
  expect(report.beside_hanging_ms.p99).toBeLessThan(2_000);
}, 60_000);
