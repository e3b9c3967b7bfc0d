import { afterEach, describe, expect, test } from "bun:test";
import { insertOutbox } from "../../src/storage/sqlite/events.ts";
import { settled } from "../helpers/clock.ts";
import { deliveriesOf, type Got, lastLog, receiver as openReceiver, setup as openWorld } from "./setup.ts";

const open: { close(): void }[] = [];
afterEach(() => {
  for (const each of open.splice(0)) each.close();
});
const kept = <T extends { close(): void }>(each: T): T => {
  open.push(each);
  return each;
};
const setup = async (options?: Parameters<typeof openWorld>[0]) => kept(await openWorld(options));
const receiver = (answer?: (got: Got, number: number) => Response | Promise<Response>) =>
  kept(openReceiver(answer));

const MINUTE = 60_000;
const DAY = 86_400_000;

type World = Awaited<ReturnType<typeof setup>>;
type Envelope = { event: string; data: { n: number } };
type BatchEnvelope = {
  event: string;
  timestamp: string;
  webhook_id: string;
  data: { batch_id: string; count: number; events: (Envelope & { id: string })[] };
};

const emit = (world: World, n: number, hop = 0) => world.emit({ data: { n } } as never, hop);
const numbers = (got: Got[]) => got.map(({ body }) => (JSON.parse(body) as Envelope).data.n);
const batches = (got: Got[]) => got.map(({ body }) => JSON.parse(body) as BatchEnvelope);
const inBatches = (got: Got[]) => batches(got).map(({ data }) => data.events.map((each) => each.data.n));
const states = (world: World) =>
  world.storage.reader
    .all<{ state: string }>("SELECT state FROM deliveries ORDER BY id")
    .map(({ state }) => state);
const jobs = (world: World) => world.storage.reader.all("SELECT * FROM jobs");

/** What a clock does when nobody hurries it: enough for what is due at once to be looked for. */
const aMoment = async (world: World, ms = 0) => {
  await world.idle();
  await world.clock.advance(ms);
  await world.idle();
};

