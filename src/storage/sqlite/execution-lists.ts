import { STATES } from "../../executions/schema.ts";
import type { ExecutionFilter, ExecutionListStore, ExecutionRow, Owner } from "../../executions/store.ts";
import type { Place } from "../../lib/feed.ts";
import type { Connection } from "./connection.ts";
import type { Storage } from "./storage.ts";

const MOST_COUNTED = 10_000;
// A source that nearly nothing has costs a short page and a `next` instead of a scan of everything.
const MOST_EXAMINED = 10_000;

const ownerOf = (owner: Owner): [column: string, id: string] =>
  "workflow_id" in owner ? ["workflow_id", owner.workflow_id] : ["project_id", owner.project_id];

const NEWEST_FIRST = "ORDER BY created_at DESC, id DESC";

/**
 * The index has a run of entries for each state, in the order of time. All states together are read as a
 * merge of those runs, so that a page costs what it shows and not what there is.
 */
function entriesSql(column: string, states: readonly string[]): string {
  const run = (state: string) =>
    `SELECT created_at, id, source FROM executions
     WHERE ${column} = ?1 AND state = '${state}' AND created_at >= ?2 AND (created_at, id) < (?3, ?4)`;
  return `${states.map(run).join(" UNION ALL ")} ${NEWEST_FIRST}`;
}

const statesOf = ({ state }: ExecutionFilter): readonly string[] => (state === undefined ? STATES : [state]);

/** Places in the list, one more than a page where it goes on, and where to read on when none is left over. */
function placesOf(
  db: Connection,
  owner: Owner,
  filter: ExecutionFilter,
): { found: Place[]; end: Place | null } {
  const [column, id] = ownerOf(owner);
  const { since, below, limit, offset, source } = filter;
  const entries = entriesSql(column, statesOf(filter));
  const range = [id, since, below.created_at, below.id];
  if (source === undefined) {
    const found = db.all<Place>(`${entries} LIMIT ?5 OFFSET ?6`, ...range, limit + 1, offset);
    return { found, end: null };
  }
  const examined = MOST_EXAMINED + offset;
  const found = db.all<Place>(
    `SELECT created_at, id FROM (${entries} LIMIT ?5) WHERE source = ?6 ${NEWEST_FIRST} LIMIT ?7 OFFSET ?8`,
    ...range,
    examined,
    source,
    limit + 1,
    offset,
  );
  if (found.length > limit) return { found, end: null };
  return { found, end: db.get<Place>(`${entries} LIMIT 1 OFFSET ?5`, ...range, examined - 1) ?? null };
}

export const sqliteExecutionLists = ({ reader }: Pick<Storage, "reader">): ExecutionListStore => ({
  async list(owner, filter) {
    const { found, end } = placesOf(reader, owner, filter);
    const shown = found.slice(0, filter.limit);
    const last = shown.at(-1);
    return {
      items: shown.map(({ id }) => reader.get<ExecutionRow>("SELECT * FROM executions WHERE id = ?", id)!),
      next: found.length > shown.length && last ? { created_at: last.created_at, id: last.id } : end,
    };
  },

  async count(owner, filter) {
    const [column, id] = ownerOf(owner);
    const { below, since, source } = filter;
    const each = statesOf(filter).map((state) => `'${state}'`);
    const found = reader.get<{ seen: number; matching: number }>(
      `SELECT count(*) AS seen, coalesce(sum(?5 IS NULL OR source = ?5), 0) AS matching FROM (
         SELECT source FROM executions WHERE ${column} = ?1 AND state IN (${each})
           AND created_at >= ?2 AND created_at < ?3 LIMIT ?4)`,
      id,
      since,
      below.created_at,
      MOST_COUNTED + 1,
      source ?? null,
    )!;
    return found.seen > MOST_COUNTED ? undefined : found.matching;
  },
});
