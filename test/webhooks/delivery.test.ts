import { afterEach, describe, expect, test } from "bun:test";
import net, { type AddressInfo } from "node:net";
import { Webhook } from "standardwebhooks";
import { createEgress } from "../../src/egress/egress.ts";
import { insertOutbox } from "../../src/storage/sqlite/events.ts";
import { deliveryAttempt } from "../../src/webhooks/jobs.ts";
import { serviceSignature } from "../../src/webhooks/signature.ts";
import { type Got, lastLog, receiver as openReceiver, setup as openWorld } from "./setup.ts";

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

describe("a receiver that says back what it was sent", () => {
  test.each([
    [{ type: "bearer", token: "canary-bearer" }],
    [{ type: "basic", username: "ann", password: "canary-password" }],
    [{ type: "header", name: "X-Key", value: "canary-value" }],
  ])("puts no credential on record: %p", async (authentication) => {
    const world = await setup();
    const { url } = receiver(({ headers }) => {
      const told = headers["authorization"]?.split(" ")[1] ?? "";
      const said = `${JSON.stringify(headers)} ${Buffer.from(told, "base64").toString()}`;
      const location = `https://example.org/${headers["x-extra"]}`;
      return new Response(said.padStart(2_060, "."), { status: 302, headers: { location } });
    });
    const headers = { "X-Extra": "canary-extra" };
    const { id } = await world.subscribe({ url, authentication, headers } as never);
    await world.emit();
    await world.idle();
    const log = await lastLog(world, id);
    expect(log?.status).toBe("retrying");
    const tested = await world.testSend(world.caller, id, {});
    expect(tested.received.response_excerpt).toContain("[secret]");
    expect(JSON.stringify([log, tested, world.storage.reader.all("SELECT * FROM attempts")])).not.toMatch(
      /canary|Y2FuYXJ5|hbm46Y2F/,
    );
  });
});

