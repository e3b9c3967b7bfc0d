import { LRUCache } from "lru-cache";
import type { Clock } from "../lib/clock.ts";

const LEAST = 8;
const MOST = 64;
const MOST_KNOWN = 10_000;
// By size, not by `max`, which would take the room for all of them at the start.
const BOUNDS = { maxSize: MOST_KNOWN, sizeCalculation: () => 1 };
const SECOND = 1_000;
// After a restart nothing is known of a webhook's own limits until its first attempt: too many may begin.
const BUSY_MS = 250;

/** What a subscription asks for itself; null is nothing. */
export type Limits = { concurrency: number | null; rate_limit_per_second: number | null };

/** `late`: no answer came in the time there is, or one without end. */
export type Outcome = "good" | "bad" | "late";

/** An attempt that may go; `leave` when it is over. Or how long to wait before asking again, in ms. */
export type Entry = { leave(): void } | { wait_ms: number };

export type Concurrency = {
  /** How many attempts may be under way to a subscription. */
  of(subscription_id: string): number;
  /** Whether it has answered well of late: such a receiver will give its slots back soon. */
  isProven(subscription_id: string): boolean;
  /** An attempt went well or not. */
  learn(subscription_id: string, outcome: Outcome): void;
  /** Asks to begin an attempt under the subscription's own limits. */
  enter(subscription_id: string, limits: Limits): Entry;
};

type Pace = Limits & { sending: number; begun: number[]; waking: boolean };

const FREE: Entry = { leave() {} };

/**
 * Attempts under way to one subscription: 8, so that a receiver that hangs holds these slots and no more.
 * One that answers well is trusted with more, one more for each good answer up to 64; a failure takes it
 * back to 8, an answer that never came to 1. Forgotten with the program: what it learns, it learns again in
 * a moment. A subscription's own limits stand above that; `look` is called when a rate has room again.
 */
export function createConcurrency({ clock, look }: { clock: Clock; look: () => void }): Concurrency {
  const known = new LRUCache<string, number>({
    ...BOUNDS,
    dispose: (_, id) => void proven.delete(id),
    noDisposeOnSet: true,
  });
  // Asked of every waiting key whenever a slot is free.
  const proven = new Set<string>();
  const paces = new LRUCache<string, Pace>(BOUNDS);

  /** How many more may begin at this moment. */
  function room(pace: Pace): number {
    const { begun, rate_limit_per_second: rate } = pace;
    if (rate === null) return Number.POSITIVE_INFINITY;
    const now = clock.now();
    if ((begun.at(-1) ?? 0) > now) begun.length = 0; // the clock was set back
    while (begun.length > 0 && begun[0]! + SECOND <= now) begun.shift();
    return Math.max(0, rate - begun.length);
  }

  const untilRoom = ({ begun, rate_limit_per_second: rate }: Pace): number =>
    Math.max(1, (begun[begun.length - (rate ?? 1)] ?? 0) + SECOND - clock.now());

  function wake(pace: Pace): void {
    if (pace.waking) return;
    pace.waking = true;
    clock.after(untilRoom(pace), () => {
      pace.waking = false;
      look();
    });
  }

  return {
    of(id) {
      const trusted = known.get(id) ?? LEAST;
      const pace = paces.get(id);
      if (!pace) return trusted;
      const free = room(pace);
      if (free === 0) wake(pace);
      return Math.min(pace.concurrency ?? trusted, pace.sending + free);
    },

    isProven: (id) => proven.has(id),

    learn(id, outcome) {
      const before = known.get(id) ?? LEAST;
      const now = outcome === "late" ? 1 : outcome === "bad" ? Math.min(before, LEAST) : before + 1;
      if (now !== before) known.set(id, Math.min(now, MOST));
      if (now > LEAST) proven.add(id);
      else proven.delete(id);
    },

    enter(id, { concurrency, rate_limit_per_second }) {
      if (concurrency === null && rate_limit_per_second === null) {
        if (paces.size > 0) paces.delete(id);
        return FREE;
      }
      const pace: Pace = paces.get(id) ?? {
        concurrency,
        rate_limit_per_second,
        sending: 0,
        begun: [],
        waking: false,
      };
      Object.assign(pace, { concurrency, rate_limit_per_second });
      paces.set(id, pace);
      if (concurrency !== null && pace.sending >= concurrency) return { wait_ms: BUSY_MS };
      if (room(pace) === 0) return { wait_ms: untilRoom(pace) };
      pace.sending++;
      if (rate_limit_per_second !== null) pace.begun.push(clock.now());
      return {
        leave() {
          pace.sending--;
        },
      };
    },
  };
}
