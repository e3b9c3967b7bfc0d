import { type Clock, realTime } from "../lib/clock.ts";
import { newId } from "../lib/ids.ts";
import { ActiveJob } from "./active-job.ts";
import { carryOut, fateOfThrown, type Report } from "./carry-out.ts";
import { mayPutAside, putAside } from "./crowd.ts";
import { createDueLook } from "./due-look.ts";
import type { Fate, JobKind, JobRow, Lane } from "./job.ts";
import { CAPACITY, type Capacity, freeSlots, type LaneState, newLane, reserve, room } from "./lane.ts";
import { Parked } from "./parked.ts";
import { STORE_RETRY_MS } from "./persist.ts";
import { isStored, type NewJob, type Placement, rowOf } from "./placement.ts";
import { createRecovery, type Recovered, type Recovery } from "./recovery.ts";
import type { JobStore } from "./store.ts";

/**
 * Works jobs.
 *
 *     place ─> (caller's operation commits) ─> committed ──┬─ running: starts from memory, no read, no claim
 *                                                          └─ ready: noted in the backlog
 *     backlog ─> pump: claim in fair order, as slots are free ─> start
 *     start ─> run ─> settled | done | retry(at)  ─> slot free ─> pump
 *
 * A job is inserted running when its lane and its key have room and no older job of the key waits;
 * everything else, and everything after a restart, goes by the backlog. A kind whose work tells by itself that
 * it is under way (`unstored`) has no row while it is worked from memory, and waits there as well: a claim
 * costs more than a short job does. One timer waits for the next
 * job to fall due; a sweep each few seconds is the backstop and finds what the command line added.
 */
export type Runner = {
  register(kind: JobKind): void;
  place(kind: string, job: NewJob, payload?: unknown): Placement;
  /**
   * The place in its key's line that a job placed now would get: 0 where it starts at once, which is told without
   * a look at the store. Counted up to a thousand.
   */
  lineOf(kind: string, key: string): Promise<number>;
  committed(placements: Placement[]): void;
  dropped(placements: Placement[]): void;
  /** Another process put jobs down: finds them now and not at the next sweep. */
  lookAround(): void;
  /** Looks for waiting jobs of the kind again: `per_key` allows more by now. */
  look(kind: string): void;
  /** Aborts the running job of `ref`, if there is one. */
  cancel(ref: string): void;
  /**
   * A store operation made the job of `ref` due: takes it up without waiting for the next sweep, or tells it
   * where it is under way.
   */
  wake(ref: string): Promise<void>;
  /**
   * Takes over what an earlier life left behind: before it answers, all of a usual life; `rest` is what a hundred
   * thousand jobs more come to, taken over beside the requests. Call once, before the first request.
   */
  start(): Promise<Recovered & { rest?: Promise<Recovered> }>;
  /** Takes no more work, waits for what runs, at most `patienceMs`; the rest is put back for the next start. */
  stop(patienceMs: number): Promise<{ unfinished: number }>;
  inFlight(): Record<Lane, number>;
  /** Without a row, waiting in memory for a slot. */
  queued(): Record<Lane, number>;
};

/**
 * Were a job to keep its slot until its record is on disk, all slots would wait for the writer and then the writer
 * for all of them. Past so many of a lane they keep it: a disk that refuses must not have more and more sent.
 */
const MOST_LEAVING = 1_024;
const CROWD_LOOK_MS = 250;
const LONGEST_LINE = 1_000;
const LARGEST_CLAIM = 64;

