import { describe, expect, test } from "bun:test";
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { defineJob, done, type JobKind, type JobRun, retry } from "../../src/jobs/job.ts";
import { knock, listenForKnocks } from "../../src/jobs/knock.ts";
import type { Capacity } from "../../src/jobs/lane.ts";
import type { Placement } from "../../src/jobs/placement.ts";
import { createRunner } from "../../src/jobs/runner.ts";
import type { JobStore } from "../../src/jobs/store.ts";
import { sqliteJobs } from "../../src/storage/sqlite/jobs.ts";
import { settled, TestClock } from "../helpers/clock.ts";
import { discardAfterEach, scratchFolder } from "../helpers/folder.ts";
import { memoryStorage } from "../helpers/storage.ts";

discardAfterEach();

const CAPACITY: Capacity = { runs: 4, turns: 4, deliveries: 8, timers: 4 };

type Started = { ref: string; run: JobRun; end: (fate?: Awaited<ReturnType<JobKind["run"]>>) => void };

/** A runner over real SQLite whose jobs wait to be ended by the test. */
function setup(options: { storage?: ReturnType<typeof memoryStorage>; kind?: Partial<JobKind> } = {}) {
  const storage = options.storage ?? memoryStorage();
  const clock = new TestClock();
  const store = sqliteJobs(storage);
  const started: Started[] = [];
  const dead: string[] = [];
  const runner = createRunner({ store, clock, report: () => {}, capacity: CAPACITY });
  runner.register(
    defineJob({
      kind: "run",
      lane: "runs",
      per_key: 2,
      crash_limit: 3,
      run: (ref, run) =>
        new Promise((resolve) => started.push({ ref, run, end: (fate = done) => resolve(fate) })),
      dead: async (ref) => void dead.push(ref),
      ...options.kind,
    }),
  );
  async function add(...jobs: { ref: string; key?: string; tenant?: string; run_at?: number }[]) {
    const placements: Placement[] = jobs.map(({ ref, key = "k", tenant = "t", run_at }) =>
      runner.place("run", { ref, key, tenant, run_at }),
    );
    await store.insert(placements.map((placement) => placement.row));
    runner.committed(placements);
    await settled();
    return placements;
  }
  const refs = () => started.map((job) => job.ref);
  const rows = () =>
    storage.reader.all<{ ref: string; state: string; attempt: number }>("SELECT * FROM jobs ORDER BY id");
  return { storage, clock, store, runner, started, dead, add, refs, rows };
}

