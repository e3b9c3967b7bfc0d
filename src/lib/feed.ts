import { parseMoment } from "./moment.ts";

/** Where a row stands in a list that is read newest first. */
export type Place = { created_at: number; id: string };

/** What to read of it: rows of `since` and later, below `below`, after `offset` of them, `limit` at most. */
export type Window = { since: number; below: Place; limit: number; offset: number };

/** `next`: where the rest begins; null at the end. A page can be short and the rest go on all the same. */
export type Stretch<T> = { items: T[]; next: Place | null };

export const cursorOf = ({ created_at, id }: Place): string => `${created_at}_${id}`;

type Asked = { limit: number; offset: number; since?: string; until?: string; cursor?: string };

/** Reads the query of a list. Throws `invalid_input` for times that are none. */
export function windowOf({ limit, offset, since, until, cursor }: Asked): Window {
  const end = parseMoment("until", until);
  const upper = { created_at: end === undefined ? Number.MAX_SAFE_INTEGER : end + 1, id: "" };
  const [at, id] = cursor?.split("_") ?? [];
  const below = at !== undefined && id !== undefined && Number(at) < upper.created_at;
  return {
    since: parseMoment("since", since) ?? 0,
    below: below ? { created_at: Number(at), id } : upper,
    limit,
    offset,
  };
}

const CHUNK = 1_000;
const MOST_EXAMINED = 10_000;

/**
 * Reads on until `limit` rows are found that are `wanted`, but examines 10,000 at most: a filter that
 * nearly nothing passes costs a short page and a `next` instead of a scan of the whole table.
 */
export function walk<Row extends Place>(
  window: Window,
  read: (below: Place, count: number) => Row[],
  wanted: (row: Row) => boolean = () => true,
): Stretch<Row> {
  const { limit, offset } = window;
  const items: Row[] = [];
  let { below } = window;
  let chunk = Math.min(CHUNK, offset + limit + 1);
  for (let examined = 0, skipped = 0; examined < MOST_EXAMINED + offset; chunk = CHUNK) {
    const rows = read(below, chunk);
    for (const row of rows) {
      if (wanted(row) && skipped++ >= offset) {
        if (items.length === limit) return { items, next: below };
        items.push(row);
      }
      below = { created_at: row.created_at, id: row.id };
    }
    examined += rows.length;
    if (rows.length < chunk) return { items, next: null };
  }
  return { items, next: below };
}