describe("a paused webhook", () => {
  test("keeps its events and sends them when it is resumed, oldest first", async () => {
    const world = await setup();
    const { url, got } = receiver();
    const { id } = await world.subscribe({ url, concurrency: 1 });
    await world.webhooks.pause(world.caller, id);
    for (const n of [1, 2, 3]) await emit(world, n);
    await aMoment(world, DAY);
    expect([got.length, ...states(world)]).toEqual([0, "paused", "paused", "paused"]);
    expect(await lastLog(world, id)).toMatchObject({ status: "paused", reason: "paused by a key holder" });
    await world.webhooks.resume(world.caller, id);
    for (let n = 0; n < 3; n++) await aMoment(world, 250);
    expect(numbers(got)).toEqual([1, 2, 3]);
    expect(states(world)).toEqual(["success", "success", "success"]);
    expect(jobs(world)).toEqual([]);
    expect(world.problems).toEqual([]);
  });

  test("goes on with the attempts that are left of a delivery that was under way", async () => {
    const world = await setup();
    const { url, got } = receiver(() => new Response(null, { status: 500 }));
    const { id } = await world.subscribe({ url, retry_policy: { max_retries: 2 } });
    await emit(world, 1);
    await world.idle();
    await world.webhooks.pause(world.caller, id);
    await aMoment(world, DAY);
    expect([got.length, ...states(world)]).toEqual([1, "paused"]);
    await world.webhooks.resume(world.caller, id);
    for (let n = 0; n < 4; n++) await aMoment(world, DAY);
    expect(got.map(({ headers }) => headers["x-service-attempt"])).toEqual(["1", "2", "3"]);
    expect(new Set(got.map(({ body }) => body)).size).toBe(1);
    expect(states(world)).toEqual(["failed"]);
  });

  test("loses nothing to a resume that comes between the plan of an event and its commit", async () => {
    const world = await setup();
    const { url, got } = receiver();
    const { id } = await world.subscribe({ url });
    await world.webhooks.pause(world.caller, id);
    const planned = await world.events.plan(world.caller, [world.anEvent()], 0);
    await world.webhooks.resume(world.caller, id);
    await world.idle();
    insertOutbox(world.storage.reader, planned.outbox);
    world.runner.committed(planned.placements);
    await aMoment(world);
    expect([got.length, ...states(world)]).toEqual([1, "success"]);
  });

  test("loses nothing to a resume that comes between finding it paused and putting it aside", async () => {
    const world = await setup();
    const { url, got } = receiver();
    const { id } = await world.subscribe({ url });
    const planned = await world.events.plan(world.caller, [world.anEvent()], 0);
    insertOutbox(world.storage.reader, planned.outbox);
    const { id: job, attempt } = planned.placements[0]!.row;
    const { subscription_id, id: delivery_id } = deliveriesOf(planned)[0]!;
    const end = {
      lease: { id: job, attempt, unstored: true as const },
      delivery_id,
      subscription_id,
      next: null,
    };
    const answer = await world.store.settle({
      ...end,
      ...{ state: "paused", reason: "paused", at: world.clock.now() },
    });
    expect(answer).toBe("again");
    world.runner.dropped(planned.placements);
    await aMoment(world, 2_000);
    expect([got.length, ...states(world)]).toEqual([1, "success"]);
    expect((await world.webhooks.get(world.caller, id)).status).toBe("active");
  });

  test("is released in slices, all of it, and new events do not wait for that", async () => {
    const world = await setup();
    const { url, got } = receiver();
    const { id } = await world.subscribe({ url });
    await world.webhooks.pause(world.caller, id);
    for (let n = 0; n < 450; n++) await emit(world, n);
    await world.webhooks.resume(world.caller, id);
    await emit(world, 450);
    for (let n = 0; n < 5; n++) await aMoment(world, 2_000);
    expect(numbers(got).sort((a, b) => a - b)).toEqual(Array.from({ length: 451 }, (_, n) => n));
    expect(new Set(states(world))).toEqual(new Set(["success"]));
  });

  test("a release that a stop cut short goes on at the next start", async () => {
    const before = await setup();
    const { url, got } = receiver();
    const { id } = await before.subscribe({ url });
    await before.webhooks.pause(before.caller, id);
    for (let n = 0; n < 3; n++) await emit(before, n);
    await before.runner.stop(0);
    await before.webhooks.resume(before.caller, id);
    expect(got).toEqual([]);
    const after = await setup({ storage: before.storage });
    await aMoment(after, 2_000);
    expect(numbers(got).sort()).toEqual([0, 1, 2]);
  });

  test("by 5 days of failures, and no sooner; a success or a resume begins them anew", async () => {
    const world = await setup();
    let good = false;
    const { url } = receiver(() => new Response(null, { status: good ? 200 : 500 }));
    const { id } = await world.subscribe({ url, retry_policy: { max_retries: 0 } });
    const status = async () => (await world.webhooks.get(world.caller, id)).status;
    const fail = async (after: number) => {
      await aMoment(world, after);
      await emit(world, 1);
      await world.idle();
      return status();
    };
    expect(await fail(0)).toBe("active");
    expect(await fail(4 * DAY)).toBe("active");
    good = true;
    await fail(0);
    good = false;
    expect(await fail(DAY)).toBe("active");
    expect(await fail(5 * DAY - 1)).toBe("active");
    expect(await fail(1)).toBe("paused");
    expect((await world.webhooks.get(world.caller, id)).status_reason).toStartWith("failing: ");
    await world.webhooks.resume(world.caller, id);
    expect(await fail(0)).toBe("active");
    expect(await fail(DAY)).toBe("active");
  });
});

