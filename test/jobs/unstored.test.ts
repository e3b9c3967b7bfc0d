import { describe, expect, test } from "bun:test";
import { defineJob, done, type Fate, type JobRow, type JobRun, retry } from "../../src/jobs/job.ts";
import { Parked } from "../../src/jobs/parked.ts";
import { isStored, type NewJob } from "../../src/jobs/placement.ts";
import { Queue } from "../../src/jobs/queue.ts";
import { createRunner } from "../../src/jobs/runner.ts";
import { sqliteJobs } from "../../src/storage/sqlite/jobs.ts";
import { settled, TestClock } from "../helpers/clock.ts";
import { memoryStorage } from "../helpers/storage.ts";

type Started = { ref: string; run: JobRun; end: (fate?: Fate) => void };

/** A runner of a kind whose jobs need no row, with four slots. */
function setup({
  per_key = 4,
  left = 0,
  isProven,
}: {
  per_key?: number;
  left?: number;
  isProven?: (key: string) => boolean;
} = {}) {
  const storage = memoryStorage();
  const clock = new TestClock();
  const store = sqliteJobs(storage);
  const started: Started[] = [];
  const taken: number[] = [];
  const down: [string, number, string][] = [];
  const capacity = { runs: 4, turns: 4, deliveries: 4, timers: 4 };
  const runner = createRunner({ store, clock, report: () => {}, capacity });
  runner.register(
    defineJob({
      kind: "send",
      lane: "deliveries",
      per_key,
      ...(isProven ? { isProven } : {}),
      unstored: {
        putDown: async (row: JobRow, at, reason) => {
          down.push([row.ref, at, reason]);
          await store.insert([{ ...row, state: "ready", run_at: at }]);
        },
        orphans: async () => Array.from({ length: left }, (_, n) => `left${n}`),
        takeOver: async (refs) => {
          taken.push(refs.length);
          return refs.length;
        },
      },
      run: (ref, run) =>
        new Promise((resolve) => started.push({ ref, run, end: (fate = done) => resolve(fate) })),
    }),
  );
  const place = ({ ref, key = "k", ...more }: Partial<NewJob> & { ref: string }) =>
    runner.place("send", { tenant: "t", key, ref, ...more });
  async function add(...jobs: Parameters<typeof place>[0][]) {
    const placements = jobs.map(place);
    await store.insert(placements.filter(isStored).map(({ row }) => row));
    runner.committed(placements);
    await settled();
    return placements;
  }
  const rows = () => storage.reader.all<{ ref: string; state: string }>("SELECT ref, state FROM jobs");
  return {
    ...{ runner, clock, started, down, taken, place, add, rows },
    refs: () => started.map(({ ref }) => ref),
  };
}

const many = (count: number, key = "k") =>
  Array.from({ length: count }, (_, n) => ({ ref: `${key}${n}`, key }));

describe("a job whose work tells that it is under way", () => {
  test("starts from memory and waits there for its turn, with no row", async () => {
    const { add, refs, rows, started, runner } = setup();
    await add(...many(6));
    expect([refs(), rows()]).toEqual([["k0", "k1", "k2", "k3"], []]);
    expect(started[0]!.run.lease.unstored).toBe(true);
    for (const { end } of started.slice(0, 2)) end();
    await settled();
    expect(refs()).toEqual(["k0", "k1", "k2", "k3", "k4", "k5"]);
    for (const { end } of started.slice(2)) end();
    await settled();
    expect([runner.inFlight().deliveries, ...rows()]).toEqual([0]);
  });

  test("shares the slots in memory between keys as those in the store do", async () => {
    const { add, refs, started } = setup();
    await add(...many(12, "loud"));
    await add(...many(2, "quiet"));
    for (const { end } of started.slice()) end();
    await settled();
    expect(
      refs()
        .slice(4)
        .filter((ref) => ref.startsWith("quiet")),
    ).toHaveLength(2);
  });

  test("does not get a slot that was given back in this turn before those who wait for one", async () => {
    const { add, refs, runner, started } = setup();
    await add(...many(4, "before"), ...many(4, "waiting"));
    for (const { end } of started.slice()) end();
    while (runner.inFlight().deliveries > 0) await undefined;
    await add(...many(4, "late"));
    expect(refs().slice(4)).toEqual(many(4, "waiting").map(({ ref }) => ref));
    for (const { end } of started.slice(4)) end();
    await settled();
    expect(refs().slice(8)).toEqual(many(4, "late").map(({ ref }) => ref));
  });

  test("of a key that may keep its slots for long waits in the store past the first few, and all are worked", async () => {
    const proven = new Set(["good"]);
    const { add, refs, rows, started } = setup({ isProven: (key) => proven.has(key) });
    for (const job of [...many(50, "slow"), ...many(50, "good")]) await add(job);
    expect(refs()).toEqual(["slow0", "slow1", "slow2", "good0"]);
    expect(rows().map(({ ref }) => ref)).toEqual(
      many(50, "slow")
        .slice(35)
        .map(({ ref }) => ref),
    );
    for (let n = 0; n < 100; n++) {
      for (let turns = 0; !started[n] && turns < 10; turns++) await settled();
      started[n]!.end();
    }
    await settled();
    expect(refs().filter((ref) => ref.startsWith("slow"))).toEqual(many(50, "slow").map(({ ref }) => ref));
    expect([new Set(refs()).size, rows()]).toEqual([100, []]);
  });

  test("keeps the cap of its key", async () => {
    const { add, refs, started } = setup({ per_key: 2 });
    await add(...many(4), ...many(2, "other"));
    expect(refs()).toEqual(["k0", "k1", "other0", "other1"]);
    started[2]!.end();
    await settled();
    expect(refs()).toHaveLength(4);
    started[0]!.end();
    await settled();
    expect(refs()).toHaveLength(5);
  });

  test("gets a row where it must wait for a time, and goes on by that", async () => {
    const { add, refs, rows, started, down, clock } = setup();
    await add({ ref: "a" });
    const at = clock.now() + 60_000;
    started[0]!.end(retry("not now", at));
    await settled();
    expect([down, rows()]).toEqual([[["a", at, "not now"]], [{ ref: "a", state: "ready" }]]);
    await clock.advance(60_000);
    expect(refs()).toEqual(["a", "a"]);
    expect(started[1]!.run.lease.unstored).toBeUndefined();
    started[1]!.end();
    await settled();
    expect(rows()).toEqual([]);
  });

  test("gets a row where the memory is full, and behind those of its key that have one", async () => {
    const { add, refs, rows, started } = setup();
    await add(...many(4));
    const size = 20 * 1_024 * 1_024;
    await add({ ref: "large", size }, { ref: "larger", size });
    expect(rows()).toEqual([{ ref: "larger", state: "ready" }]);
    await add({ ref: "later" }, { ref: "elsewhere", key: "else" });
    expect(rows().map(({ ref }) => ref)).toEqual(["larger", "later"]);
    for (let n = 0; n < 8; n++) {
      started[n]!.end();
      await settled();
    }
    expect(refs().slice(4).sort()).toEqual(["elsewhere", "large", "larger", "later"]);
    expect(refs().indexOf("large")).toBeLessThan(refs().indexOf("larger"));
    expect(rows()).toEqual([]);
  });

  test("that is not committed gives its room back", async () => {
    const { runner, place, add, refs } = setup();
    const size = 20 * 1_024 * 1_024;
    await add(...many(4));
    for (let n = 0; n < 3; n++) {
      const placement = place({ ref: "never", size });
      expect(placement.unstored).toBe("queued");
      runner.dropped([placement]);
    }
    expect(refs()).toHaveLength(4);
  });

  test("is left to the next start by a stop that runs out of patience", async () => {
    const { add, runner, clock, rows, started } = setup();
    await add(...many(6));
    const stopped = runner.stop(1_000);
    await clock.advance(1_000);
    expect(await stopped).toEqual({ unfinished: 4 });
    expect([started.length, ...rows()]).toEqual([4]);
    expect(await setup({ left: 6 }).runner.start()).toEqual({ recovered: 6, dead: 0 });
  });
});

