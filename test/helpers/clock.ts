import type { Clock } from "../../src/lib/clock.ts";

/** A stopped clock: `advance` moves it and runs what falls due on the way, in order. */
export class TestClock implements Clock {
  #now: number;
  #timers = new Set<{ at: number; run: () => void }>();

  constructor(start = Date.UTC(2026, 0, 1)) {
    this.#now = start;
  }

  now(): number {
    return this.#now;
  }

  after(ms: number, run: () => void): () => void {
    const timer = { at: this.#now + Math.max(0, ms), run };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Lets promises settle after each timer, so that what a timer starts can set the next one. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    for (;;) {
      const next = [...this.#timers].filter((t) => t.at <= end).sort((a, b) => a.at - b.at)[0];
      if (!next) break;
      this.#timers.delete(next);
      this.#now = Math.max(this.#now, next.at);
      next.run();
      await settled();
    }
    this.#now = end;
    await settled();
  }
}

/** Several turns of the event loop: enough for a chain of in-process store calls to end. */
export async function settled(turns = 12): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
}
