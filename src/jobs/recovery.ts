import type { Clock } from "../lib/clock.ts";
import type { JobKind, Lane } from "./job.ts";
import type { JobStore, Orphan } from "./store.ts";

/** What came of orphans: due again, or given up after too many crashes. */
export type Recovered = { recovered: number; dead: number };

export type Recovery = ReturnType<typeof createRecovery>;

// More than one life can have under way, so that nearly every start has them all before its first answer.
const FIRST_SLICE = 6_000;
// Small beside the requests: others wait for the commit of a slice.
const SLICE = 500;
const AGAIN_MS = 1_000;

/**
 * Takes over the jobs that an earlier life left running. Turns and timers come first and whole: a message must not
 * overtake the turn that was under way in its conversation. Runs and deliveries past the first slice follow beside
 * the requests, so that no number of them keeps the first request waiting; new ones may overtake those.
 */
export function createRecovery(deps: {
  store: JobStore;
  clock: Clock;
  owner: string;
  report(message: string, fields: Record<string, unknown>): void;
  kinds: JobKind[];
}) {
  const { store, clock, owner, report } = deps;
  const kinds = new Map(deps.kinds.map((kind) => [kind.kind, kind]));
  const limits = Object.fromEntries(
    deps.kinds.flatMap(({ kind, crash_limit }) => (crash_limit ? [[kind, crash_limit]] : [])),
  );
  const own = new Set<string>();
  const withoutRow: { kind: JobKind; refs: string[] }[] = [];
  let after = "";
  let stopped = false;

  /** Answers whose they were; fewer than `count` looked at: those were the last. */
  async function takeOver(
    lanes: Lane[],
    count: number,
  ): Promise<Recovered & { looked: number; orphans: Orphan[] }> {
    const found = await store.orphans({ lanes, owner, after, count });
    const orphans = found.filter(({ id }) => !own.has(id));
    const leases = orphans.map(({ id, attempt }) => ({ id, attempt }));
    const { recovered, dead } = await store.recover(leases, limits, clock.now());
    for (const { id, kind, ref, crashes } of dead) {
      report("a job was given up after repeated crashes", { kind, ref, crashes });
      await kinds.get(kind)?.dead?.(ref, "crash_loop");
      await store.bury(id);
    }
    after = found.at(-1)?.id ?? after;
    return { recovered, dead: dead.length, looked: found.length, orphans };
  }

  /** The same for those that have no row: what they work was asked for before this life had any. */
  async function putDown(count: number): Promise<number> {
    let sum = 0;
    for (const { kind, refs } of withoutRow) {
      const some = refs.slice(0, count - sum);
      if (some.length === 0) continue;
      sum += (await kind.unstored?.takeOver(some, clock.now())) ?? 0;
      refs.splice(0, some.length);
    }
    return sum;
  }
  const left = () => withoutRow.reduce((sum, { refs }) => sum + refs.length, 0);

  return {
    /** A job of this life that is put down as running: not an orphan, though nobody claimed it. */
    except: (id: string) => void own.add(id),

    /** What the first request waits for. */
    async first(): Promise<Recovered & { isWhole: boolean }> {
      const sum = { recovered: 0, dead: 0 };
      // Before anything else: what is given up below has events, and those are under way without a row as well.
      for (const kind of kinds.values()) {
        if (kind.unstored) withoutRow.push({ kind, refs: await kind.unstored.orphans() });
      }
      const add = (part: Recovered) => {
        sum.recovered += part.recovered;
        sum.dead += part.dead;
      };
      for (let looked = FIRST_SLICE; looked === FIRST_SLICE; ) {
        const part = await takeOver(["turns", "timers"], FIRST_SLICE);
        add(part);
        looked = part.looked;
      }
      after = "";
      const part = await takeOver(["runs", "deliveries"], FIRST_SLICE);
      add(part);
      sum.recovered += await putDown(FIRST_SLICE);
      return { ...sum, isWhole: part.looked < FIRST_SLICE && left() === 0 };
    },

    /**
     * The others, slice by slice; `due` is told of each that is ready again and had a row, the rest is due now and
     * found by a sweep. A disk that refuses is asked again.
     */
    async rest(due: (orphan: Orphan) => void): Promise<Recovered> {
      const sum = { recovered: 0, dead: 0 };
      while (!stopped) {
        try {
          while (left() > 0 && !stopped) {
            sum.recovered += await putDown(SLICE);
            await new Promise((resolve) => setImmediate(resolve));
          }
          const { recovered, dead, looked, orphans } = await takeOver(["runs", "deliveries"], SLICE);
          sum.recovered += recovered;
          sum.dead += dead;
          for (const orphan of orphans) due(orphan);
          if (looked < SLICE) break;
          await new Promise((resolve) => setImmediate(resolve));
        } catch (error) {
          if (stopped) break;
          report("taking up what was under way failed", { error: String(error) });
          await new Promise<void>((resolve) => clock.after(AGAIN_MS, resolve));
        }
      }
      return sum;
    },

    stop(): void {
      stopped = true;
    },
  };
}