describe("a delivery that the receiver takes", () => {
  test("arrives once, signed both ways, and is logged as success", async () => {
    const world = await setup();
    const { url, got } = receiver();
    const { id, secret } = await world.subscribe({ url });
    const [delivery] = await world.emit({}, 2);
    await world.idle();
    expect(got).toHaveLength(1);
    const { headers, body } = got[0]!;
    expect(JSON.parse(body)).toEqual({
      event: "workflow.execution.completed",
      timestamp: "2026-01-01T00:00:00.000Z",
      webhook_id: id,
      data: { status: "success", score: 3 },
    });
    expect(headers).toMatchObject({
      "content-type": "application/json",
      "user-agent": "Errand/1.2.3",
      "x-service-signature": serviceSignature(secret, body),
      "x-service-attempt": "1",
      "x-service-hop": "3",
      "webhook-id": delivery!.event_id,
      "webhook-timestamp": String(world.clock.now() / 1_000),
    });
    expect(await lastLog(world, id)).toMatchObject({
      id: delivery!.id,
      event: "workflow.execution.completed",
      status: "success",
      response_code: 200,
      attempts: 1,
      payload_size: body.length,
      error_class: null,
      next_attempt_at: null,
    });
    expect(await world.webhooks.get(world.caller, id)).toMatchObject({
      last_delivery: "2026-01-01T00:00:00.000Z",
      delivery_stats: { total_deliveries: 1, successful_deliveries: 1, failed_deliveries: 0 },
    });
    expect(world.storage.reader.all("SELECT * FROM jobs")).toEqual([]);
    expect(world.problems).toEqual([]);
  });

  test("is accepted by the official library", async () => {
    const world = await setup();
    await world.clock.advance(Date.now() - world.clock.now()); // the library checks the time
    const { url, got } = receiver();
    const { secret } = await world.subscribe({ url });
    await world.emit();
    await world.idle();
    expect(new Webhook(secret).verify(got[0]!.body, got[0]!.headers)).toMatchObject({ data: { score: 3 } });
  });

  test("carries the subscription's credentials and headers, which cannot displace ours", async () => {
    const world = await setup();
    const { url, got } = receiver();
    await world.subscribe({
      url,
      authentication: { type: "bearer", token: "t0k" },
      headers: { "X-Team": "blue" },
    });
    await world.subscribe({ url, authentication: { type: "basic", username: "ada", password: "p:w" } });
    await world.subscribe({ url, authentication: { type: "header", name: "X-Api-Key", value: "k" } });
    await world.emit();
    await world.idle();
    const sent = got.map(({ headers }) => [
      headers["authorization"],
      headers["x-team"],
      headers["x-api-key"],
    ]);
    expect(sent).toContainEqual(["Bearer t0k", "blue", undefined]);
    expect(sent).toContainEqual([`Basic ${btoa("ada:p:w")}`, undefined, undefined]);
    expect(sent).toContainEqual([undefined, undefined, "k"]);
  });

  test("an endless or compressed answer does not harm it", async () => {
    const world = await setup();
    const { url } = receiver(() => new Response("x".repeat(1_000_000)));
    const { id } = await world.subscribe({ url });
    const [delivery] = await world.emit();
    await world.idle();
    const { history } = await world.deliveries.get(world.caller, id, delivery!.id);
    expect(history[0]?.response_excerpt).toHaveLength(2_048);
    expect(history[0]?.response_code).toBe(200);
  });

  test("200 events of one webhook all arrive, never more than 64 at a time", async () => {
    const world = await setup();
    let now = 0;
    let most = 0;
    const { url, got } = receiver(async () => {
      most = Math.max(most, ++now);
      await new Promise((resolve) => setImmediate(resolve));
      now--;
      return new Response();
    });
    const { id } = await world.subscribe({ url });
    for (let n = 0; n < 200; n++) await world.emit({ subject_id: `x${n}` });
    await world.idle();
    expect(new Set(got.map(({ headers }) => headers["webhook-id"])).size).toBe(200);
    expect(most).toBeLessThanOrEqual(64);
    expect((await world.webhooks.get(world.caller, id)).delivery_stats.successful_deliveries).toBe(200);
  });
});

