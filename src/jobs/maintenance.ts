import { Cron } from "croner";
import type { Clock } from "../lib/clock.ts";

/**
 * Work that comes round by the calendar. `pattern` is a cron expression in UTC; `run` must not overlap
 * itself. `signal` aborts when the program stops: what takes long ends early then.
 */
export type Chore = { name: string; pattern: string; run(signal?: AbortSignal): Promise<void> };

// Where time runs fast the times of a chore may lie milliseconds apart: those in between are left out.
const SHORTEST_PAUSE_MS = 1_000;

/**
 * Runs chores at their times. croner says when, our clock waits: so a test can turn the hours, and a jump
 * of the wall clock is met at the next look instead of being slept through.
 */
export function startChores(
  chores: Chore[],
  clock: Clock,
  failed: (chore: string, error: unknown) => void,
): () => void {
  const cancels = new Map<string, () => void>();
  const stopping = new AbortController();
  const pause = clock.pace ? SHORTEST_PAUSE_MS * clock.pace.scale : 0;
  for (const chore of chores) {
    // An offset, not a zone: the calendar of a zone costs the start more than all the rest of it.
    const schedule = new Cron(chore.pattern, { paused: true, utcOffset: 0 });
    const arm = () => {
      const next = schedule.nextRun(new Date(clock.now() + pause))?.getTime();
      if (next === undefined) return;
      const wait = next - clock.now();
      cancels.set(
        chore.name,
        clock.after(wait, () => {
          chore
            .run(stopping.signal)
            .catch((error) => failed(chore.name, error))
            .finally(() => {
              if (cancels.has(chore.name)) arm();
            });
        }),
      );
    };
    arm();
  }
  return () => {
    stopping.abort();
    for (const cancel of cancels.values()) cancel();
    cancels.clear();
  };
}
