import type { Clock } from "../lib/clock.ts";
import type { Place } from "../lib/feed.ts";
import { KINDS, type Kind, type OldRow, type RetentionStore } from "./store.ts";

const DAY_MS = 86_400_000;
const SLICE = 500;
const STRIDE = 2_000;
const PAGES = 250;
// Room that the next rows take again anyway.
const PAGES_KEPT = 1_000;

export type Pruned = Record<Kind, number>;

export type PruneRequest = {
  /** What was over before this moment goes; undefined: only what workflows say of their executions. */
  before?: number;
  /** Count, and delete nothing. */
  isDryRun?: boolean;
  /** Rest for so long after each slice: beside a server that writes as well, and waits in turns of its own. */
  rest_ms?: number;
  /** Ends early: the next time goes on where this one stopped. */
  signal?: AbortSignal;
};

export type Retention = ReturnType<typeof createRetention>;

const START: Place = { created_at: -1, id: "" };
const isBelow = (a: Place, b: Place): boolean =>
  a.created_at < b.created_at || (a.created_at === b.created_at && a.id < b.id);

/**
 * Forgets what is over and old. Nothing that is under way, waits or is still to be sent is touched: age
 * counts from the end. Slice by slice, with everybody else's work in between.
 */
export function createRetention({ store, clock }: { store: RetentionStore; clock: Clock }) {
  let looseBefore = new Set<string>();
  const rest = (ms: number): Promise<void> =>
    ms > 0 ? new Promise((resolve) => clock.after(ms, resolve)) : othersFirst();

  /** Deletes, or counts, the rows of one owner that are over in the sense of `isOld`. */
  async function pruneRows(
    kind: Kind,
    owner: string,
    { below, isOld }: { below: Place; isOld: (row: OldRow) => boolean },
    { isDryRun, signal, rest_ms = 0 }: PruneRequest,
  ): Promise<number> {
    let pruned = 0;
    let after = START;
    while (!signal?.aborted) {
      const rows = await store.old(kind, owner, { after, below, count: SLICE });
      let ids = rows.filter(isOld).map(({ id }) => id);
      pruned += ids.length;
      while (!isDryRun && ids.length > 0 && !signal?.aborted) {
        ids = (await store.drop(kind, ids)).left;
        await rest(rest_ms);
      }
      const last = rows.at(-1);
      if (!last || rows.length < SLICE) break;
      after = last;
      await othersFirst();
    }
    return pruned;
  }

  /** Executions go by what their workflow says, and where it says nothing by `before`. */
  async function pruneExecutions(request: PruneRequest): Promise<number> {
    const own = await store.ofWorkflows();
    const now = clock.now();
    let pruned = 0;
    for (const workflow_id of await store.owners("executions")) {
      const { days = null, max_executions = null } = own.get(workflow_id) ?? {};
      const before = days === null ? request.before : now - days * DAY_MS;
      const surplus = max_executions === null ? undefined : await placeAfter(workflow_id, max_executions);
      const byAge: Place = { created_at: before ?? -1, id: "" };
      const below = surplus && isBelow(byAge, surplus) ? surplus : byAge;
      if (below.created_at < 0) continue;
      const isOld = (row: OldRow) =>
        row.over_at !== null &&
        ((before !== undefined && row.over_at < before) || (surplus !== undefined && isBelow(row, surplus)));
      pruned += await pruneRows("executions", workflow_id, { below, isOld }, request);
    }
    return pruned;
  }

  /** What stands below it has `count` ended executions above it: in strides, as there may be millions. */
  async function placeAfter(workflow_id: string, count: number): Promise<Place | undefined> {
    let below: Place = { created_at: Number.MAX_SAFE_INTEGER, id: "" };
    for (let left = count; left > 0; left -= STRIDE) {
      const next = await store.nthEnded(workflow_id, below, Math.min(left, STRIDE));
      if (!next) return undefined;
      below = next;
      await othersFirst();
    }
    return below;
  }

  async function pruneKind(kind: Exclude<Kind, "executions">, request: PruneRequest): Promise<number> {
    const { before } = request;
    if (before === undefined) return 0;
    const isOld = ({ over_at }: OldRow) => over_at !== null && over_at < before;
    let pruned = 0;
    for (const owner of await store.owners(kind)) {
      pruned += await pruneRows(kind, owner, { below: { created_at: before, id: "" }, isOld }, request);
    }
    return pruned;
  }

  return {
    async prune(request: PruneRequest): Promise<Pruned> {
      const pruned = {} as Pruned;
      for (const kind of KINDS) {
        pruned[kind] =
          kind === "executions" ? await pruneExecutions(request) : await pruneKind(kind, request);
      }
      return pruned;
    },

    /**
     * Programs that no workflow, version or execution names. One goes when it was found loose twice: whoever
     * was about to start it the first time has done so by the second.
     */
    async pruneDefinitions(signal?: AbortSignal): Promise<number> {
      const loose = await store.looseDefinitions();
      for (let after = ""; loose.size > 0 && !signal?.aborted; ) {
        const used = await store.definitionsInUse(after, STRIDE);
        for (const { definition_hash } of used) loose.delete(definition_hash);
        const last = used.at(-1);
        if (!last) break;
        after = last.id;
        await othersFirst();
      }
      const again = [...loose].filter((hash) => looseBefore.has(hash));
      looseBefore = loose;
      let dropped = 0;
      while (again.length > 0 && !signal?.aborted)
        dropped += await store.dropDefinitions(again.splice(0, SLICE));
      return dropped;
    },

    /** Gives the room of what was deleted back to the disk; how many bytes. */
    async reclaim(signal?: AbortSignal, rest_ms = 0): Promise<number> {
      let { left, page_bytes } = await store.reclaim(0);
      const first = left;
      while (left > PAGES_KEPT && !signal?.aborted) {
        const now = (await store.reclaim(Math.min(PAGES, left - PAGES_KEPT))).left;
        if (now >= left) break;
        left = now;
        await rest(rest_ms);
      }
      return (first - left) * page_bytes;
    },
  };
}

const othersFirst = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