describe("a delivery that fails", () => {
  test("is tried again after 1, 5, 15 minutes, 1 and 6 hours with the same bytes, and then given up", async () => {
    const world = await setup();
    const { url, got } = receiver(() => new Response("no", { status: 500 }));
    const { id } = await world.subscribe({ url });
    const [delivery] = await world.emit();
    await world.idle();
    const started = world.clock.now();
    const waits: number[] = [];
    for (const wait of [1, 5, 15, 60, 360].map((minutes) => minutes * MINUTE)) {
      const entry = await lastLog(world, id);
      expect(entry).toMatchObject({ status: "retrying", reason: "the receiver answered 500" });
      waits.push(Date.parse(entry!.next_attempt_at!) - Date.parse(entry!.timestamp));
      await world.clock.advance(wait - 1_000);
      const before = got.length;
      await world.idle();
      expect(got).toHaveLength(before);
      await world.clock.advance(1_000);
      await world.idle();
      expect(got).toHaveLength(before + 1);
    }
    expect(waits).toEqual([1, 5, 15, 60, 360].map((minutes) => minutes * MINUTE));
    expect(world.clock.now() - started).toBe(441 * MINUTE);
    expect(await lastLog(world, id)).toMatchObject({ status: "failed", attempts: 6, next_attempt_at: null });
    expect(new Set(got.map(({ body }) => body)).size).toBe(1);
    expect(new Set(got.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
    expect(new Set(got.map(({ headers }) => headers["x-service-signature"])).size).toBe(1);
    expect(got.map(({ headers }) => headers["x-service-attempt"])).toEqual(["1", "2", "3", "4", "5", "6"]);
    expect((await world.deliveries.get(world.caller, id, delivery!.id)).history).toHaveLength(6);
    expect((await world.webhooks.get(world.caller, id)).delivery_stats).toEqual({
      total_deliveries: 1,
      successful_deliveries: 0,
      failed_deliveries: 1,
    });
    await world.clock.advance(48 * 60 * MINUTE);
    expect(got).toHaveLength(6);
  });

  test("succeeds on a later attempt, and the log says how many it took", async () => {
    const world = await setup();
    const { url } = receiver((_, number) => new Response(null, { status: number === 1 ? 503 : 204 }));
    const { id } = await world.subscribe({ url });
    await world.emit();
    await world.idle();
    await world.clock.advance(MINUTE);
    await world.idle();
    expect(await lastLog(world, id)).toMatchObject({
      status: "success",
      attempts: 2,
      response_code: 204,
      reason: null,
    });
  });

  test("max_retries 0 gives up at once, max_retries 6 waits the 24 hours", async () => {
    const world = await setup();
    const { url, got } = receiver(() => new Response(null, { status: 500 }));
    const once = await world.subscribe({ url, retry_policy: { max_retries: 0 } });
    await world.emit();
    await world.idle();
    expect(await lastLog(world, once.id)).toMatchObject({
      ...{ status: "failed", attempts: 1 },
      reason: "gave up after 1 attempt: the receiver answered 500",
    });
    await world.webhooks.remove(world.caller, once.id);
    const seven = await world.subscribe({ url, retry_policy: { max_retries: 6 } });
    await world.emit();
    await world.idle();
    for (const minutes of [1, 5, 15, 60, 360, 1_440]) {
      await world.clock.advance(minutes * MINUTE);
      await world.idle();
    }
    expect(got).toHaveLength(1 + 7);
    expect(await lastLog(world, seven.id)).toMatchObject({ status: "failed", attempts: 7 });
  });

  test("Retry-After puts the next attempt off and never brings it forward", async () => {
    const world = await setup();
    const { url } = receiver(
      (_, number) =>
        new Response(null, { status: 429, headers: { "retry-after": number === 1 ? "600" : "1" } }),
    );
    const { id } = await world.subscribe({ url });
    await world.emit();
    await world.idle();
    const wait = async () => Date.parse((await lastLog(world, id))!.next_attempt_at!) - world.clock.now();
    expect(await wait()).toBe(10 * MINUTE);
    await world.clock.advance(10 * MINUTE);
    await world.idle();
    expect(await wait()).toBe(5 * MINUTE);
  });

  test("410 ends it and pauses the webhook", async () => {
    const world = await setup();
    const { url, got } = receiver(() => new Response(null, { status: 410 }));
    const { id } = await world.subscribe({ url });
    await world.emit();
    await world.idle();
    expect(await lastLog(world, id)).toMatchObject({ status: "failed", response_code: 410 });
    expect(await world.webhooks.get(world.caller, id)).toMatchObject({
      status: "paused",
      status_reason: "gone: the receiver answered 410",
    });
    await world.emit();
    await world.idle();
    expect(await lastLog(world, id)).toMatchObject({ status: "paused", attempts: 0 });
    expect(got).toHaveLength(1);
  });

  test("a redirect is a failure that names where it points; nothing follows it", async () => {
    const world = await setup();
    const other = receiver();
    const { url } = receiver(() => new Response(null, { status: 307, headers: { location: other.url } }));
    const { id } = await world.subscribe({ url });
    await world.emit();
    await world.idle();
    expect(await lastLog(world, id)).toMatchObject({
      status: "retrying",
      response_code: 307,
      reason: `the receiver answered 307 and points to ${other.url}`,
    });
    expect(other.got).toEqual([]);
  });

  test("a reset connection is retried under its error class", async () => {
    const world = await setup();
    const server = net.createServer((socket) => {
      socket.on("error", () => {});
      socket.once("data", () => socket.resetAndDestroy());
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    kept({ close: () => void server.close() });
    const { id } = await world.subscribe({
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    });
    await world.emit();
    await world.idle();
    expect(await lastLog(world, id)).toMatchObject({
      status: "retrying",
      error_class: "connection_reset",
      response_code: null,
    });
  });

  test("a target that became private is blocked for good, and its canary sees nothing", async () => {
    const canary = receiver();
    const before = await setup();
    const { id } = await before.subscribe({ url: canary.url });
    const strict = await setup({ storage: before.storage, allow: [] });
    const planned = await strict.events.plan(before.caller, [strict.anEvent()], 0);
    insertOutbox(strict.storage.reader, planned.outbox);
    strict.runner.committed(planned.placements);
    await strict.idle();
    expect(await lastLog(before, id)).toMatchObject({
      status: "failed",
      attempts: 1,
      error_class: "blocked",
    });
    expect(canary.got).toEqual([]);
  });
});

describe("a dead receiver", () => {
  test("does not hold up another", async () => {
    const world = await setup();
    const stuck: (() => void)[] = [];
    const dead = receiver(() => new Promise((resolve) => stuck.push(() => resolve(new Response()))));
    const alive = receiver();
    await world.subscribe({ url: dead.url, events: ["agent.*"] });
    await world.subscribe({ url: alive.url, events: ["workflow.*"] });
    for (let n = 0; n < 50; n++) await world.emit({ kind: "agent.message.sent" });
    await dead.arrived(8);
    await world.emit();
    await alive.arrived(1);
    expect(dead.got).toHaveLength(8);
    while (world.runner.inFlight().deliveries > 0) {
      for (const answer of stuck.splice(0)) answer();
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(dead.got).toHaveLength(50);
  });
});

describe("a crash", () => {
  test("between sending and recording sends the same bytes again, once", async () => {
    const before = await setup();
    const { url, got } = receiver();
    const { id } = await before.subscribe({ url });
    const planned = await before.events.plan(before.caller, [before.anEvent()], 0);
    insertOutbox(before.storage.reader, planned.outbox);
    const row = planned.placements[0]!.row;
    const halted = { ...before.store, record: () => Promise.reject(new Error("killed")) };
    const egress = kept(createEgress({ allow: ["loopback"] }));
    const job = deliveryAttempt({
      egress,
      vault: before.vault,
      clock: before.clock,
      version: "1",
      store: halted,
      alerts: before.alerts,
      place: () => planned.placements[0]!,
      look: () => {},
    });
    const run = {
      lease: { id: row.id, attempt: row.attempt },
      attempt: 1,
      signal: new AbortController().signal,
      cancel: new AbortController().signal,
      isAborted: () => false,
      leave: () => {},
      news: { count: () => 0, listen: () => () => {} },
    };
    await expect(job.run(row.ref, run)).rejects.toThrow("killed");
    expect(got).toHaveLength(1);

    const after = await setup({ storage: before.storage });
    expect(after.recovery).toEqual({ recovered: 1, dead: 0 });
    await after.idle();
    expect(got).toHaveLength(2);
    expect(got[1]!.body).toBe(got[0]!.body);
    for (const name of ["webhook-id", "x-service-signature", "x-service-attempt"]) {
      expect(got[1]!.headers[name]).toBe(got[0]!.headers[name]);
    }
    expect(await lastLog(before, id)).toMatchObject({ status: "success", attempts: 1 });
  });

  test("a late result of an older holder changes nothing", async () => {
    const world = await setup();
    const { url } = receiver();
    const { id } = await world.subscribe({ url });
    const [delivery] = await world.emit();
    await world.idle();
    const stale = await world.store.record({
      lease: { id: "no-such-job", attempt: 1 },
      subscription_id: id,
      kind: "workflow.execution.completed",
      attempt: {
        ...{ delivery_id: delivery!.id, number: 2, started_at: 0, response_code: 500, response_time_ms: 1 },
        ...{ response_excerpt: null, error_class: null, error: "late" },
      },
      ...{ state: "failed", reason: "late", next_attempt_at: null, ended_at: 0, pause: null },
    });
    expect(stale).toBe(false);
    expect(await lastLog(world, id)).toMatchObject({ status: "success", attempts: 1 });
  });

  test("a shutdown in mid-attempt leaves the delivery for the next start", async () => {
    const world = await setup();
    const hanging = receiver(() => new Promise(() => {}));
    const { id } = await world.subscribe({ url: hanging.url });
    await world.emit();
    await hanging.arrived(1);
    const stopped = world.runner.stop(1_000);
    await world.clock.advance(1_000);
    expect(await stopped).toEqual({ unfinished: 1 });
    expect(await lastLog(world, id)).toMatchObject({ status: "pending", attempts: 0 });
    const next = await setup({ storage: world.storage, clock: world.clock, caller: world.caller });
    await hanging.arrived(2);
    expect(hanging.got[1]!.body).toBe(hanging.got[0]!.body);
    next.runner.cancel((await lastLog(next, id))!.id);
    next.close();
  });
});

describe("what changes while a delivery waits", () => {
  const failing = () => receiver(() => new Response(null, { status: 500 }));

  test("a pause holds it", async () => {
    const world = await setup();
    const { url, got } = failing();
    const { id } = await world.subscribe({ url });
    await world.emit();
    await world.idle();
    await world.webhooks.pause(world.caller, id);
    await world.clock.advance(MINUTE);
    await world.idle();
    expect(await lastLog(world, id)).toMatchObject({ status: "paused", attempts: 1 });
    expect(got).toHaveLength(1);
  });

  test("a deletion cancels it", async () => {
    const world = await setup();
    const { url, got } = failing();
    const { id } = await world.subscribe({ url });
    const [delivery] = await world.emit();
    await world.idle();
    await world.webhooks.remove(world.caller, id);
    await world.clock.advance(MINUTE);
    await world.idle();
    expect(await world.store.find(delivery!.id)).toMatchObject({ state: "cancelled" });
    expect(world.storage.reader.all("SELECT * FROM jobs")).toEqual([]);
    expect(got).toHaveLength(1);
  });

  test("a new URL is used by the next attempt", async () => {
    const world = await setup();
    const { url } = failing();
    const better = receiver();
    const { id } = await world.subscribe({ url });
    await world.emit();
    await world.idle();
    await world.webhooks.update(world.caller, id, { url: better.url });
    await world.clock.advance(MINUTE);
    await world.idle();
    expect(better.got[0]?.headers["x-service-attempt"]).toBe("2");
  });
});

describe("redelivery", () => {
  test("sends the same bytes under the same webhook-id, as a delivery of its own", async () => {
    const world = await setup();
    const { url, got } = receiver();
    const { id } = await world.subscribe({ url });
    const [first] = await world.emit();
    await world.idle();
    const { body: again } = await world.replays.redeliver(world.caller, id, first!.id);
    expect(again).toMatchObject({
      status: "pending",
      reason: `redelivery of ${first!.id}`,
      event_id: first!.event_id,
    });
    await world.idle();
    expect(got[1]!.body).toBe(got[0]!.body);
    expect(got[1]!.headers["webhook-id"]).toBe(got[0]!.headers["webhook-id"]!);
    const { items: logs } = await world.deliveries.logs(world.caller, id, { limit: 10, offset: 0 });
    expect(logs.map(({ id, status }) => [id, status])).toEqual([
      [again.id, "success"],
      [first!.id, "success"],
    ]);
  });

  test("of what was filtered or paused writes its bytes from the event", async () => {
    const world = await setup();
    const { url, got } = receiver();
    const { id } = await world.subscribe({
      url,
      conditions: { score: 9 },
      filters: { include_fields: ["score"] },
    });
    const [filtered] = await world.emit();
    await world.replays.redeliver(world.caller, id, filtered!.id);
    await world.idle();
    expect(JSON.parse(got[0]!.body)).toEqual({
      event: "workflow.execution.completed",
      timestamp: "2026-01-01T00:00:00.000Z",
      webhook_id: id,
      data: { score: 3 },
    });
    await world.webhooks.pause(world.caller, id);
    await expect(world.replays.redeliver(world.caller, id, filtered!.id)).rejects.toThrow("paused");
  });
});

describe("figures", () => {
  test("counts, success rate, percentiles and the next attempt", async () => {
    const world = await setup();
    const { url } = receiver((_, number) => new Response(null, { status: number <= 3 ? 200 : 500 }));
    const { id } = await world.subscribe({ url, retry_policy: { max_retries: 1 } });
    expect(await world.deliveries.stats(world.caller, id, { hours: 24 })).toMatchObject({
      success_rate: null,
      response_time_ms: { p50: null, p99: null, attempts: 0 },
      next_attempt_at: null,
    });
    for (let n = 0; n < 4; n++) {
      await world.emit();
      await world.idle();
    }
    expect(await world.deliveries.stats(world.caller, id, { hours: 24 })).toMatchObject({
      total_deliveries: 4,
      successful_deliveries: 3,
      failed_deliveries: 0,
      waiting_deliveries: 1,
      success_rate: 1,
      next_attempt_at: "2026-01-01T00:01:00.000Z",
    });
    await world.clock.advance(MINUTE);
    await world.idle();
    const stats = await world.deliveries.stats(world.caller, id, { hours: 24 });
    expect(stats).toMatchObject({ failed_deliveries: 1, success_rate: 0.75, waiting_deliveries: 0 });
    expect(stats.response_time_ms.attempts).toBe(5);
    expect(stats.response_time_ms.p50).toBeLessThanOrEqual(stats.response_time_ms.p99!);
  });
});

describe("a test send", () => {
  test("delivers a labelled sample at once, shows both sides and counts nowhere", async () => {
    const world = await setup();
    const { url, got } = receiver(() => new Response("hello there", { status: 202 }));
    const { id, secret } = await world.subscribe({
      ...{ url, events: ["agent.*"], authentication: { type: "bearer", token: "hidden" } },
      ...{ headers: { "X-Team": "blue" }, conditions: { message_count: { gt: 100 } } },
    });
    await world.webhooks.pause(world.caller, id);
    const result = await world.testSend(world.caller, id, {
      event: "agent.conversation.completed",
      test_data: { message_count: 7 },
    });
    expect(got).toHaveLength(1);
    expect(result).toMatchObject({
      success: true,
      event: "agent.conversation.completed",
      sent: { method: "POST", url, body: got[0]!.body },
      received: { response_code: 202, response_excerpt: "hello there", error_class: null },
      conditions: { hold: false, reason: "message_count gt 100, observed 7" },
    });
    expect(result.sent.headers["X-Service-Signature"]).toBe(serviceSignature(secret, result.sent.body));
    expect([result.sent.headers["Authorization"], result.sent.headers["X-Team"]]).toEqual(["***", "***"]);
    expect(got[0]!.headers).toMatchObject({ authorization: "Bearer hidden", "x-service-test": "true" });
    expect(JSON.parse(got[0]!.body).data).toMatchObject({ test: true, message_count: 7, status: "resolved" });
    expect((await world.webhooks.get(world.caller, id)).delivery_stats.total_deliveries).toBe(0);
    expect(await lastLog(world, id)).toBeUndefined();
  });

  test("tells an error as plainly", async () => {
    const world = await setup();
    const { url, close } = receiver();
    close();
    const { id } = await world.subscribe({ url });
    expect(await world.testSend(world.caller, id, {})).toMatchObject({
      success: false,
      event: "agent.conversation.started",
      received: { response_code: null, error_class: "connection_refused" },
    });
  });
});
