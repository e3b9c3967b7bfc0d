const EVERY_MS = 60_000;

/**
 * Marks when something was last used: at most once a minute, lazily, and nobody waits for it. Give it the
 * time on record; until the mark that is under way is stored, further uses of the same id add nothing.
 */
export function useMarks(mark: (id: string, at: number) => Promise<unknown>) {
  const underWay = new Set<string>();
  return (id: string, last_used_at: number | null, now: number): void => {
    if ((last_used_at !== null && now - last_used_at < EVERY_MS) || underWay.has(id)) return;
    underWay.add(id);
    // A mark that the disk refuses is not worth an answer: the next use tries again.
    mark(id, now)
      .catch(() => {})
      .finally(() => underWay.delete(id));
  };
}