describe("an ordered webhook", () => {
  test("sends one at a time in the order of the events, and one that fails holds the later ones", async () => {
    const world = await setup();
    let now = 0;
    let most = 0;
    const { url, got } = receiver(async (_, number) => {
      most = Math.max(most, ++now);
      await new Promise((resolve) => setImmediate(resolve));
      now--;
      return new Response(null, { status: number <= 2 ? 500 : 200 });
    });
    const { id } = await world.subscribe({ url, ordered: true });
    for (let n = 1; n <= 5; n++) await emit(world, n);
    await aMoment(world);
    expect(numbers(got)).toEqual([1]);
    expect(states(world)).toEqual(["retrying", "held", "held", "held", "held"]);
    expect(await lastLog(world, id)).toMatchObject({ status: "held", reason: "after earlier events" });
    await aMoment(world, MINUTE);
    expect(numbers(got)).toEqual([1, 1]);
    await aMoment(world, 5 * MINUTE);
    for (let n = 0; n < 5; n++) await aMoment(world);
    expect(numbers(got)).toEqual([1, 1, 1, 2, 3, 4, 5]);
    expect([most, ...jobs(world)]).toEqual([1]);
  });

  test("goes on after one that is given up", async () => {
    const world = await setup();
    const { url, got } = receiver((_, number) => new Response(null, { status: number === 1 ? 500 : 200 }));
    await world.subscribe({ url, ordered: true, retry_policy: { max_retries: 0 } });
    for (const n of [1, 2]) await emit(world, n);
    for (let n = 0; n < 3; n++) await aMoment(world);
    expect(numbers(got)).toEqual([1, 2]);
    expect(states(world)).toEqual(["failed", "success"]);
  });

  test("keeps the order over a pause", async () => {
    const world = await setup();
    let good = false;
    const { url, got } = receiver(() => new Response(null, { status: good ? 200 : 500 }));
    const { id } = await world.subscribe({ url, ordered: true });
    for (const n of [1, 2]) await emit(world, n);
    await aMoment(world);
    await world.webhooks.pause(world.caller, id);
    await emit(world, 3);
    await aMoment(world, DAY);
    expect(states(world)).toEqual(["paused", "held", "paused"]);
    good = true;
    const resumed = world.webhooks.resume(world.caller, id);
    const overtaking = emit(world, 4);
    await Promise.all([resumed, overtaking]);
    for (let n = 0; n < 8; n++) await aMoment(world, 2_000);
    expect(numbers(got)).toEqual([1, 1, 2, 3, 4]);
  });

  test("that gives up its order sends what stood in line; one that takes it up again is not stuck", async () => {
    const world = await setup();
    let good = false;
    const { url, got } = receiver(() => new Response(null, { status: good ? 200 : 500 }));
    const { id } = await world.subscribe({ url, ordered: true });
    for (const n of [1, 2, 3]) await emit(world, n);
    await aMoment(world);
    expect(numbers(got)).toEqual([1]);
    good = true;
    await world.webhooks.update(world.caller, id, { ordered: false });
    await aMoment(world, 2_000);
    expect(numbers(got).slice(1).sort()).toEqual([2, 3]);
    await world.webhooks.update(world.caller, id, { ordered: true });
    for (const n of [4, 5]) await emit(world, n);
    for (let n = 0; n < 4; n++) await aMoment(world, 2_000);
    expect(numbers(got).slice(3)).toEqual([4, 5]);
    await aMoment(world, MINUTE);
    expect(states(world)).toEqual(Array(5).fill("success"));
  });

  test("that is told once more to be ordered goes on with its line", async () => {
    const world = await setup();
    const { url, got } = receiver();
    const { id } = await world.subscribe({ url, ordered: true });
    for (const n of [1, 2, 3]) await emit(world, n);
    await world.webhooks.update(world.caller, id, { ordered: true, name: "again" });
    for (let n = 0; n < 4; n++) await aMoment(world, 2_000);
    expect(numbers(got)).toEqual([1, 2, 3]);
  });

  test("stands still at nothing that was deleted or is not kept any more", async () => {
    const world = await setup();
    const { url, got } = receiver();
    const { id } = await world.subscribe({ url, ordered: true });
    await world.webhooks.pause(world.caller, id);
    const [lost] = await emit(world, 1);
    await emit(world, 2);
    world.storage.reader.run("DELETE FROM events WHERE id = ?", lost!.event_id);
    await world.webhooks.resume(world.caller, id);
    for (let n = 0; n < 4; n++) await aMoment(world, 2_000);
    expect(numbers(got)).toEqual([2]);
    expect(states(world)).toEqual(["cancelled", "success"]);
  });
});

