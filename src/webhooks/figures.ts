import { iso } from "../lib/clock.ts";
import { msOfSpeed } from "../lib/histogram.ts";
import type { Figure } from "./store.ts";

/** Nearest rank. */
export const percentile = (sorted: number[], rank: number): number | null =>
  sorted[Math.max(0, Math.ceil(sorted.length * rank) - 1)] ?? null;

/** Counts and response times of figures taken together; the percentiles are good to a fifth. */
function summary(figures: Figure[]) {
  const counts: Record<string, number> = {};
  const speeds = new Map<number, number>();
  let answered = 0;
  for (const { outcome, speed, count } of figures) {
    counts[outcome] = (counts[outcome] ?? 0) + count;
    if (outcome === "filtered" || speed < 0) continue;
    speeds.set(speed, (speeds.get(speed) ?? 0) + count);
    answered += count;
  }
  const ordered = [...speeds].sort(([a], [b]) => a - b);
  const at = (rank: number): number | null => {
    let left = Math.ceil(answered * rank);
    for (const [speed, count] of ordered) {
      left -= count;
      if (left <= 0) return msOfSpeed(speed);
    }
    return null;
  };
  const { success = 0, failed = 0, retrying = 0, filtered = 0 } = counts;
  const ended = success + failed;
  return {
    attempts: success + failed + retrying,
    successful_deliveries: success,
    failed_deliveries: failed,
    filtered_events: filtered,
    success_rate: ended === 0 ? null : success / ended,
    response_time_ms: { p50: at(0.5), p95: at(0.95), p99: at(0.99) },
  };
}

function grouped<Key>(figures: Figure[], keyOf: (figure: Figure) => Key): [Key, Figure[]][] {
  const groups = new Map<Key, Figure[]>();
  for (const figure of figures) {
    const group = groups.get(keyOf(figure));
    if (group) group.push(figure);
    else groups.set(keyOf(figure), [figure]);
  }
  return [...groups];
}

/** The window as a whole, by kind, and by hour, oldest first; an hour in which nothing happened has no line. */
export const summarise = (figures: Figure[]) => ({
  ...summary(figures),
  by_event: grouped(figures, ({ kind }) => kind)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([event, each]) => ({ event, ...summary(each) })),
  by_hour: grouped(figures, ({ hour }) => hour)
    .sort(([a], [b]) => a - b)
    .map(([hour, each]) => ({ hour: iso(hour), ...summary(each) })),
});