describe("placing", () => {
  test("a job with room is inserted running and starts from memory with its payload", async () => {
    const { runner, store, started, rows } = setup();
    const placement = runner.place("run", { ref: "a", key: "k", tenant: "t" }, { hello: true });
    expect(placement.row.state).toBe("running");
    await store.insert([placement.row]);
    expect(started).toHaveLength(0);
    runner.committed([placement]);
    expect(started[0]?.run).toMatchObject({ attempt: 1, payload: { hello: true } });
    started[0]?.end();
    await settled();
    expect(rows()).toEqual([]);
  });

  test("a dropped placement gives its slot back", async () => {
    const { runner, add, refs } = setup();
    runner.dropped([runner.place("run", { ref: "x", key: "k", tenant: "t" })]);
    runner.dropped([runner.place("run", { ref: "y", key: "k", tenant: "t" })]);
    await add({ ref: "a" }, { ref: "b" });
    expect(refs()).toEqual(["a", "b"]);
  });

  test("past the cap of a key jobs wait, and start in order as slots are freed", async () => {
    const { add, refs, started } = setup();
    await add({ ref: "a" }, { ref: "b" }, { ref: "c" }, { ref: "d" });
    expect(refs()).toEqual(["a", "b"]);
    started[1]?.end();
    await settled();
    expect(refs()).toEqual(["a", "b", "c"]);
    started[0]?.end();
    await settled();
    expect(refs()).toEqual(["a", "b", "c", "d"]);
  });

  test("a job that only waits for its record gives its slot to the next, once, and a stop waits for it", async () => {
    const { add, refs, started, runner } = setup();
    await add({ ref: "a" }, { ref: "b" }, { ref: "c" }, { ref: "d" });
    started[0]!.run.leave();
    started[0]!.run.leave();
    await settled();
    expect(refs()).toEqual(["a", "b", "c"]);
    expect(runner.inFlight().runs).toBe(3);
    for (const { end } of started) end();
    await settled();
    started[3]!.run.leave();
    let stopped = false;
    const stop = runner.stop(10_000).then(({ unfinished }) => {
      stopped = true;
      return unfinished;
    });
    await settled();
    expect([refs(), stopped]).toEqual([["a", "b", "c", "d"], false]);
    started[3]!.end();
    expect(await stop).toBe(0);
    expect(runner.inFlight().runs).toBe(0);
  });

  test("when too many wait for their record, the others keep their slots", async () => {
    const { runner, store, started } = setup({ kind: { per_key: 10_000 } });
    const all = Array.from({ length: 2_000 }, (_, n) =>
      runner.place("run", { ref: `r${n}`, key: "k", tenant: "t" }),
    );
    await store.insert(all.map(({ row }) => row));
    runner.committed(all);
    for (let seen = -1; seen !== started.length; ) {
      seen = started.length;
      for (const { run } of started) run.leave();
      await settled();
    }
    expect(started.length).toBe(1_024 + 4);
  });

  test("a new job does not overtake an older one of its key", async () => {
    const { add, refs, started } = setup({ kind: { per_key: 1 } });
    await add({ ref: "a" });
    await add({ ref: "b" });
    started[0]?.end();
    await add({ ref: "c" });
    expect(refs()).toEqual(["a", "b"]);
  });

  test("a job for later waits for its time", async () => {
    const { add, refs, clock } = setup();
    await add({ ref: "later", run_at: clock.now() + 60_000 });
    await clock.advance(59_000);
    expect(refs()).toEqual([]);
    await clock.advance(1_000);
    expect(refs()).toEqual(["later"]);
  });

  test("what another process adds is found by the sweep", async () => {
    const { runner, store, clock, refs } = setup();
    await runner.start();
    const row = {
      ...runner.place("run", { ref: "cli", key: "k", tenant: "t" }).row,
      state: "ready" as const,
      attempt: 0,
    };
    await store.insert([row]);
    await clock.advance(2_100);
    expect(refs()).toEqual(["cli"]);
  });
});

describe("fairness", () => {
  test("a tenant with a long queue does not delay another tenant's first job", async () => {
    const { add, refs, started } = setup({ kind: { per_key: 4 } });
    await add(
      ...Array.from({ length: 40 }, (_, n) => ({ ref: `noisy-${n}`, key: "noisy", tenant: "noisy" })),
    );
    await add({ ref: "quiet", key: "quiet", tenant: "quiet" });
    started[0]?.end();
    await settled();
    started[1]?.end();
    await settled();
    expect(refs()).toContain("quiet");
  });

  test("a tenant with many keys gets no more than one with a single key", async () => {
    const { add, refs, started } = setup({ kind: { per_key: 4 } });
    await add(
      ...Array.from({ length: 20 }, (_, n) => ({ ref: `many-${n}`, key: `many-${n}`, tenant: "many" })),
    );
    await add(...Array.from({ length: 4 }, (_, n) => ({ ref: `one-${n}`, key: "one", tenant: "one" })));
    for (let n = 0; n < 4; n++) {
      started[n]?.end();
      await settled();
    }
    expect(
      refs()
        .slice(4)
        .filter((ref) => ref.startsWith("one")),
    ).toHaveLength(2);
  });
});

