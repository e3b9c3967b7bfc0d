import { expect, test } from "bun:test";
import { createStep } from "../../src/lib/in-step.ts";

test("those who come in one turn go on in step, in the order they came", async () => {
  const inStep = createStep();
  const seen: string[] = [];
  const walk = async (name: string) => {
    await inStep();
    seen.push(`${name} first`);
    await undefined;
    seen.push(`${name} second`);
  };
  await Promise.all([walk("a"), walk("b"), walk("c")]);
  expect(seen).toEqual(["a first", "b first", "c first", "a second", "b second", "c second"]);
});

test("who comes after a step began waits for the next one, and none is forgotten", async () => {
  const inStep = createStep();
  const first = inStep();
  expect(inStep()).toBe(first);
  await first;
  const second = inStep();
  expect(second).not.toBe(first);
  await second;
});
