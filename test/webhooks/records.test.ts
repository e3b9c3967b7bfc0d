import { describe, expect, test } from "bun:test";
import { createEventRecords } from "../../src/events/records.ts";
import { AppError } from "../../src/lib/errors.ts";
import { cursorOf } from "../../src/lib/feed.ts";
import { newId } from "../../src/lib/ids.ts";
import { sqliteEventRecords } from "../../src/storage/sqlite/event-records.ts";
import { forgetFigures } from "../../src/webhooks/chores.ts";
import { receiver, setup } from "./setup.ts";

const HOUR = 3_600_000;
const all = { limit: 100, offset: 0 };

async function world() {
  const made = await setup();
  const eventRecords = createEventRecords({ store: sqliteEventRecords(made.storage) });
  return { ...made, eventRecords };
}

const code = async (promise: Promise<unknown>) =>
  promise.then(
    () => "done",
    (error) => (error instanceof AppError ? error.code : String(error)),
  );

describe("the log of a webhook", () => {
  test("is filtered by status, event and time, and tells the last answer", async () => {
    const { subscribe, emit, idle, clock, deliveries, caller } = await world();
    const { url } = receiver((_, number) => new Response("so it was", { status: number === 1 ? 200 : 500 }));
    const { id } = await subscribe({ url });
    const start = clock.now();
    await emit();
    await idle();
    await clock.advance(HOUR);
    await emit({ kind: "agent.message.sent" });
    await idle();
    const logs = async (more: object) =>
      (await deliveries.logs(caller, id, { ...all, ...more })).items.map(({ event, status }) => [
        event,
        status,
      ]);
    const completed = ["workflow.execution.completed", "success"];
    const sent = ["agent.message.sent", "retrying"];
    expect(await logs({})).toEqual([sent, completed]);
    expect(await logs({ status: "retrying" })).toEqual([sent]);
    expect(await logs({ status: "success" })).toEqual([completed]);
    expect(await logs({ status: "failed" })).toEqual([]);
    expect(await logs({ event: "agent.message.sent" })).toEqual([sent]);
    expect(await logs({ since: new Date(start + 1).toISOString() })).toEqual([sent]);
    expect(await logs({ since: new Date(start).toISOString() })).toEqual([sent, completed]);
    expect(await logs({ until: new Date(start).toISOString() })).toEqual([completed]);
    const [last] = (await deliveries.logs(caller, id, all)).items;
    expect(last).toMatchObject({
      response_code: 500,
      response_excerpt: "so it was",
      error_class: null,
      error: "the receiver answered 500",
      next_attempt_at: new Date(clock.now() + 60_000).toISOString(),
    });
    expect(await code(deliveries.logs(caller, id, { ...all, since: "yesterday" }))).toBe("invalid_input");
  });

  test("is read to its end page by page, whatever is filtered", async () => {
    const { subscribe, emit, clock, deliveries, caller } = await world();
    const { id } = await subscribe({ url: "http://127.0.0.1:9/", conditions: { score: { gt: 99 } } });
    for (let n = 0; n < 25; n++) {
      await emit({ data: { n }, kind: n % 5 === 0 ? "agent.message.sent" : "workflow.step.completed" });
      if (n % 3 === 0) await clock.advance(1);
    }
    for (const filter of [{}, { status: "filtered" as const }, { event: "agent.message.sent" as const }]) {
      const whole = (await deliveries.logs(caller, id, { ...all, ...filter })).items.map((one) => one.id);
      const read: string[] = [];
      let cursor: string | undefined;
      do {
        const { items, next } = await deliveries.logs(caller, id, { limit: 4, offset: 0, cursor, ...filter });
        read.push(...items.map((one) => one.id));
        cursor = next ? cursorOf(next) : undefined;
      } while (cursor);
      expect(read).toEqual(whole);
      expect(whole).toHaveLength("event" in filter ? 5 : 25);
      const offset = await deliveries.logs(caller, id, { limit: 2, offset: 3, ...filter });
      expect(offset.items.map((one) => one.id)).toEqual(whole.slice(3, 5));
    }
  });

  test("of a rare kind among very many gives short pages instead of a scan", async () => {
    const { subscribe, deliveries, caller, storage } = await world();
    const { id } = await subscribe({ url: "http://127.0.0.1:9/" });
    storage.reader.run(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 25000)
       INSERT INTO deliveries (id, event_id, subscription_id, kind, state, hop, body, attempts, attempts_max, created_at)
       SELECT printf('%08x-0000-7000-8000-000000000000', i), 'e', ?,
         CASE WHEN i = 1 THEN 'agent.message.sent' ELSE 'workflow.step.completed' END, 'success', 1, '{}', 1, 6, i FROM n`,
      id,
    );
    const read: string[] = [];
    let pages = 0;
    let cursor: string | undefined;
    do {
      const page = await deliveries.logs(caller, id, { ...all, cursor, event: "agent.message.sent" });
      read.push(...page.items.map((one) => one.event));
      cursor = page.next ? cursorOf(page.next) : undefined;
      pages++;
    } while (cursor);
    expect([read, pages]).toEqual([["agent.message.sent"], 3]);
  });
});

describe("figures of a window", () => {
  test("are told by event and by hour, and add up", async () => {
    const { subscribe, emit, idle, clock, deliveries, caller } = await world();
    const { url } = receiver((_, number) => new Response(null, { status: number === 2 ? 500 : 200 }));
    const { id } = await subscribe({
      url,
      retry_policy: { max_retries: 0 },
      conditions: { score: { lt: 5 } },
    });
    await emit();
    await idle();
    await clock.advance(HOUR);
    await emit({ kind: "agent.message.sent" });
    await idle();
    await emit({ data: { score: 7 } });
    const { window } = await deliveries.stats(caller, id, { hours: 2 });
    expect(window).toMatchObject({
      attempts: 2,
      successful_deliveries: 1,
      failed_deliveries: 1,
      success_rate: 0.5,
    });
    expect(window.by_event).toMatchObject([
      { event: "agent.message.sent", attempts: 1, failed_deliveries: 1 },
      { event: "workflow.execution.completed", attempts: 1, successful_deliveries: 1, filtered_events: 1 },
    ]);
    expect(window.by_hour).toMatchObject([
      { hour: "2026-01-01T00:00:00.000Z", successful_deliveries: 1 },
      { hour: "2026-01-01T01:00:00.000Z", failed_deliveries: 1, filtered_events: 1 },
    ]);
    expect(window.response_time_ms.p99).toBeGreaterThan(0);
    expect((await deliveries.stats(caller, id, { hours: 1 })).window).toMatchObject({ attempts: 1 });
  });

  test("tell what is overdue and what is due next", async () => {
    const { subscribe, emit, idle, clock, deliveries, caller, runner } = await world();
    const { url } = receiver(() => new Response(null, { status: 500 }));
    const { id } = await subscribe({ url });
    await emit();
    await idle();
    const due = new Date(clock.now() + 60_000).toISOString();
    expect(await deliveries.stats(caller, id, { hours: 1 })).toMatchObject({
      oldest_due_at: null,
      next_attempt_at: due,
    });
    await runner.stop(0);
    await clock.advance(2 * HOUR);
    expect(await deliveries.stats(caller, id, { hours: 1 })).toMatchObject({
      oldest_due_at: due,
      next_attempt_at: null,
    });
  });

  test("are forgotten after eight days, in slices", async () => {
    const { storage, store, clock } = await world();
    storage.reader.run(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
       INSERT INTO delivery_figures SELECT 's', ? - i * 3600000, 'k', 'success', 1, 1 FROM n`,
      clock.now(),
    );
    await forgetFigures({ store, clock }).run();
    expect(storage.reader.all("SELECT count(*) AS n FROM delivery_figures")).toEqual([{ n: 192 }]);
  });
});

