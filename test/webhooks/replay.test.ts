import { afterEach, describe, expect, test } from "bun:test";
import { iso } from "../../src/lib/clock.ts";
import { createReplays } from "../../src/webhooks/replay.ts";
import { type Got, receiver as openReceiver, setup as openWorld } from "./setup.ts";

const open: { close(): void }[] = [];
afterEach(() => {
  for (const each of open.splice(0)) each.close();
});

const MINUTE = 60_000;
const since = "2026-01-01";

/** A webhook whose receiver fails until it is told otherwise, and gives up at once. */
async function setup(more: object = {}) {
  const world = await openWorld();
  let good = false;
  const { url, got, ...receiver } = openReceiver(() => new Response(null, { status: good ? 200 : 500 }));
  open.push(world, receiver);
  const { id } = await world.subscribe({ url, retry_policy: { max_retries: 0 }, ...more });
  const fail = async (count: number) => {
    for (let n = 0; n < count; n++) {
      await world.emit({ data: { n: got.length + 1 } } as never);
      await world.idle();
      await world.clock.advance(MINUTE);
    }
  };
  const states = () =>
    world.storage.reader
      .all<{ state: string }>("SELECT state FROM deliveries ORDER BY id")
      .map(({ state }) => state);
  const settle = async () => {
    for (let n = 0; n < 4; n++) {
      await world.idle();
      await world.clock.advance(2_000);
    }
    await world.idle();
  };
  const mend = () => {
    good = true;
  };
  return { ...world, id, got, fail, states, settle, mend };
}

const idsOf = (got: Got[]) => got.map(({ headers }) => headers["webhook-id"]);
const claim = (key: string, request_hash = "h") => ({ scope: "s", key, request_hash, expires_at: 9e15 });

