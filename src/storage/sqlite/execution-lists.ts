import { LRUCache } from "lru-cache";
import type { ExecutionFilter, ExecutionListStore, Owner } from "../../executions/store.ts";
import type { Place } from "../../lib/feed.ts";
import type { Bind, Connection } from "./connection.ts";
import { execution } from "./executions.ts";
import type { Storage } from "./storage.ts";

const MOST_COUNTED = 10_000;
// What nearly nothing has costs a short page and a `next` instead of a scan of everything: fewer are examined
// where each must be looked up in the table, whose rows are long.
const MOST_EXAMINED = 5_000;
const MOST_LOOKED_UP = 2_000;
/** Whoever had more than are worth counting is not counted again for so long. */
const MANY_FOR_MS = 60_000;

const NEWEST_FIRST = "ORDER BY created_at DESC, id DESC";

type Fit = [condition: string, ...binds: Bind[]];

/** A run of index entries in the order of time, and what is left to check of each. */
type Way = { from: string; owner: string; fits: Fit[]; examined: number };

/** Named, since only the right index keeps the promise of bounded time. */
const way = (index: string, where: string, owner: string, fits: Fit[] = []): Way => ({
  from: `FROM executions INDEXED BY ${index} WHERE ${where}`,
  owner,
  fits,
  examined: MOST_EXAMINED,
});

const everyOne = ({ project_id, workflow_id }: Owner): Way =>
  workflow_id === undefined
    ? way("executions_by_project", "project_id = ?", project_id)
    : way("executions_by_workflow", "workflow_id = ?", workflow_id);

function apart({ project_id, workflow_id }: Owner, state: "failed" | "cancelled"): Way {
  const where = `= ? AND state = '${state}' AND state IN ('failed', 'cancelled')`;
  return workflow_id === undefined
    ? way("executions_apart_in_project", `project_id ${where}`, project_id)
    : way("executions_apart", `workflow_id ${where}`, workflow_id);
}

const active = ({ project_id, workflow_id }: Owner): Way =>
  way(
    "executions_active",
    "project_id = ? AND ended_at IS NULL",
    project_id,
    workflow_id === undefined ? [] : [["workflow_id = ?", workflow_id]],
  );

const also = (way: Way, ...fits: Fit[]): Way => ({ ...way, fits: [...way.fits, ...fits] });
const lookingUp = (way: Way): Way => ({ ...way, examined: MOST_LOOKED_UP });

/** Most end well: those are found among all. */
function wayOf(owner: Owner, { state, source }: ExecutionFilter): Way {
  const bySource: Fit[] = source === undefined ? [] : [["source = ?", source]];
  if (state === undefined) return also(everyOne(owner), ...bySource);
  if (state === "failed" || state === "cancelled") return also(apart(owner, state), ...bySource);
  const among = state === "success" ? everyOne(owner) : active(owner);
  return lookingUp(also(among, ["state = ?", state], ...bySource));
}

const conditionOf = ({ fits }: Way): string => fits.map(([condition]) => condition).join(" AND ") || "TRUE";
const bindsOf = ({ fits }: Way): Bind[] => fits.flatMap(([, ...binds]) => binds);

/** Places in the list, one more than a page where it goes on, and where to read on when none is left over. */
function placesOf(
  db: Connection,
  owner: Owner,
  filter: ExecutionFilter,
): { found: Place[]; end: Place | null } {
  const way = wayOf(owner, filter);
  const { since, below, limit, offset } = filter;
  const entries = `${way.from} AND created_at >= ? AND (created_at, id) < (?, ?) ${NEWEST_FIRST} LIMIT ?`;
  const range = [way.owner, since, below.created_at, below.id];
  if (way.fits.length === 0) {
    const found = db.all<Place>(`SELECT created_at, id ${entries} OFFSET ?`, ...range, limit + 1, offset);
    return { found, end: null };
  }
  const examined = way.examined + offset;
  const found = db.all<Place>(
    `SELECT created_at, id FROM (SELECT created_at, id, ${conditionOf(way)} AS fits ${entries})
     WHERE fits ${NEWEST_FIRST} LIMIT ? OFFSET ?`,
    ...bindsOf(way),
    ...range,
    examined,
    limit + 1,
    offset,
  );
  if (found.length > limit) return { found, end: null };
  const last = db.get<Place>(`SELECT created_at, id ${entries} OFFSET ?`, ...range, 1, examined - 1);
  return { found, end: last ?? null };
}

type Count = { seen: number; matching: number };

function countOf(db: Connection, way: Way, { since, below }: ExecutionFilter): Count {
  return db.get<Count>(
    `SELECT count(*) AS seen, coalesce(sum(fits), 0) AS matching FROM (
       SELECT ${conditionOf(way)} AS fits ${way.from} AND created_at >= ? AND created_at < ? LIMIT ?)`,
    ...bindsOf(way),
    way.owner,
    since,
    below.created_at,
    MOST_COUNTED + 1,
  )!;
}

function count(db: Connection, owner: Owner, filter: ExecutionFilter): number | undefined {
  if (filter.state !== "success") {
    const { seen, matching } = countOf(db, wayOf(owner, filter), filter);
    return seen > MOST_COUNTED ? undefined : matching;
  }
  // What is left of all when the others are taken away: to count any of these reads no row.
  const { source } = filter;
  const ways = [everyOne(owner), apart(owner, "failed"), apart(owner, "cancelled"), active(owner)];
  const counts = ways.map((each) =>
    countOf(db, source === undefined ? each : also(each, ["source = ?", source]), filter),
  );
  if (counts.some(({ seen }) => seen > MOST_COUNTED)) return undefined;
  return counts.map(({ matching }) => matching).reduce((left, others) => left - others);
}

export const sqliteExecutionLists = ({ reader }: Pick<Storage, "reader">): ExecutionListStore => {
  const many = new LRUCache<string, true>({ max: 1_000, ttl: MANY_FOR_MS });
  return {
    async list(owner, filter) {
      const { found, end } = placesOf(reader, owner, filter);
      const shown = found.slice(0, filter.limit);
      const last = shown.at(-1);
      return {
        items: shown.map(({ id }) => execution(reader, id)!),
        next: found.length > shown.length && last ? { created_at: last.created_at, id: last.id } : end,
      };
    },

    async count(owner, filter) {
      const { state, source, since, below } = filter;
      const { project_id, workflow_id } = owner;
      const asked = JSON.stringify([project_id, workflow_id, state, source, since, below.created_at]);
      if (many.has(asked)) return undefined;
      const found = count(reader, owner, filter);
      if (found === undefined) many.set(asked, true);
      return found;
    },
  };
};
