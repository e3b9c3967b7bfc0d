import type { Clock } from "../lib/clock.ts";

/** Requests that wait for an execution or a turn to end, in this process. */
export type Waiters = {
  /**
   * Resolves when `id` ends, when `ms` have passed, when `signal` fires (the client went away), or at once
   * when `hasEnded` says so.
   */
  wait(id: string, ms: number, hasEnded: () => Promise<boolean>, signal?: AbortSignal): Promise<void>;
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
      const woken = new Promise<void>((resolve) => {
        wake = resolve;
      });
      const others = waiting.get(id) ?? new Set();
      waiting.set(id, others.add(wake));
      const cancelTimer = clock.after(ms, wake);
      signal?.addEventListener("abort", wake, { once: true });
      // Asked after joining the list: an end between the two is seen by one of them.
      if (!(await hasEnded())) await woken;
      cancelTimer();
      signal?.removeEventListener("abort", wake);
      others.delete(wake);
      if (others.size === 0) waiting.delete(id);
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
