import type { Clock } from "./clock.ts";

const WINDOW_MS = 100;
/** Words a second: what each costs by itself is then a third of a core. */
const MUCH = 5_000;
const TICK_MS = 10;
const TICKS = 10;

export const BEAT_MS = TICK_MS * TICKS;

/**
 * How much is streamed through here, and a beat to go by when it is much. What a word costs on its way is not its
 * few bytes but that the process is woken, reads and writes for it alone. So each goes at once, until more pass than
 * one by one would leave time for anything else; from there on a stream hands on once a beat what has come since.
 */
export class Beat {
  isBusy = false;
  readonly #clock: Clock;
  #began: number;
  #count = 0;
  // By the tick at which they are due: streams keep times of their own and do not march in step.
  readonly #due: (() => void)[][] = Array.from({ length: TICKS }, () => []);
  #at = 0;
  #waiting = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#began = clock.now();
  }

  now(): number {
    return this.#clock.now();
  }

  /** So many words have come. */
  passed(count: number): void {
    this.#count += count;
    const ms = this.#clock.now() - this.#began;
    if (ms >= 0 && ms < WINDOW_MS) return;
    // Once busy, half as much is enough to stay so: no to and fro at the edge.
    this.isBusy = this.#count * 1_000 > (this.isBusy ? MUCH / 2 : MUCH) * ms;
    this.#began += ms;
    this.#count = 0;
  }

  /** Does it a beat from now. One timer for all, and none while nothing waits. */
  later(task: () => void): void {
    this.#due[(this.#at + TICKS - 1) % TICKS]!.push(task);
    this.#waiting++;
    if (this.#waiting === 1) this.#tick();
  }

  #tick(): void {
    this.#clock.after(TICK_MS, () => {
      const tasks = this.#due[this.#at]!.splice(0);
      this.#at = (this.#at + 1) % TICKS;
      this.#waiting -= tasks.length;
      if (this.#waiting > 0) this.#tick();
      for (const task of tasks) task();
    });
  }
}
