import { STATES } from "../../executions/schema.ts";
import type { ExecutionFilter, ExecutionListStore, ExecutionRow, Owner } from "../../executions/store.ts";
import { type Place, walk } from "../../lib/feed.ts";
import type { Storage } from "./storage.ts";

const MOST_COUNTED = 10_000;

type Entry = Place & { source: string };

const ownerOf = (owner: Owner): [column: string, id: string] =>
  "workflow_id" in owner ? ["workflow_id", owner.workflow_id] : ["project_id", owner.project_id];

/**
 * The index has a run of entries for each state, in the order of time. All states together are read as a
 * merge of those runs, so that a page costs what it shows and not what there is.
 */
function entriesSql(column: string, states: readonly string[]): string {
  const run = (state: string) =>
    `SELECT created_at, id, source FROM executions
     WHERE ${column} = ?1 AND state = '${state}' AND created_at >= ?2 AND (created_at, id) < (?3, ?4)`;
  return `${states.map(run).join(" UNION ALL ")} ORDER BY created_at DESC, id DESC LIMIT ?5`;
}

const statesOf = ({ state }: ExecutionFilter): readonly string[] => (state === undefined ? STATES : [state]);

export const sqliteExecutionLists = ({ reader }: Pick<Storage, "reader">): ExecutionListStore => ({
  async list(owner, filter) {
    const [column, id] = ownerOf(owner);
    const sql = entriesSql(column, statesOf(filter));
    const { items, next } = walk(
      filter,
      (below, count) => reader.all<Entry>(sql, id, filter.since, below.created_at, below.id, count),
      ({ source }) => filter.source === undefined || source === filter.source,
    );
    return {
      items: items.map(
        (entry) => reader.get<ExecutionRow>("SELECT * FROM executions WHERE id = ?", entry.id)!,
      ),
      next,
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