describe("an event", () => {
  test("has a line for every webhook of the project that says what happened and why", async () => {
    const { subscribe, emit, idle, clock, eventRecords, webhooks, caller, storage } = await world();
    const good = receiver();
    const bad = receiver(() => new Response(null, { status: 503 }));
    const names: Record<string, Parameters<typeof subscribe>[0]> = {
      delivered: { url: good.url },
      retrying: { url: bad.url },
      failed: { url: bad.url, retry_policy: { max_retries: 0 } },
      filtered: { url: good.url, conditions: { score: { lt: 2 } } },
      paused: { url: good.url },
      not_subscribed: { url: good.url, events: ["agent.*"] },
      blocked: { url: "http://example.com/" },
    };
    const ids: Record<string, string> = {};
    for (const [name, body] of Object.entries(names)) ids[name] = (await subscribe({ ...body, name })).id;
    await webhooks.pause(caller, ids["paused"]!);
    // Allowed when it was written, and not any more.
    storage.reader.run("UPDATE subscriptions SET url = 'http://10.0.0.1/' WHERE id = ?", ids["blocked"]!);
    const [delivery] = await emit({ subject_id: "run-1" });
    await idle();
    await clock.advance(5);
    await subscribe({ url: good.url, name: "late" });
    const event = await eventRecords.get(caller, delivery!.event_id);
    expect(event).toMatchObject({ event: "workflow.execution.completed", subject_id: "run-1" });
    const lines = Object.fromEntries(event.webhooks.map((line) => [line.name, line]));
    for (const name of Object.keys(names)) expect([name, lines[name]?.outcome]).toEqual([name, name]);
    expect(lines["delivered"]?.reason).toBe("the receiver answered 200 to attempt 1");
    expect(lines["retrying"]?.reason).toBe(
      `the receiver answered 503; attempt 2 of 6 is due at ${lines["retrying"]?.next_attempt_at}`,
    );
    expect(lines["filtered"]?.reason).toBe("score lt 2, observed 3");
    expect(lines["paused"]?.reason).toBe("the webhook is paused: paused by a key holder");
    expect(lines["not_subscribed"]?.reason).toBe("lists agent.*, and not workflow.execution.completed");
    expect(lines["blocked"]?.reason).toContain("10.0.0.1 is not a public address");
    expect(lines["late"]).toMatchObject({
      outcome: "not_subscribed",
      reason: expect.stringContaining("after the event"),
    });
  });

  test("that goes into a batch is told by what becomes of the batch", async () => {
    const { subscribe, emit, idle, clock, eventRecords, caller } = await world();
    const { url } = receiver();
    await subscribe({ url, batch_settings: { max_events: 2, max_wait_seconds: 60 } });
    await emit({ subject_id: "one" });
    await idle();
    const [event] = (await eventRecords.list(caller, all)).items;
    const line = async () => (await eventRecords.get(caller, event!.id)).webhooks[0]!;
    const until = new Date(clock.now() + 60_000).toISOString();
    const open = await line();
    expect(open).toMatchObject({ outcome: "batched", attempts: 0, next_attempt_at: until });
    expect(open.reason).toBe(`in batch ${open.delivery_id}: takes events until ${until} at the latest`);
    await clock.advance(62_000);
    await idle();
    expect(await line()).toMatchObject({
      ...{ outcome: "batched", attempts: 1, response_code: 200 },
      reason: `in batch ${open.delivery_id}: the receiver answered 200 to attempt 1`,
    });
  });

  test("is told by its newest delivery after a redelivery, and after its webhook is gone", async () => {
    const { subscribe, emit, idle, replays, eventRecords, webhooks, caller } = await world();
    const { url } = receiver((_, number) => new Response(null, { status: number === 1 ? 410 : 200 }));
    const { id } = await subscribe({ url });
    const [delivery] = await emit();
    await idle();
    await webhooks.resume(caller, id);
    const { body: again } = await replays.redeliver(caller, id, delivery!.id);
    await idle();
    await webhooks.remove(caller, id);
    expect((await eventRecords.get(caller, delivery!.event_id)).webhooks).toMatchObject([
      { name: null, outcome: "delivered", delivery_id: again.id, earlier_delivery_ids: [delivery!.id] },
    ]);
  });

  test("is found by kind, subject and time, newest first, with how it went", async () => {
    const { subscribe, emit, idle, clock, eventRecords, caller } = await world();
    const { url } = receiver();
    await subscribe({ url });
    await subscribe({ url, conditions: { score: 9 } });
    await emit({ subject_id: "a" });
    await clock.advance(1_000);
    const since = new Date(clock.now()).toISOString();
    await emit({ subject_id: "b", kind: "agent.message.sent" });
    await emit({ subject_id: "b" });
    await idle();
    const list = async (more: object) => {
      const { items, total } = await eventRecords.list(caller, { ...all, ...more });
      return [items.map((one) => [one.subject_id, one.event.split(".")[0]]), total];
    };
    const [a, b, c] = [
      ["a", "workflow"],
      ["b", "agent"],
      ["b", "workflow"],
    ];
    expect(await list({})).toEqual([[c, b, a], 3]);
    expect(await list({ subject_id: "b" })).toEqual([[c, b], 2]);
    expect(await list({ event: "agent.message.sent" })).toEqual([[b], 1]);
    expect(await list({ since })).toEqual([[c, b], 2]);
    expect(await list({ subject_id: "b", event: "agent.message.sent" })).toEqual([[b], 1]);
    expect(await list({ until: since, offset: 1, limit: 1 })).toEqual([[b], undefined]);
    expect((await eventRecords.list(caller, all)).items[0]?.outcomes).toEqual({ delivered: 1, filtered: 1 });
  });

  test("of another project is out of reach, an unknown one does not exist", async () => {
    const { subscribe, emit, eventRecords, caller } = await world();
    await subscribe({ url: "http://127.0.0.1:9/", conditions: { score: 9 } });
    const [delivery] = await emit();
    const other = { ...caller, project_id: newId() };
    expect(await code(eventRecords.get(other, delivery!.event_id))).toBe("forbidden");
    expect(await code(eventRecords.get(caller, newId()))).toBe("not_found");
    expect(await code(eventRecords.get(caller, "nonsense"))).toBe("not_found");
    expect((await eventRecords.list(other, all)).items).toEqual([]);
  });
});