describe("a webhook with batch_settings", () => {
  const batch_settings = { max_events: 3, max_wait_seconds: 60 };

  test("gets full batches at once and the rest at the deadline, in one shape", async () => {
    const world = await setup();
    const { url, got } = receiver();
    const { id } = await world.subscribe({ url, batch_settings });
    const made: string[] = [];
    for (let n = 1; n <= 4; n++) made.push((await emit(world, n, n))[0]!.event_id);
    await aMoment(world);
    expect(inBatches(got)).toEqual([[1, 2, 3]]);
    await aMoment(world, 59_999);
    expect(got).toHaveLength(1);
    await aMoment(world, 1);
    expect(inBatches(got)).toEqual([[1, 2, 3], [4]]);
    const [first] = batches(got);
    expect(first).toEqual({
      event: "batch",
      timestamp: "2026-01-01T00:00:00.000Z",
      webhook_id: id,
      data: {
        batch_id: got[0]!.headers["webhook-id"]!,
        count: 3,
        events: [1, 2, 3].map((n) => ({
          id: made[n - 1]!,
          event: "workflow.execution.completed",
          timestamp: "2026-01-01T00:00:00.000Z",
          webhook_id: id,
          data: { n },
        })),
      },
    });
    expect(got[0]!.headers["x-service-hop"]).toBe("4"); // the longest chain of the three
    const { items: logs } = await world.deliveries.logs(world.caller, id, {
      ...{ limit: 100, offset: 0, status: "batched" },
    });
    expect(logs.map((line) => line.reason)).toContain(`in batch ${first!.data.batch_id}`);
    expect(logs).toHaveLength(4);
    expect(jobs(world)).toEqual([]);
    expect((await world.webhooks.get(world.caller, id)).delivery_stats.total_deliveries).toBe(2);
  });

  test("keeps its deadline over a restart", async () => {
    const before = await setup();
    const { url, got } = receiver();
    await before.subscribe({ url, batch_settings });
    await emit(before, 1);
    await before.runner.stop(0);
    const after = await setup({ storage: before.storage });
    await aMoment(after, 59_999);
    expect(got).toEqual([]);
    await aMoment(after, 1);
    expect(inBatches(got)).toEqual([[1]]);
  });

  test("sends the same bytes on every attempt", async () => {
    const world = await setup();
    const { url, got } = receiver((_, number) => new Response(null, { status: number === 1 ? 500 : 200 }));
    await world.subscribe({ url, batch_settings });
    for (const n of [1, 2, 3]) await emit(world, n);
    await aMoment(world);
    await aMoment(world, MINUTE);
    expect(got.map(({ body }) => body)).toEqual([got[0]!.body, got[0]!.body]);
    expect(got[0]!.headers["webhook-id"]).toBe(got[1]!.headers["webhook-id"]!);
  });

  test("applies conditions and include_fields to each event", async () => {
    const world = await setup();
    const { url, got } = receiver();
    await world.subscribe({
      url,
      batch_settings: { max_events: 2, max_wait_seconds: 60 },
      conditions: { n: { gt: 1 } },
      filters: { include_fields: ["n"] },
    });
    for (const n of [1, 2, 3]) await world.emit({ data: { n, secret: "s" } } as never);
    await aMoment(world);
    expect(batches(got)[0]!.data.events.map((each) => each.data)).toEqual([{ n: 2 }, { n: 3 }]);
  });

  test("closes a batch early that grows large", async () => {
    const world = await setup();
    const { url, got } = receiver();
    await world.subscribe({ url, batch_settings: { max_events: 100, max_wait_seconds: 3_600 } });
    for (let n = 0; n < 3; n++) await world.emit({ data: { n, text: "x".repeat(100_000) } } as never);
    await aMoment(world);
    expect(inBatches(got)).toEqual([[0, 1, 2]]);
  });

  test("keeps a pause, and sends what it kept in batches", async () => {
    const world = await setup();
    const { url, got } = receiver();
    const { id } = await world.subscribe({ url, batch_settings });
    await emit(world, 1);
    await world.webhooks.pause(world.caller, id);
    await aMoment(world, MINUTE);
    for (const n of [2, 3, 4, 5]) await emit(world, n);
    expect(got).toEqual([]);
    await world.webhooks.resume(world.caller, id);
    for (let n = 0; n < 3; n++) await aMoment(world, MINUTE);
    expect(inBatches(got).sort()).toEqual([[1], [2, 3, 4], [5]]);
  });

  test("keeps the order of batches too", async () => {
    const world = await setup();
    const { url, got } = receiver((_, number) => new Response(null, { status: number === 1 ? 500 : 200 }));
    await world.subscribe({ url, ordered: true, batch_settings: { max_events: 2, max_wait_seconds: 60 } });
    for (let n = 1; n <= 5; n++) await emit(world, n);
    for (let n = 0; n < 6; n++) await aMoment(world, MINUTE);
    expect(inBatches(got)).toEqual([[1, 2], [1, 2], [3, 4], [5]]);
  });

  test("that is deleted sends nothing more", async () => {
    const world = await setup();
    const { url, got } = receiver();
    const { id } = await world.subscribe({ url, batch_settings });
    await emit(world, 1);
    await world.webhooks.remove(world.caller, id);
    await aMoment(world, MINUTE);
    expect([got.length, ...jobs(world)]).toEqual([0]);
  });
});

describe("a webhook with limits of its own", () => {
  test("gets no more attempts at a time than it asks for, and all of its events", async () => {
    const world = await setup();
    let now = 0;
    let most = 0;
    const { url, got } = receiver(async () => {
      most = Math.max(most, ++now);
      await settled(30);
      now--;
      return new Response();
    });
    await world.subscribe({ url, concurrency: 2 });
    await emit(world, 0); // by its first attempt the limit is known
    await world.idle();
    await Promise.all(Array.from({ length: 39 }, (_, n) => emit(world, n + 1)));
    for (let n = 0; n < 5; n++) await aMoment(world, 250);
    expect([got.length, most]).toEqual([40, 2]);
  });

  test("gets no more a second than it asks for", async () => {
    const world = await setup();
    const { url, got } = receiver();
    await world.subscribe({ url, rate_limit_per_second: 5 });
    await emit(world, 0);
    await world.idle();
    for (let n = 1; n < 20; n++) await emit(world, n);
    const counts: number[] = [];
    for (let n = 0; n < 5; n++) {
      await aMoment(world);
      counts.push(got.length);
      await aMoment(world, 1_000);
    }
    expect(counts).toEqual([5, 10, 15, 20, 20]);
    expect(world.problems).toEqual([]);
  });
});
