const EVERY_MS = 60_000;
const MOST_REMEMBERED = 10_000;

/**
 * Marks when something was last used: at most once a minute, lazily, and nobody waits for it. Give it the
 * time on record, which may be an older one: what was marked here counts as well.
 */
export function useMarks(mark: (id: string, at: number) => Promise<unknown>) {
  const marked = new Map<string, number>();
  const isRecent = (at: number | null | undefined, now: number): boolean =>
    at !== null && at !== undefined && now - at < EVERY_MS;
  return (id: string, last_used_at: number | null, now: number): void => {
    if (isRecent(last_used_at, now) || isRecent(marked.get(id), now)) return;
    if (marked.size >= MOST_REMEMBERED) marked.clear();
    marked.set(id, now);
    // A mark that the disk refuses is not worth an answer: the next use tries again.
    mark(id, now).catch(() => marked.delete(id));
  };
}
