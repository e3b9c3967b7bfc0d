import type { Clock } from "../lib/clock.ts";

/** Requests that wait for an execution to end, in this process. */
export type Waiters = {
  /** Resolves when `id` ends, when `ms` have passed, or at once when `hasEnded` says so. */
  wait(id: string, ms: number, hasEnded: () => Promise<boolean>): Promise<void>;
  ended(id: string): void;
};

export function createWaiters(clock: Clock): Waiters {
  const waiting = new Map<string, Set<() => void>>();

  return {
    async wait(id, ms, hasEnded) {
      let wake = () => {};
      const woken = new Promise<void>((resolve) => {
        wake = resolve;
      });
      const others = waiting.get(id) ?? new Set();
      waiting.set(id, others.add(wake));
      const cancelTimer = clock.after(ms, wake);
      // Asked after joining the list: an end between the two is seen by one of them.
      if (!(await hasEnded())) await woken;
      cancelTimer();
      others.delete(wake);
      if (others.size === 0) waiting.delete(id);
    },
    ended(id) {
      for (const wake of waiting.get(id) ?? []) wake();
    },
  };
}