test("what was left under way without a row is put down in slices, past the first of them beside the requests", async () => {
  const { runner, taken } = setup({ left: 7_000 });
  const { recovered, rest } = await runner.start();
  expect(recovered).toBe(6_000);
  expect(await rest).toEqual({ recovered: 1_000, dead: 0 });
  expect(taken).toEqual([6_000, 500, 500]);
});

test("what a start sets on its way itself is not taken for what an earlier life left", async () => {
  const storage = memoryStorage();
  const store = sqliteJobs(storage);
  const runner = createRunner({ store, clock: new TestClock(), report: () => {} });
  const underWay: string[] = [];
  const taken: string[] = [];
  runner.register(
    defineJob({
      kind: "send",
      lane: "deliveries",
      per_key: 4,
      unstored: {
        putDown: async () => {},
        orphans: async () => [...underWay],
        takeOver: async (refs) => taken.push(...refs),
      },
      run: () => new Promise(() => {}),
    }),
  );
  runner.register(
    defineJob({
      kind: "crash",
      lane: "runs",
      per_key: 4,
      crash_limit: 1,
      run: async () => done,
      async dead(ref) {
        const placement = runner.place("send", { tenant: "t", key: "k", ref: `end of ${ref}` });
        underWay.push(placement.row.ref);
        runner.committed([placement]);
      },
    }),
  );
  const earlier = runner.place("crash", { tenant: "t", key: "k", ref: "a" });
  await store.insert([earlier.row]);
  runner.dropped([earlier]); // it crashed
  expect(await runner.start()).toEqual({ recovered: 0, dead: 1 });
  expect([underWay, taken]).toEqual([["end of a"], []]);
});

test("a queue gives jobs in their order, however many went through it", () => {
  const queue = new Queue();
  let taken = 0;
  for (let n = 0; n < 10_000; n++) {
    expect(queue.reserve("k", 1, true)).toBe(true);
    queue.add("k", { row: { ref: String(n) } as JobRow, payload: undefined, size: 1 });
    if (n % 3 > 0) expect(queue.take("k")!.row.ref).toBe(String(taken++));
  }
  expect(queue.count("k")).toBe(10_000 - taken);
  while (queue.count("k") > 0) expect(queue.take("k")!.row.ref).toBe(String(taken++));
  expect([taken, queue.take("k")]).toEqual([10_000, undefined]);
});

test("payloads of waiting jobs are kept up to a size, and those of cancelled ones no longer", () => {
  const parked = new Parked();
  const size = 20 * 1_024 * 1_024;
  const park = (id: string) =>
    parked.add({ row: { id, ref: `ref ${id}` } as JobRow, payload: `payload ${id}`, size });
  park("a");
  park("b");
  expect(parked.take("b")).toBeUndefined();
  parked.forget("ref a");
  expect(parked.take("a")).toBeUndefined();
  park("c");
  expect([parked.take("c"), parked.take("c")]).toEqual(["payload c", undefined]);
});
