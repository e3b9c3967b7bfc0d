import { describe, expect, test } from "bun:test";
import { sqliteAlerts } from "../../src/storage/sqlite/alerts.ts";
import { forgetAlerts } from "../../src/webhooks/chores.ts";
import { smtpServer } from "../mail/server.ts";
import { receiver, setup } from "../webhooks/setup.ts";

const HOUR = 3_600_000;
const impatient = { retry_policy: { max_retries: 0 } };

/** A world whose owner gets mail, and a receiver that answers as it is told. */
async function world(more: Parameters<typeof setup>[0] = {}) {
  const server = await smtpServer();
  const made = await setup({ smtp_url: server.url, owner: "owner@example.org", ...more });
  const answer = { status: 500, body: "out of order" };
  const target = receiver(() => new Response(answer.body, { status: answer.status }));

  /** An event, all that follows from it, and the mails that are due. */
  async function happen(more: Parameters<typeof made.emit>[0] = {}) {
    const deliveries = await made.emit(more);
    await made.idle();
    await mailed();
    return deliveries;
  }
  async function mailed() {
    await made.clock.advance(2_000);
    while (made.runner.inFlight().timers > 0) await new Promise((resolve) => setTimeout(resolve, 1));
    await made.idle();
  }
  const subjects = () =>
    server.received.map(({ raw }) => /^Subject: (.*(\r\n .*)*)$/m.exec(raw)![1]!.replace(/\r\n /g, " "));
  return { ...made, server, answer, target, happen, mailed, subjects };
}

describe("the owner is told", () => {
  test("of a delivery that was given up, with the last answer and the commands to send it again", async () => {
    const { subscribe, target, happen, server, subjects, alerts, logged, caller } = await world();
    await using _ = server;
    const { id } = await subscribe({ url: target.url, name: "Billing", ...impatient });
    const [delivery] = await happen();
    expect(subjects()).toEqual(["Errand gave up a delivery to Billing"]);
    const { raw } = server.received[0]!;
    const text = raw.replace(/=\r\n/g, "");
    for (const part of [
      "owner@example.org",
      target.url,
      "workflow.execution.completed",
      "500",
      "out of order",
      `errand webhooks redeliver ${id} ${delivery!.id}`,
      `errand webhooks replay ${id} --since`,
    ])
      expect(text).toContain(part);
    expect((await alerts.list(caller, id)).alerts).toMatchObject([
      { kind: "exhausted", status: "sent", delivery_id: delivery!.id, error: null },
    ]);
    expect(logged.join("")).toContain("Errand gave up a delivery to Billing");
  });

  test("once an hour at most for a webhook, however many deliveries are given up", async () => {
    const { subscribe, target, happen, server, subjects, clock, emit, idle } = await world();
    await using _ = server;
    await subscribe({ url: target.url, name: "one", ...impatient });
    for (let n = 0; n < 20; n++) await emit();
    await idle();
    await happen();
    expect(subjects()).toHaveLength(1);
    await clock.advance(HOUR);
    await happen();
    await happen();
    expect(subjects()).toHaveLength(2);
  });

  test("with a replay that reaches back to what was given up after hours of attempts", async () => {
    const { subscribe, target, happen, server, clock, emit, idle, replays, caller } = await world();
    await using _ = server;
    const { id } = await subscribe({ url: target.url, retry_policy: { max_retries: 1 } });
    await emit();
    await idle();
    await clock.advance(20_000);
    await happen();
    for (let n = 0; n < 4; n++) {
      await clock.advance(40_000);
      await happen();
    }
    const text = server.received[0]!.raw.replace(/=\r\n/g, "");
    const since = /replay \S+ --since (\S+)/.exec(text)![1]!;
    const { body } = await replays.replay(caller, id, { since });
    expect(body.replayed).toBeGreaterThanOrEqual(2);
    expect((await replays.replay(caller, id, { since: "2000-01-01" })).body.replayed).toBe(0);
  });

  test("at most twice an hour of a receiver that fails every other time", async () => {
    const { subscribe, target, happen, server, subjects, answer, clock, alerts } = await world();
    await using _ = server;
    await subscribe({ url: target.url, name: "moody", ...impatient });
    for (let n = 0; n < 10; n++) {
      answer.status = n % 2 === 0 ? 500 : 200;
      await happen();
    }
    expect(subjects()).toEqual(["Errand gave up a delivery to moody", "Errand delivers again to moody"]);
    expect(await alerts.troubledCount()).toBe(0);
    await clock.advance(HOUR);
    answer.status = 500;
    await happen();
    expect(subjects()).toHaveLength(3);
  });

  test("after the hour, of what was given up and mended within it", async () => {
    const { subscribe, target, happen, server, subjects, answer, clock, replays, caller } = await world();
    await using _ = server;
    const { id } = await subscribe({ url: target.url, name: "moody", ...impatient });
    const turn = async (status: number) => {
      answer.status = status;
      await happen();
    };
    await turn(500);
    await turn(200);
    await clock.advance(HOUR / 2);
    await turn(500); // of which nobody is told
    await turn(200);
    expect(subjects()).toHaveLength(2);
    await clock.advance(HOUR / 2);
    await turn(200);
    expect(subjects()[2]).toBe("Errand delivers again to moody");
    const text = server.received[2]!.raw.replace(/=\r\n/g, "");
    const since = /replay \S+ --since (\S+)/.exec(text)![1]!;
    expect((await replays.replay(caller, id, { since })).body.replayed).toBe(1);
    await turn(200);
    await clock.advance(HOUR);
    await turn(200);
    expect(subjects()).toHaveLength(3);
  });

  test("of a pause and of the recovery, once each", async () => {
    const { subscribe, target, happen, server, subjects, answer, webhooks, caller, alerts } = await world();
    await using _ = server;
    const { id } = await subscribe({ url: target.url, name: "shop", ...impatient });
    await happen();
    answer.status = 410;
    await happen();
    expect(subjects()).toEqual(["Errand gave up a delivery to shop", "Errand stopped sending to shop"]);
    answer.status = 200;
    await webhooks.resume(caller, id);
    await happen();
    await happen();
    expect(subjects()[2]).toBe("Errand delivers again to shop");
    expect((await alerts.list(caller, id)).alerts).toHaveLength(3);
    expect(await alerts.troubledCount()).toBe(0);
  });

  test("of nothing while a delivery still has attempts, or goes well", async () => {
    const { subscribe, target, happen, answer, server, subjects } = await world();
    await using _ = server;
    await subscribe({ url: target.url });
    await happen();
    answer.status = 200;
    await happen();
    expect(subjects()).toEqual([]);
  });

  test("by a header that no webhook's name can break out of", async () => {
    const { subscribe, target, happen, server } = await world();
    await using _ = server;
    await subscribe({ url: target.url, name: "x\r\nBcc: eve@example.org\r\n\r\nhello", ...impatient });
    await happen();
    expect(server.received).toHaveLength(1);
    expect(server.received[0]!.raw).not.toMatch(/^Bcc:/m);
  });
});

