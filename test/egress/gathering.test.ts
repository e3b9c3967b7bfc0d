import { expect, test } from "bun:test";
import { Gathering } from "../../src/egress/gathering.ts";

test("an answer is waited for where several of its pieces come within a beat", () => {
  const gathering = new Gathering();
  const pays = [
    gathering.pays(300, 0), // the first goes at once
    gathering.pays(300, 20),
    gathering.pays(1_500, 120), // five came
    gathering.pays(1_200, 220),
  ];
  expect(pays).toEqual([false, true, true, true]);
});

test("a slow one is not, nor one that has become slow", () => {
  const slow = new Gathering();
  expect([0, 100, 200, 300].map((at) => slow.pays(300, at))).toEqual([false, false, false, false]);
  const slowing = new Gathering();
  expect([0, 20].map((at) => slowing.pays(300, at))).toEqual([false, true]);
  expect([120, 220, 320].map((at) => slowing.pays(310, at))).toEqual([false, false, false]);
});

test("one in large pieces is read as it comes", () => {
  const gathering = new Gathering();
  expect([0, 1, 2, 3].map((at) => gathering.pays(65_536, at))).toEqual([false, false, false, false]);
});
