import { expect, test } from "bun:test";
import { heapLook } from "../../src/lib/heap.ts";

const MB = 1_000_000;

/** A heap of so many megabytes, of which `alive` remain when it is looked through. */
function heapOf(alive: number) {
  const heap = { now: 0, alive, collections: 0 };
  const look = heapLook({
    size: () => heap.now * MB,
    collect: () => {
      heap.collections++;
      heap.now = heap.alive;
    },
  });
  return {
    heap,
    /** The heap as it is found, one look each. */
    see: (...sizes: number[]) =>
      sizes.map((size) => {
        heap.now = size;
        return look();
      }),
  };
}

test("a heap is looked through when it has grown by half since the last time, and a small one never", () => {
  const { heap, see } = heapOf(60);
  expect(see(20, 63)).toEqual([false, false]);
  expect(see(64)).toEqual([true]);
  expect(heap.now).toBe(60);
  expect(see(89, 90, 75, 89)).toEqual([false, true, false, false]);
});

test("what is alive is not looked through again and again", () => {
  const { heap, see } = heapOf(100);
  expect(see(101, 110, 149, 149, 150, 100)).toEqual([true, false, false, false, true, false]);
  expect(heap.collections).toBe(2);
});

test("after a look of the engine's own the growth counts from there", () => {
  const { see } = heapOf(100);
  expect(see(100, 60, 89, 90)).toEqual([true, false, false, true]);
});

test("a large heap is left to the engine, which does not stop the program for so long", () => {
  const { see } = heapOf(100);
  expect(see(193, 500, 192)).toEqual([false, false, true]);
});