describe("fates", () => {
  test("a retry runs again at its time, one attempt up", async () => {
    const { add, started, clock } = setup();
    await add({ ref: "a" });
    started[0]?.end(retry("later", clock.now() + 300_000));
    await settled();
    await clock.advance(299_000);
    expect(started).toHaveLength(1);
    await clock.advance(1_000);
    expect(started[1]?.run.attempt).toBe(2);
  });

  test("a throw is a retry with growing delay", async () => {
    let calls = 0;
    const { add, clock, rows } = setup({
      kind: {
        run: async () => {
          calls++;
          throw new Error("boom");
        },
      },
    });
    await add({ ref: "a" });
    expect(calls).toBe(1);
    await clock.advance(2_000);
    expect(calls).toBe(2);
    await clock.advance(3_000);
    expect(calls).toBe(2);
    await clock.advance(1_000);
    expect(calls).toBe(3);
    expect(rows()[0]).toMatchObject({ state: "ready", attempt: 3 });
  });

  test("a result under an older attempt changes nothing", async () => {
    const { add, store, started, rows } = setup();
    await add({ ref: "a" });
    const stale = started[0]!.run.lease;
    expect(await store.release(stale, 0, "again")).toBe(true);
    await store.claim([{ lane: "runs", key: "k", count: 1 }], "other", 1e15);
    expect(await store.finish(stale)).toBe(false);
    expect(await store.release(stale, 0, "late")).toBe(false);
    expect(rows()[0]).toMatchObject({ state: "running", attempt: 2 });
  });

  test("cancelling aborts the running job of that ref", async () => {
    const { add, runner, started } = setup();
    await add({ ref: "a" });
    runner.cancel("a");
    expect(started[0]?.run.signal.aborted).toBe(true);
  });
});

