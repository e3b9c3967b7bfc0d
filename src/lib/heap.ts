import { fullGC, heapSize } from "bun:jsc";

const MB = 1_000_000;
// Less is little, whatever of it is needed no more; to look through more would hold up the program for too long.
const LEAST = 64 * MB;
const MOST = 192 * MB;
const GROWTH = 1.5;
const LOOK_MS = 500;

/** The memory that holds JavaScript's objects; sizes in bytes. */
export type Heap = { size(): number; collect(): void };

const engine: Heap = { size: () => heapSize(), collect: () => fullGC() };

/**
 * Has the whole heap looked through when it has grown by half since the last time. By itself the engine looks often
 * at what is new, and at what is old only once there is three times as much as was alive: but whatever waits in a
 * queue for a moment is old by then. Answers what ends the looking.
 */
export function keepHeapSmall(heap: Heap = engine): () => void {
  const timer = setInterval(heapLook(heap), LOOK_MS);
  timer.unref();
  return () => clearInterval(timer);
}

/** One look; answers whether the heap was looked through. */
export function heapLook({ size, collect }: Heap): () => boolean {
  let alive = 0;
  return () => {
    const now = size();
    alive = Math.min(alive, now); // the engine was there before
    if (now < Math.max(LEAST, alive * GROWTH) || now > MOST) return false;
    collect();
    alive = size();
    return true;
  };
}
