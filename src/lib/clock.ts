/** Time as the rest of the program sees it: epoch milliseconds, and timers that a test can turn by hand. */
export type Clock = {
  now(): number;
  /** Calls `run` once, `ms` from now or later. The answer cancels it. */
  after(ms: number, run: () => void): () => void;
};

// setTimeout fires at once from 2^31 ms on; a day is far below and still wakes rarely.
const LONGEST_TIMER_MS = 86_400_000;

export const systemClock: Clock = {
  now: () => Date.now(),
  after(ms, run) {
    const due = performance.now() + ms;
    let timer: ReturnType<typeof setTimeout>;
    const arm = () => {
      const left = due - performance.now();
      timer =
        left > LONGEST_TIMER_MS ? setTimeout(arm, LONGEST_TIMER_MS) : setTimeout(run, Math.max(0, left));
    };
    arm();
    return () => clearTimeout(timer);
  },
};

export const iso = (ms: number): string => new Date(ms).toISOString();
export const isoOrNull = (ms: number | null | undefined): string | null => (ms == null ? null : iso(ms));