describe("a replay", () => {
  test("sends what failed once more, oldest first, with the same bytes and ids", async () => {
    const { replays, caller, id, got, fail, states, settle, mend } = await setup({ ordered: true });
    await fail(3);
    mend();
    const answer = await replays.replay(caller, id, { since });
    expect(answer).toEqual({
      ...{ status: 202, replayed: false },
      body: { webhook_id: id, replayed: 3, next_since: null },
    });
    await settle();
    expect(idsOf(got.slice(3))).toEqual(idsOf(got.slice(0, 3)));
    expect(got.slice(3).map(({ body }) => body)).toEqual(got.slice(0, 3).map(({ body }) => body));
    expect(states()).toEqual(["failed", "failed", "failed", "success", "success", "success"]);
  });

  test("leaves out what was sent again already, and begins anew with what failed again", async () => {
    const { replays, caller, id, fail, settle, mend } = await setup();
    await fail(2);
    const replayed = async () => {
      const { body } = await replays.replay(caller, id, { since });
      await settle();
      return body.replayed;
    };
    expect(await replayed()).toBe(2);
    mend();
    expect([await replayed(), await replayed()]).toEqual([2, 0]);
  });

  test("takes a stretch of time, kinds and another end", async () => {
    const { replays, caller, id, fail, clock, mend, settle } = await setup();
    const start = clock.now();
    await fail(4);
    const count = async (more: object) => {
      const { body } = await replays.replay(caller, id, { since, events: ["agent.message.sent"], ...more });
      return body.replayed;
    };
    expect(await count({})).toBe(0);
    mend();
    const { body } = await replays.replay(caller, id, {
      since: iso(start + MINUTE),
      until: iso(start + 2 * MINUTE),
      events: ["workflow.execution.completed"],
    });
    expect(body.replayed).toBe(2);
    await settle();
    expect((await replays.replay(caller, id, { since, status: "success" })).body.replayed).toBe(2);
    expect((await replays.replay(caller, id, { since, status: "any" })).body.replayed).toBe(2);
    await expect(replays.replay(caller, id, { since: "soon" })).rejects.toThrow("ISO 8601");
  });

  test("of thousands is capped, and says where the rest begins", async () => {
    const { replays, caller, id, storage, clock, runner } = await setup();
    await runner.stop(0); // what is put down is looked at, not sent
    const at = clock.now();
    storage.reader.run(
      `WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 10099)
       INSERT INTO deliveries (id, event_id, subscription_id, kind, state, hop, body, attempts, attempts_max, created_at)
       SELECT printf('d%06d', i), printf('e%06d', i), ?, 'workflow.execution.failed', 'failed', 1, '{}', 6, 6, ? + i FROM n`,
      id,
      at,
    );
    await clock.advance(MINUTE);
    const first = await replays.replay(caller, id, { since: iso(at) });
    expect(first.body).toEqual({ webhook_id: id, replayed: 10_000, next_since: iso(at + 10_000) });
    const rest = await replays.replay(caller, id, { since: first.body.next_since! });
    expect(rest.body.replayed).toBe(100);
    const copies = storage.reader.get(
      "SELECT count(*) AS copies, count(DISTINCT event_id) AS events FROM deliveries WHERE reason LIKE 'replay%'",
    );
    expect(copies).toEqual({ copies: 10_100, events: 10_100 });
  });

  test("under a key is done once, also when it is asked for twice at the same time", async () => {
    const { replays, caller, id, fail, states } = await setup();
    await fail(3);
    const both = await Promise.all([1, 2].map(() => replays.replay(caller, id, { since }, claim("k"))));
    expect(both.map(({ body }) => body.replayed)).toEqual([3, 3]);
    expect(both.map(({ replayed }) => replayed).sort()).toEqual([false, true]);
    expect(states()).toHaveLength(6);
    await expect(replays.replay(caller, id, { since }, claim("k", "other"))).rejects.toThrow(
      "Idempotency-Key",
    );
  });

  test("that a crash cut short is finished by asking again under the same key", async () => {
    const { replays, caller, id, fail, states, store, webhooks, clock, runner } = await setup();
    await fail(260);
    let slices = 0;
    const crashing = createReplays({
      ...{ clock, runner, inScope: webhooks.inScope },
      store: {
        ...store,
        resend: (slice) => (slices++ === 1 ? Promise.reject(new Error("killed")) : store.resend(slice)),
      },
    });
    await expect(crashing.replay(caller, id, { since }, claim("k"))).rejects.toThrow("killed");
    expect(states().length).toBeLessThan(520);
    const { body } = await replays.replay(caller, id, { since }, claim("k"));
    expect([states().length, body.replayed < 260]).toEqual([520, true]);
  });

  test("waits for a resume", async () => {
    const { replays, webhooks, caller, id } = await setup();
    await webhooks.pause(caller, id);
    await expect(replays.replay(caller, id, { since })).rejects.toThrow("paused");
  });
});

describe("a redelivery", () => {
  test("under a key is done once", async () => {
    const { replays, deliveries, caller, id, fail, states } = await setup();
    await fail(1);
    const failed = (await deliveries.logs(caller, id, { limit: 1, offset: 0 })).items[0]!.id;
    const answers = [];
    for (let n = 0; n < 2; n++) answers.push(await replays.redeliver(caller, id, failed, claim("k")));
    expect(answers.map(({ replayed, body }) => [replayed, body.id])).toEqual([
      [false, answers[0]!.body.id],
      [true, answers[0]!.body.id],
    ]);
    expect(states()).toHaveLength(2);
  });

  test("of a batch is the batch; of an event that went into one, another batch", async () => {
    const { replays, caller, id, storage, got, settle, mend, emit } = await setup({
      batch_settings: { max_events: 2, max_wait_seconds: 1 },
    });
    mend();
    const [first] = await emit();
    await emit();
    await settle();
    const { id: batch } = storage.reader.get<{ id: string }>(
      "SELECT id FROM deliveries WHERE kind = 'batch'",
    )!;
    await replays.redeliver(caller, id, batch);
    await settle();
    expect(got[1]!.body).toBe(got[0]!.body);
    await replays.redeliver(caller, id, first!.id);
    await settle();
    expect(JSON.parse(got[2]!.body)).toMatchObject({
      event: "batch",
      data: { count: 1, events: [{ id: first!.event_id }] },
    });
  });
});
