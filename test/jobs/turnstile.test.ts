import { expect, test } from "bun:test";
import { Turnstile } from "../../src/jobs/turnstile.ts";

const turn = () => new Promise((resolve) => setImmediate(resolve));

test("few go at once, and of many some each turn, in order", async () => {
  const turnstile = new Turnstile();
  const gone: number[] = [];
  for (let n = 0; n < 70; n++) turnstile.pass(() => gone.push(n));
  expect(gone).toHaveLength(32);
  await turn();
  expect(gone).toHaveLength(64);
  turnstile.pass(() => gone.push(70));
  expect(gone).toHaveLength(64);
  await turn();
  expect(gone).toEqual(Array.from({ length: 71 }, (_, n) => n));
});

test("who comes after the others have gone does not wait", async () => {
  const turnstile = new Turnstile();
  const gone: string[] = [];
  turnstile.pass(() => gone.push("a"));
  await turn();
  await turn();
  turnstile.pass(() => gone.push("b"));
  expect(gone).toEqual(["a", "b"]);
});
