import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { EVENT_KINDS, EVENT_PATTERNS, matches } from "../../src/events/kinds.ts";
import { insertOutbox } from "../../src/storage/sqlite/events.ts";
import { deliveriesOf, setup } from "../webhooks/setup.ts";

const url = "http://127.0.0.1:1/";

describe("planning an event", () => {
  test("leaves nothing where nobody lists its kind, or in another project", async () => {
    const { events, caller, subscribe, anEvent } = await setup();
    const nothing = { outbox: [], placements: [] };
    expect(await events.plan(caller, [anEvent()], 0)).toEqual(nothing);
    await subscribe({ url, events: ["agent.*"] });
    await subscribe({ url }, { ...caller, project_id: "other" });
    expect(await events.plan(caller, [anEvent()], 0)).toEqual(nothing);
    expect(await events.plan(caller, [], 0)).toEqual(nothing);
  });

  test("gives every subscription that lists it one answer, and those to be sent need no job", async () => {
    const { webhooks, events, caller, subscribe, anEvent, storage, runner } = await setup();
    const sent = await subscribe({ url, events: ["workflow.*"] });
    const filtered = await subscribe({ url, conditions: { score: { gt: 5 } } });
    const paused = await subscribe({ url });
    await webhooks.pause(caller, paused.id);
    await subscribe({ url, events: ["agent.message.sent"] });
    const { outbox, placements } = await events.plan(caller, [anEvent()], 1);
    const planned = deliveriesOf({ outbox, placements });
    const answers = planned
      .slice(0, 2)
      .map(({ subscription_id, state, reason }) => [subscription_id, state, reason]);
    expect(answers).toEqual([
      [sent.id, "pending", null],
      [filtered.id, "filtered", "score gt 5, observed 3"],
    ]);
    const waiting = outbox[0]!.waiting!.map(({ delivery }) => delivery.subscription_id);
    expect(waiting).toEqual([paused.id]);
    const [pending] = planned;
    expect(pending).toMatchObject({ hop: 2, attempts_max: 6, event_id: outbox[0]!.event.id });
    expect(placements[1]!.row).toEqual(outbox[0]!.waiting![0]!.job);
    expect(placements[0]!.row).toMatchObject({
      ...{ kind: "delivery.attempt", lane: "deliveries", tenant: caller.workspace_id },
      ...{ key: sent.id, ref: pending!.id },
    });
    insertOutbox(storage.reader, outbox);
    const counts = storage.reader.get(
      "SELECT (SELECT count(*) FROM events) AS events, (SELECT count(*) FROM deliveries) AS deliveries, (SELECT count(*) FROM jobs) AS jobs",
    );
    expect(counts).toEqual({ events: 1, deliveries: 3, jobs: 0 });
    runner.dropped(placements);
    expect(runner.inFlight().deliveries).toBe(0);
  });

  test("the data is on disk once, and what is read back are the bytes that were sent, whatever is edited since", async () => {
    const { webhooks, deliveries, events, caller, subscribe, anEvent, storage } = await setup();
    const whole = await subscribe({ url });
    const trimmed = await subscribe({ url, filters: { include_fields: ["status"] } });
    const { outbox, placements } = await events.plan(caller, [anEvent()], 0);
    const sent = placements.map(({ payload }) => payload as { id: string; body: string });
    insertOutbox(storage.reader, outbox);
    await webhooks.update(caller, whole.id, { filters: { include_fields: ["status"] } });
    const bodies = storage.reader.all<{ body: string }>("SELECT body FROM deliveries ORDER BY id");
    expect(bodies.map(({ body }) => body)).toEqual(["", sent[1]!.body]);
    for (const [index, webhook] of [whole, trimmed].entries()) {
      const kept = await deliveries.get(caller, webhook.id, sent[index]!.id);
      expect(kept.payload).toBe(sent[index]!.body);
      expect(kept.payload_size).toBe(Buffer.byteLength(sent[index]!.body));
      const [entry] = (await deliveries.logs(caller, webhook.id, { limit: 10, offset: 0 })).items;
      expect(entry?.payload_size).toBe(kept.payload_size);
    }
  });

  test("a plan that breaks off gives back the slots that it had reserved", async () => {
    const { events, caller, subscribe, anEvent, runner } = await setup();
    await subscribe({ url });
    const broken = {
      ...anEvent(),
      data: () => {
        throw new Error("no data");
      },
    };
    await expect(events.plan(caller, [anEvent(), broken], 0)).rejects.toThrow("no data");
    expect(runner.inFlight().deliveries).toBe(0);
  });

  test("conditions come before the pause: what waits is what would have been sent", async () => {
    const { webhooks, events, caller, subscribe, anEvent, storage } = await setup();
    const { id } = await subscribe({ url, conditions: { score: { gt: 5 } } });
    await webhooks.pause(caller, id);
    const { outbox } = await events.plan(caller, [anEvent(), anEvent({ data: { score: 9 } })], 0);
    insertOutbox(storage.reader, outbox);
    expect(storage.reader.all("SELECT state FROM deliveries ORDER BY id")).toEqual([
      { state: "filtered" },
      { state: "paused" },
    ]);
  });

  test("a chain of more than 8 hops is cut", async () => {
    const { events, caller, subscribe, anEvent } = await setup();
    await subscribe({ url });
    const state = async (hop: number) => deliveriesOf(await events.plan(caller, [anEvent()], hop))[0]!;
    expect(await state(7)).toMatchObject({ state: "pending", hop: 8 });
    expect(await state(8)).toMatchObject({ state: "cancelled", reason: "a loop: more than 8 hops" });
  });

  test("include_fields trims the bytes of that subscription alone, and conditions see everything", async () => {
    const { events, caller, subscribe, anEvent } = await setup();
    await subscribe({ url, filters: { include_fields: ["status"] }, conditions: { score: 3 } });
    await subscribe({ url });
    const { outbox, placements } = await events.plan(caller, [anEvent()], 0);
    const data = deliveriesOf({ outbox, placements }).map(({ body }) => JSON.parse(body).data);
    expect(data).toEqual([{ status: "success" }, { status: "success", score: 3 }]);
    expect(JSON.parse(outbox[0]!.event.data)).toEqual({ status: "success", score: 3 });
  });

  test("the envelope has its four keys and the data exactly, whatever the data", async () => {
    const { events, caller, subscribe, anEvent, runner } = await setup();
    const { id } = await subscribe({ url });
    await fc.assert(
      fc.asyncProperty(fc.dictionary(fc.string(), fc.jsonValue()), async (data) => {
        const { outbox, placements } = await events.plan(caller, [anEvent({ data })], 0);
        const body = JSON.parse(deliveriesOf({ outbox, placements })[0]!.body);
        expect(Object.keys(body)).toEqual(["event", "timestamp", "webhook_id", "data"]);
        expect([body.webhook_id, JSON.stringify(body.data)]).toEqual([id, JSON.stringify(data)]);
        runner.dropped(placements);
      }),
    );
  });
});

test("a pattern matches its kind, its family, or everything", () => {
  for (const kind of EVENT_KINDS) {
    const matching = EVENT_PATTERNS.filter((pattern) => matches(pattern, kind));
    expect(matching).toEqual([kind, kind.startsWith("agent.") ? "agent.*" : "workflow.*", "*"]);
  }
});