test("a test send to a webhook that takes batches is a batch of one", async () => {
  const { subscribe, testSend, caller } = await world();
  const { url, got } = receiver();
  const { id } = await subscribe({ url, batch_settings: { max_events: 5, max_wait_seconds: 60 } });
  const { sent } = await testSend(caller, id, { event: "agent.message.sent", test_data: { content: "x" } });
  expect(got[0]!.body).toBe(sent.body);
  expect(JSON.parse(sent.body)).toMatchObject({
    event: "batch",
    webhook_id: id,
    data: {
      batch_id: got[0]!.headers["webhook-id"],
      count: 1,
      events: [{ event: "agent.message.sent", webhook_id: id, data: { content: "x", test: true } }],
    },
  });
});

describe("a dry run", () => {
  test("tells which condition stops an event, with what each saw, and sends nothing", async () => {
    const { subscribe, dryRun, caller, storage } = await world();
    const { url, got } = receiver();
    const conditions = { score: { gt: 3 }, "resolution.category": "billing", missing: { exists: false } };
    const { id } = await subscribe({ url, conditions, filters: { include_fields: ["score"] } });
    const data = { score: 2, resolution: { category: "billing" } };
    const stopped = await dryRun(caller, id, { event: "agent.conversation.completed", data });
    expect(stopped).toMatchObject({
      ...{ would_send: false, outcome: "filtered", reason: "score gt 3, observed 2" },
      conditions: [
        { field: "score", expected: { gt: 3 }, observed: 2, holds: false },
        { field: "resolution.category", expected: "billing", observed: "billing", holds: true },
        { field: "missing", expected: { exists: false }, observed: null, holds: true },
      ],
    });
    const passed = await dryRun(caller, id, {
      event: "agent.conversation.completed",
      data: { ...data, score: 4 },
    });
    expect(passed).toMatchObject({ would_send: true, outcome: "delivered", reason: null });
    expect(JSON.parse(passed.payload)).toEqual({
      event: "agent.conversation.completed",
      timestamp: "2026-01-01T00:00:00.000Z",
      webhook_id: id,
      data: { score: 4 },
    });
    expect(got).toEqual([]);
    expect(storage.reader.all("SELECT id FROM events UNION ALL SELECT id FROM deliveries")).toEqual([]);
  });

  test("decides as the event itself is decided, and writes the same bytes", async () => {
    const { subscribe, dryRun, caller, emit, idle } = await world();
    const { url, got } = receiver();
    const { id } = await subscribe({ url, conditions: { status: "success" } });
    const data = { status: "success", text: "\u2028 ü 💡", n: 1.5 };
    const { payload, payload_size } = await dryRun(caller, id, {
      event: "workflow.execution.completed",
      data,
    });
    await emit({ data });
    await idle();
    expect(got[0]!.body).toBe(payload);
    expect(payload_size).toBe(Buffer.byteLength(payload));
  });

  test("of a webhook that takes batches shows a batch, and how long the event may wait", async () => {
    const { subscribe, dryRun, caller } = await world();
    const batch_settings = { max_events: 50, max_wait_seconds: 60 };
    const { id } = await subscribe({ url: "https://example.com/", batch_settings });
    const told = await dryRun(caller, id, { event: "agent.message.sent", data: { content: "x" } });
    expect(told).toMatchObject({
      ...{ would_send: true, outcome: "batched", batched: true },
      reason: "sent with others, at 50 events or 60 s after the first",
    });
    expect(JSON.parse(told.payload)).toMatchObject({
      event: "batch",
      data: { count: 1, events: [{ event: "agent.message.sent", webhook_id: id, data: { content: "x" } }] },
    });
  });

  test("tells a kind that is not listed and a pause, and takes a sample of its own without data", async () => {
    const { subscribe, dryRun, caller, webhooks } = await world();
    const { id } = await subscribe({ url: "https://example.com/", events: ["agent.*"] });
    expect(await dryRun(caller, id, { event: "workflow.step.completed" })).toMatchObject({
      outcome: "not_subscribed",
      reason: "lists agent.*, and not workflow.step.completed",
    });
    const { payload } = await dryRun(caller, id, {});
    expect(JSON.parse(payload)).toMatchObject({
      event: "agent.conversation.started",
      data: { user_id: "sample-user" },
    });
    await webhooks.pause(caller, id);
    expect(await dryRun(caller, id, {})).toMatchObject({
      outcome: "paused",
      reason: "paused by a key holder",
    });
  });
});