export function createRunner(deps: {
  store: JobStore;
  clock: Clock;
  report: Report;
  owner?: string;
  capacity?: Capacity;
  /** Told of jobs that are due and not for this process to work. */
  handedOver?: () => void;
}): Runner {
  const { store, clock, report } = deps;
  const capacity = deps.capacity ?? CAPACITY;
  const owner = deps.owner ?? newId();
  const kinds = new Map<string, JobKind>();
  const active = new Map<string, ActiveJob>();
  const parked = new Parked();
  const lanes = new Map<Lane, LaneState>();
  for (const name of Object.keys(capacity) as Lane[]) {
    lanes.set(name, newLane(name));
  }
  let stopping = false;
  let recovery: Recovery | undefined;
  let whenIdle: (() => void) | undefined;

  const due = createDueLook({
    store,
    clock,
    report,
    works: (lane) => capacity[lane.name] > 0,
    found: addStored,
    swept: pump,
  });

  const record = { store, clock, report, isStopping: () => stopping };

  const perLane = (count: (lane: LaneState) => number) =>
    Object.fromEntries([...lanes].map(([name, lane]) => [name, count(lane)])) as Record<Lane, number>;
  const laneOf = (name: Lane): LaneState => lanes.get(name)!;
  const kindOf = (name: string): JobKind => {
    const kind = kinds.get(name);
    if (!kind) throw new Error(`no job kind ${name}`);
    return kind;
  };

  function free(lane: LaneState, key: string, count = 1): void {
    lane.inFlight -= count;
    const left = (lane.perKey.get(key) ?? 0) - count;
    if (left > 0) lane.perKey.set(key, left);
    else lane.perKey.delete(key);
    if (stopping && active.size === 0) whenIdle?.();
  }

  const slotsOf = (lane: LaneState, isProven: boolean): number =>
    freeSlots(lane, capacity[lane.name], isProven);

  /** Nothing stands in the way of a job of this key, and none of its own before it. */
  const hasRoom = (lane: LaneState, key: string): boolean =>
    slotsOf(lane, lane.isProven(key)) > 0 && !lane.backlog.has(key) && room(lane, key) > 0;

  function pump(lane: LaneState): void {
    if (stopping || lane.backlog.size === 0) return;
    const slots = Math.min(slotsOf(lane, true), LARGEST_CLAIM);
    if (slotsOf(lane, false) < slots || slots <= 0) lookAtCrowd(lane);
    if (slots <= 0) return;
    const shares = new Map<string, number>();
    let given = 0;
    const mayStart = (key: string) =>
      (slotsOf(lane, false) > 0 || lane.isProven(key)) &&
      (lane.queue.count(key) > 0 || (!lane.claiming && lane.stored.has(key))) &&
      room(lane, key) > 0;
    lane.backlog.share(slots, mayStart, (key) => {
      given++;
      reserve(lane, key, 1);
      if (!startQueued(lane, key)) shares.set(key, (shares.get(key) ?? 0) + 1);
    });
    if (given === LARGEST_CLAIM) pumpSoon(lane); // there may be room for more
    if (shares.size === 0) return;
    lane.claiming = true;
    lane.fresh.clear();
    const wanted = [...shares].map(([key, count]) => ({ lane: lane.name, key, count }));
    store.claim(wanted, owner, clock.now()).then(
      (rows) => claimed(lane, shares, rows),
      (error) => {
        for (const { key, count } of wanted) free(lane, key, count);
        lane.claiming = false;
        report("claiming jobs failed", { lane: lane.name, error: String(error) });
        clock.after(STORE_RETRY_MS, () => pump(lane));
      },
    );
  }

  /** Once for all slots that are given back in one turn. */
  function pumpSoon(lane: LaneState): void {
    if (lane.pumpsSoon || lane.backlog.size === 0) return;
    lane.pumpsSoon = true;
    setImmediate(() => pumpIfSoon(lane));
  }

  /** Whoever waits has the slots that were given back before anybody who comes now. */
  function pumpIfSoon(lane: LaneState): void {
    if (!lane.pumpsSoon) return;
    lane.pumpsSoon = false;
    pump(lane);
  }

  /** Starts the oldest job of the key that waits in memory, in a slot that is reserved; false: there is none. */
  function startQueued(lane: LaneState, key: string): boolean {
    const job = lane.queue.take(key);
    if (!job) return false;
    if (lane.queue.count(key) === 0 && !lane.stored.has(key)) lane.backlog.remove(key);
    begin(job.row, job.payload, false);
    return true;
  }

  function addStored(lane: LaneState, tenant: string, key: string): void {
    lane.backlog.add(tenant, key);
    lane.stored.add(key);
  }

  /** One that a claim under way may not have seen. */
  function addFresh(lane: LaneState, tenant: string, key: string): void {
    addStored(lane, tenant, key);
    lane.fresh.add(key);
  }

  /** Puts aside what only waits, if there is work for its slot. */
  function lookAtCrowd(lane: LaneState): void {
    if (lane.cancelCrowdLook || lane.inFlight === 0 || !mayPutAside(lane)) return;
    lane.cancelCrowdLook = clock.after(CROWD_LOOK_MS, () => {
      lane.cancelCrowdLook = undefined;
      if (stopping || lane.backlog.size === 0) return;
      putAside(lane, active.values());
      pump(lane);
    });
  }

  function claimed(lane: LaneState, shares: Map<string, number>, rows: JobRow[]): void {
    lane.claiming = false;
    for (const row of rows) shares.set(row.key, (shares.get(row.key) ?? 0) - 1);
    for (const [key, missing] of shares) {
      if (missing <= 0) continue;
      free(lane, key, missing);
      if (lane.fresh.has(key)) continue;
      lane.stored.delete(key); // fewer than asked: nothing due is left of it
      if (lane.queue.count(key) === 0) lane.backlog.remove(key);
    }
    for (const row of rows) begin(row, parked.take(row.id));
    pump(lane);
  }

  function begin(row: JobRow, payload: unknown, isStored = true): void {
    const job = new ActiveJob(row, payload, isStored, leave);
    active.set(row.id, job);
    const ended = () => {
      active.delete(row.id);
      const lane = laneOf(row.lane);
      if (job.hasLeft) {
        lane.leaving--;
        if (stopping && active.size === 0) whenIdle?.();
      } else giveSlotBack(lane, job);
    };
    laneOf(row.lane).turnstile.pass(() => void work(job).then(ended, ended));
  }

  function giveSlotBack(lane: LaneState, job: ActiveJob): void {
    if (job.found === "aside") {
      lane.aside--;
      lane.inFlight++; // which the next line takes back
    }
    free(lane, job.row.key);
    pumpSoon(lane);
  }

  function leave(job: ActiveJob): void {
    const lane = laneOf(job.row.lane);
    if (lane.leaving >= MOST_LEAVING) return;
    lane.leaving++;
    job.hasLeft = true;
    giveSlotBack(lane, job);
  }

  async function work(job: ActiveJob): Promise<void> {
    const { row, lease } = job;
    let fate: Fate;
    try {
      fate = await kindOf(row.kind).run(row.ref, job);
    } catch (error) {
      if (stopping && job.isAborted()) return; // stop() puts it back
      fate = fateOfThrown(deps, row, error);
    }
    const at =
      fate.kind === "settled" ? fate.due : await carryOut(record, kindOf(row.kind), { row, lease, fate });
    if (at !== undefined) due.lookAt(laneOf(row.lane), at);
  }

  return {
    register(kind) {
      kinds.set(kind.kind, kind);
      const { per_key } = kind;
      const lane = laneOf(kind.lane);
      lane.cap = typeof per_key === "number" ? () => per_key : per_key;
      if (kind.isProven) lane.isProven = kind.isProven;
    },

    place(kindName, job, payload) {
      const kind = kindOf(kindName);
      const lane = laneOf(kind.lane);
      const now = clock.now();
      const run_at = job.run_at ?? now;
      const isDue = !stopping && !job.waits && run_at <= now;
      if (isDue) pumpIfSoon(lane);
      const direct = isDue && hasRoom(lane, job.key);
      if (direct) reserve(lane, job.key, 1);
      const queued =
        isDue &&
        !direct &&
        kind.unstored !== undefined &&
        capacity[lane.name] > 0 &&
        !lane.stored.has(job.key) &&
        lane.queue.reserve(job.key, job.size ?? 0, lane.isProven(job.key));
      const row = rowOf(kind, job, { run_at, now, isRunning: direct || queued });
      if (queued) return { row, payload, unstored: "queued", size: job.size ?? 0 };
      if (direct && kind.unstored) return { row, payload, unstored: "started" };
      if (direct) recovery?.except(row.id);
      return { row, payload, size: job.size };
    },

    async lineOf(kindName, key) {
      const lane = laneOf(kindOf(kindName).lane);
      if (hasRoom(lane, key)) return 0;
      return 1 + (await store.due(lane.name, key, clock.now(), LONGEST_LINE));
    },

    committed(placements) {
      const waiting = new Set<LaneState>();
      for (const placement of placements) {
        const { row, payload } = placement;
        if (placement.unstored === "queued") {
          const lane = laneOf(row.lane);
          lane.queue.add(row.key, { row, payload, size: placement.size ?? 0 });
          lane.backlog.add(row.tenant, row.key);
          waiting.add(lane);
        } else if (row.state === "running") begin(row, payload, isStored(placement));
        else if (row.run_at > clock.now()) due.lookAt(laneOf(row.lane), row.run_at);
        else {
          const lane = laneOf(row.lane);
          if (capacity[lane.name] === 0) deps.handedOver?.();
          if (capacity[lane.name] > 0 && lane.isProven(row.key)) parked.add(placement);
          addFresh(lane, row.tenant, row.key);
          waiting.add(lane);
        }
      }
      for (const lane of waiting) pump(lane);
    },

    dropped(placements) {
      for (const { row, unstored, size = 0 } of placements) {
        if (unstored === "queued") laneOf(row.lane).queue.release(size);
        else if (row.state === "running") free(laneOf(row.lane), row.key);
      }
    },

    lookAround() {
      for (const lane of lanes.values()) void due.sweep(lane);
    },

    look: (kind) => pump(laneOf(kindOf(kind).lane)),

    cancel(ref) {
      parked.forget(ref);
      for (const job of active.values()) if (job.row.ref === ref) job.abort(new Error("cancelled"));
    },

    async wake(ref) {
      for (const job of active.values()) if (job.row.ref === ref) job.wake();
      const found = await store.waitingOf(ref);
      if (!found || stopping) return;
      if (capacity[found.lane] === 0) return deps.handedOver?.();
      const lane = laneOf(found.lane);
      addFresh(lane, found.tenant, found.key);
      pump(lane);
    },

    async start() {
      recovery = createRecovery({ store, clock, owner, report, kinds: [...kinds.values()] });
      const { recovered, dead, isWhole } = await recovery.first();
      for (const lane of lanes.values()) {
        for (const { tenant, key } of await store.waitingKeys(lane.name)) addStored(lane, tenant, key);
        await due.begin(lane);
      }
      if (isWhole) {
        recovery = undefined;
        return { recovered, dead };
      }
      const rest = recovery.rest(({ lane: name, tenant, key }) => {
        const lane = laneOf(name);
        addFresh(lane, tenant, key);
        pump(lane);
      });
      void rest.then(() => {
        recovery = undefined;
      });
      return { recovered, dead, rest };
    },

    async stop(patienceMs) {
      stopping = true;
      recovery?.stop();
      due.stop(lanes.values());
      for (const lane of lanes.values()) lane.cancelCrowdLook?.();
      if (active.size > 0) {
        await new Promise<void>((resolve) => {
          whenIdle = resolve;
          realTime(clock).after(patienceMs, resolve);
        });
      }
      const rest = [...active.values()];
      for (const job of rest) job.abort(new Error("shutting down"));
      const stored = rest.filter((job) => !job.lease.unstored);
      if (stored.length > 0) await store.requeue(stored.map((job) => job.lease));
      return { unfinished: rest.length };
    },

    inFlight: () => perLane((lane) => lane.inFlight + lane.aside + lane.leaving),
    queued: () => perLane((lane) => lane.queue.size),
  };
}
