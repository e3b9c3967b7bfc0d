import { expect, test } from "bun:test";
import { createConcurrency } from "../../src/webhooks/concurrency.ts";

test("a receiver begins with 8 attempts at a time and is trusted with up to 64", () => {
  const concurrency = createConcurrency();
  expect(concurrency.of("a")).toBe(8);
  for (let n = 0; n < 10; n++) concurrency.learn("a", true);
  expect(concurrency.of("a")).toBe(18);
  for (let n = 0; n < 100; n++) concurrency.learn("a", true);
  expect(concurrency.of("a")).toBe(64);
});

test("the first failure takes the trust back, of that receiver alone", () => {
  const concurrency = createConcurrency();
  for (let n = 0; n < 100; n++) for (const id of ["a", "b"]) concurrency.learn(id, true);
  concurrency.learn("a", false);
  expect([concurrency.of("a"), concurrency.of("b")]).toEqual([8, 64]);
});