describe("an alert", () => {
  test("without a mail server, or without an owner, is logged", async () => {
    for (const [options, why] of [
      [{ smtp_url: undefined }, "no_server"],
      [{ owner: undefined }, "no_owner"],
    ] as const) {
      const { subscribe, target, happen, server, alerts, logged, caller } = await world(options);
      await using _ = server;
      const { id } = await subscribe({ url: target.url, name: "n", ...impatient });
      await happen();
      expect((await alerts.list(caller, id)).alerts).toMatchObject([{ status: "logged", error: why }]);
      expect(logged.join("")).toContain("gave up a delivery to n");
    }
  });

  test("is mailed later when the mail server is away, also after a restart", async () => {
    const before = await world();
    const { url } = before.server;
    await before.server[Symbol.asyncDispose]();
    const { id } = await before.subscribe({ url: before.target.url, ...impatient });
    await before.happen();
    expect((await before.alerts.list(before.caller, id)).alerts).toMatchObject([{ status: "pending" }]);
    await before.runner.stop(0);
    const server = await smtpServer({}, Number(new URL(url).port));
    await using _ = server;
    const after = await setup({ storage: before.storage, smtp_url: url, owner: "owner@example.org" });
    await after.clock.advance(10 * 60_000);
    while (server.received.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    await after.idle();
    expect((await after.alerts.list(before.caller, id)).alerts).toMatchObject([{ status: "sent" }]);
  });

  test("of trouble from before a restart still ends in a recovery", async () => {
    const before = await world();
    await using _ = before.server;
    const { id } = await before.subscribe({ url: before.target.url, ...impatient });
    await before.happen();
    await before.runner.stop(0);
    before.answer.status = 200;
    const after = await setup({ storage: before.storage });
    const planned = await after.events.plan(before.caller, [after.anEvent()], 0);
    const { insertOutbox } = await import("../../src/storage/sqlite/events.ts");
    insertOutbox(before.storage.reader, planned.outbox);
    after.runner.committed(planned.placements);
    await after.idle();
    expect((await after.alerts.list(before.caller, id)).alerts.map(({ kind }) => kind)).toEqual([
      "recovered",
      "exhausted",
    ]);
  });

  test("is forgotten a quarter of a year after it was sent", async () => {
    const { subscribe, target, happen, server, alerts, clock, storage, caller } = await world();
    await using _ = server;
    const { id } = await subscribe({ url: target.url, ...impatient });
    await happen();
    const chore = forgetAlerts({ store: sqliteAlerts(storage), clock });
    await clock.advance(89 * 24 * HOUR);
    await chore.run();
    expect((await alerts.list(caller, id)).alerts).toHaveLength(1);
    await clock.advance(2 * 24 * HOUR);
    await chore.run();
    expect((await alerts.list(caller, id)).alerts).toEqual([]);
  });

  test("is not raised by an attempt whose job somebody else holds", async () => {
    const { subscribe, target, happen, server, alerts, store, caller } = await world();
    await using _ = server;
    const { id } = await subscribe({ url: target.url });
    const [delivery] = await happen();
    const recorded = await store.record({
      lease: { id: "no-such-job", attempt: 1 },
      ...{ subscription_id: id, kind: "workflow.execution.completed", reason: "late" },
      attempt: {
        ...{ delivery_id: delivery!.id, number: 2, started_at: 0, response_code: 500, response_time_ms: 1 },
        ...{ response_excerpt: null, error_class: null, error: "late" },
      },
      ...{ state: "failed", next_attempt_at: null, ended_at: 0, pause: null },
      alert: alerts.prepare(id, "failed"),
    });
    expect([recorded, (await alerts.list(caller, id)).alerts]).toEqual([false, []]);
  });
});
