import type { Clock } from "../lib/clock.ts";

/** Requests that wait for an execution or a turn to end, in this process. */
export type Waiters = {
  /**
   * Resolves when `hasEnded` says so, asked at once and whenever there is news of `id`; or when `ms` have
   * passed, or `signal` fires (the client went away).
   */
  wait(id: string, ms: number, hasEnded: () => Promise<boolean>, signal?: AbortSignal): Promise<void>;
  /** There is news of `id`: it has ended, or has answered before its end. */
  ended(id: string): void;
  /** From now on nobody waits: a stop answers with how things stand. */
  close(): void;
  closed(): boolean;
};

export function createWaiters(clock: Clock): Waiters {
  const waiting = new Map<string, Set<() => void>>();
  let closed = false;

  return {
    async wait(id, ms, hasEnded, signal) {
      if (closed || signal?.aborted) return;
      let wake = () => {};
      let isOver = false;
      const others = waiting.get(id) ?? new Set();
      const nudge = () => wake();
      waiting.set(id, others.add(nudge));
      const stop = () => {
        isOver = true;
        wake();
      };
      const cancelTimer = clock.after(ms, stop);
      signal?.addEventListener("abort", stop, { once: true });
      try {
        for (;;) {
          // Made before asking: news between the two is seen by one of them.
          const woken = new Promise<void>((resolve) => {
            wake = resolve;
          });
          if ((await hasEnded()) || isOver || closed) return;
          await woken;
        }
      } finally {
        cancelTimer();
        signal?.removeEventListener("abort", stop);
        others.delete(nudge);
        if (others.size === 0) waiting.delete(id);
      }
    },
    ended(id) {
      for (const wake of waiting.get(id) ?? []) wake();
    },
    closed: () => closed,
    close() {
      closed = true;
      for (const wakes of waiting.values()) for (const wake of wakes) wake();
    },
  };
}
