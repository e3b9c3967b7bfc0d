/** Time as the rest of the program sees it: epoch milliseconds, and timers that a test can turn by hand. */
export type Clock = {
  now(): number;
  /** Calls `run` once, `ms` from now or later. The answer cancels it. */
  after(ms: number, run: () => void): () => void;
  /** The clock on the wall, where this one runs faster. */
  real?: Clock;
  /** How it runs there: enough to make the same clock in another process. */
  pace?: Pace;
};

/** `scale` times as fast as the wall's, with which it agreed at `from`. */
export type Pace = { scale: number; from: number };

/**
 * The time of the world outside: for limits on what others take (a model, a node's request), for what they are
 * told of the time, and for whoever waits at the other end. `clock` itself unless it is made to run faster.
 */
export const realTime = (clock: Clock): Clock => clock.real ?? clock;

/**
 * A clock that runs `scale` times as fast since `from`, which is now unless given, so that a day's waits can be watched in minutes. Each
 * life of the program begins at the time on the wall: what an earlier one put off waits as much longer.
 */
export function scaledClock(scale: number, real: Clock, from = real.now()): Clock {
  return {
    now: () => from + Math.round((real.now() - from) * scale),
    // A millisecond late rather than early: who wakes finds its time come.
    after: (ms, run) => real.after(Math.ceil(ms / scale), run),
    real,
    pace: { scale, from },
  };
}

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

// The second whose text was made last: most times that are told lie within it.
let second = Number.NaN;
let secondText = "";

/** As `toISOString` has it; throws RangeError as it does. */
export function iso(ms: number): string {
  const time = Math.trunc(ms);
  const whole = Math.floor(time / 1_000);
  if (whole !== second) {
    const text = new Date(ms).toISOString();
    if (text.length !== 24) return text; // years of five digits and more
    second = whole;
    secondText = text.slice(0, 20);
  }
  return `${secondText}${String(time - whole * 1_000).padStart(3, "0")}Z`;
}
export const isoOrNull = (ms: number | null | undefined): string | null => (ms == null ? null : iso(ms));