describe("starting and stopping", () => {
  test("after a crash every running job is taken up again at once", async () => {
    const before = setup();
    await before.add({ ref: "a" }, { ref: "b" });
    const after = setup({ storage: before.storage });
    expect(await after.runner.start()).toEqual({ recovered: 2, dead: 0 });
    await settled();
    expect(after.refs().sort()).toEqual(["a", "b"]);
    expect(after.started[0]?.run.attempt).toBe(2);
  });

  test("three crashes make a job dead and its feature is told", async () => {
    const first = setup();
    await first.add({ ref: "poison" });
    let last = first;
    for (let crash = 0; crash < 3; crash++) {
      last = setup({ storage: first.storage });
      await last.runner.start();
      await settled();
    }
    expect(last.dead).toEqual(["poison"]);
    expect(last.started).toEqual([]);
    expect(last.rows()).toEqual([]);
  });

  test("a program that dies before it could end what a dead job worked does so at the next start", async () => {
    const first = setup();
    await first.add({ ref: "poison" });
    first.storage.reader.run("UPDATE jobs SET crashes = 2");
    const doomed = setup({ storage: first.storage, kind: { dead: () => new Promise(() => {}) } });
    void doomed.runner.start();
    await settled();
    const next = setup({ storage: first.storage });
    await next.runner.start();
    expect(next.dead).toEqual(["poison"]);
    expect(next.rows()).toEqual([]);
  });

  /** Running, in nobody's hands; ids in the order of `n`. */
  const orphans = ({ storage }: ReturnType<typeof setup>, count: number, lane = "runs") =>
    storage.reader.run(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
       INSERT INTO jobs (id, lane, kind, tenant, key, ref, state, run_at, attempt, crashes, owner, created_at)
       SELECT printf('%s-%06d', ?2, i), ?2, iif(?2 = 'turns', 'turn', 'run'), 't', 'old', printf('%s %d', ?2, i),
         'running', 0, 1, iif(i % 1000 = 0, 2, 0), 'gone', 0 FROM n`,
      count,
      lane,
    );
  const states = ({ rows }: ReturnType<typeof setup>) =>
    Object.groupBy(rows(), ({ state }) => state) as Record<string, { ref: string; attempt: number }[]>;

  test("past what one life can leave, orphans are taken over beside new work, and nothing of that", async () => {
    const world = setup();
    const { runner, add, refs, dead } = world;
    orphans(world, 7_200);
    const { rest, ...before } = await runner.start();
    expect(before).toEqual({ recovered: 5_994, dead: 6 });
    await add({ ref: "new", key: "new" });
    expect(await rest).toEqual({ recovered: 1_199, dead: 1 });
    await settled();
    expect(refs().sort()).toEqual(["new", "runs 1", "runs 2"]);
    expect(dead).toHaveLength(7);
    const { ready, running } = states(world);
    expect([ready?.length, running?.map(({ ref, attempt }) => `${ref}, ${attempt}`).sort()]).toEqual([
      7_200 - 7 - 2,
      ["new, 1", "runs 1, 2", "runs 2, 2"],
    ]);
  });

  test("turns are taken over before the first answer, however many others there are", async () => {
    const world = setup();
    const started: string[] = [];
    const run = async (ref: string) => {
      started.push(ref);
      return done;
    };
    world.runner.register(defineJob({ kind: "turn", lane: "turns", per_key: 1, run }));
    orphans(world, 6_500);
    orphans(world, 2, "turns");
    await world.runner.start();
    await settled();
    expect(started).toEqual(["turns 1", "turns 2"]);
  });

  test("a stop between two slices leaves the others to the next start", async () => {
    const world = setup();
    orphans(world, 8_000);
    const { rest } = await world.runner.start();
    await world.runner.stop(0);
    await rest;
    expect(states(world)["running"]!.length).toBeGreaterThan(500);
    const next = setup({ storage: world.storage });
    const { rest: others } = await next.runner.start();
    await others;
    await settled();
    expect([next.refs(), states(next)["running"]!.length]).toEqual([["runs 1", "runs 2"], 2]);
  });

  test("a stop waits for what runs", async () => {
    const { add, runner, started } = setup();
    await add({ ref: "a" });
    const stopped = runner.stop(10_000);
    started[0]?.end();
    expect(await stopped).toEqual({ unfinished: 0 });
  });

  test("a stop that runs out of patience puts the rest back for the next start, without a crash counted", async () => {
    const { add, runner, started, clock, rows } = setup();
    await add({ ref: "a" });
    const stopped = runner.stop(10_000);
    await clock.advance(10_000);
    expect(await stopped).toEqual({ unfinished: 1 });
    expect(started[0]?.run.signal.aborted).toBe(true);
    expect(rows()[0]).toMatchObject({ state: "ready", crashes: 0 });
  });
});

describe("a job that another process puts down", () => {
  test("is told of, and found at once by whoever looks around", async () => {
    const here = setup();
    await here.runner.start();
    let told = 0;
    const { store, clock } = here;
    const capacity = { runs: 0, turns: 0, deliveries: 0, timers: 0 };
    const handedOver = () => void told++;
    const other = createRunner({ store, clock, report: () => {}, capacity, handedOver });
    other.register(defineJob({ kind: "run", lane: "runs", per_key: 2, run: async () => done }));
    const placement = other.place("run", { ref: "a", key: "k", tenant: "t" });
    await store.insert([placement.row]);
    other.committed([placement]);
    expect([told, here.refs()]).toEqual([1, []]);
    here.runner.lookAround();
    await settled();
    expect(here.refs()).toEqual(["a"]);
  });

  test("is knocked for; where nobody ever listened, a knock is nothing", async () => {
    const folder = scratchFolder();
    const file = join(folder, "knock");
    knock(file, Date.now());
    expect(existsSync(file)).toBe(false);
    const { promise, resolve } = Promise.withResolvers<void>();
    const stop = listenForKnocks(file, resolve);
    knock(file, Date.now());
    await promise;
    stop();
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });
});

describe("a crowded lane", () => {
  const crowd = { kind: "run", lane: "deliveries", per_key: 8 } as const;
  const many = (count: number, key = "k") =>
    Array.from({ length: count }, (_, n) => ({ ref: `${key}${n}`, key }));

  test("keeps a quarter for keys that are proven", async () => {
    const { add, refs } = setup({ kind: { ...crowd, isProven: (key) => key === "good" } });
    await add(...many(8, "bad"));
    expect(refs()).toHaveLength(6);
    await add({ ref: "quick", key: "good" });
    expect(refs()).toContain("quick");
  });

  test("takes the slot from jobs that only wait, and every job still ends once", async () => {
    const { add, refs, started, clock, runner, rows } = setup({ kind: { ...crowd, per_key: 100 } });
    await add(...many(20));
    expect(refs()).toHaveLength(8);
    await clock.advance(250);
    expect(refs()).toHaveLength(8);
    await clock.advance(250);
    expect(refs()).toHaveLength(16);
    expect(runner.inFlight().deliveries).toBe(16);
    await clock.advance(1_000);
    expect(refs()).toHaveLength(20);
    for (const { end } of started) end();
    await settled();
    expect([runner.inFlight().deliveries, ...rows()]).toEqual([0]);
    await add(...many(9, "next"));
    expect(refs()).toHaveLength(28);
  });

  test("leaves jobs alone that do not wait for others, and lanes of which nobody may", async () => {
    const { add, refs, started, clock } = setup({ kind: { per_key: 100 } });
    await add(...many(5));
    for (const { run } of started) run.elsewhere = 0;
    await clock.advance(5_000);
    expect(refs()).toHaveLength(4);
    started[0]!.run.elsewhere = 1;
    await clock.advance(1_000);
    expect(refs()).toHaveLength(5);
    const turns = setup({ kind: { per_key: 100, lane: "turns" } });
    await turns.add(...many(6));
    await turns.clock.advance(5_000);
    expect(turns.refs()).toHaveLength(4);
  });
});

describe("what falls due before it is on disk", () => {
  test("is found though a look has gone past its time: its commit took long, and the clock leapt meanwhile", async () => {
    const storage = memoryStorage();
    const clock = new TestClock();
    const store = sqliteJobs(storage);
    const slow: JobStore = {
      ...store,
      async release(lease, at, reason) {
        await new Promise<void>((over) => clock.after(30_000, over));
        return store.release(lease, at, reason);
      },
    };
    const tries: number[] = [];
    const runner = createRunner({ store: slow, clock, report: () => {}, capacity: CAPACITY });
    runner.register(
      defineJob({
        kind: "run",
        lane: "runs",
        per_key: 2,
        run: async (_, { attempt }) => {
          tries.push(attempt);
          return attempt === 1 ? retry("later", clock.now() + 1_000) : done;
        },
      }),
    );
    await runner.start();
    const placement = runner.place("run", { ref: "a", key: "k", tenant: "t" });
    await store.insert([placement.row]);
    runner.committed([placement]);
    await clock.advance(36_000);
    expect(tries).toEqual([1, 2]);
  });

  test("is found within a minute though nobody tells of it", async () => {
    const { runner, store, clock, refs } = setup();
    await runner.start();
    await clock.advance(100_000);
    const { row } = runner.place("run", { ref: "a", key: "k", tenant: "t", run_at: clock.now() + 1_000 });
    await clock.advance(30_000);
    await store.insert([row]);
    await clock.advance(61_000);
    expect(refs()).toEqual(["a"]);
  });

  test("among many that wait for later, those alone are taken up", async () => {
    const { runner, store, clock } = setup();
    const later = clock.now() + 3_600_000;
    const rows = ["a", "b", "c"].map(
      (key, n) =>
        runner.place("run", { ref: key, key, tenant: "t", run_at: n === 1 ? clock.now() + 1 : later }).row,
    );
    await store.insert(rows);
    await clock.advance(1_000);
    expect(await store.allDueKeys("runs", clock.now())).toEqual([{ key: "b", tenant: "t" }]);
  });
});
