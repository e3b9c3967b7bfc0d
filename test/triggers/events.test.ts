import { describe, expect, test } from "bun:test";
import { settled } from "../helpers/clock.ts";
import { type Any, world } from "./world.ts";

const TEXT = { body: "Hi", type: "text/plain" };
const BEARER = { type: "bearer", token: "open-sesame" };
const KNOWN = { authorization: "Bearer open-sesame" };

describe("what called a trigger", () => {
  test("is on record with its request, its answer and what came of it, newest first", async () => {
    const { aTrigger, send, until, call } = world();
    const { at, events, id, agent_id } = await aTrigger({ task: { message: "{{ event.query.n }}" } });
    const answer = await send("PUT", `${at}?n=1`, { body: { a: [1] }, headers: { "x-from": "shop" } });
    expect(await events()).toMatchObject([{ status: "accepted", completed_at: null }]);
    await until(answer.body.execution_id, "success");
    await send("PUT", `${at}?n=2`, { body: {} });
    const [newer, older] = await events();
    expect(newer.request.query).toEqual({ n: "2" });
    expect(older).toEqual({
      id: expect.any(String),
      trigger_id: id,
      agent_id,
      request: {
        method: "PUT",
        path: at,
        query: { n: "1" },
        headers: expect.objectContaining({ "x-from": "shop", "content-type": "application/json" }),
        body: { a: [1] },
      },
      response: { status: 202, body: answer.body },
      status: "completed",
      error: null,
      conversation_id: expect.any(String),
      execution_id: answer.body.execution_id,
      redelivery_of: null,
      created_at: "2026-01-01T00:00:00.000Z",
      completed_at: "2026-01-01T00:00:00.000Z",
    });
    const page = await call("GET", `/agents/${agent_id}/triggers/${id}/events?limit=1&offset=1`);
    expect([page.body.length, page.body[0].id, page.headers.get("x-total-count")]).toEqual([
      1,
      older.id,
      "2",
    ]);
  });

  test("has failed where its turn did", async () => {
    const { aTrigger, turns, until } = world();
    const { fire, events } = await aTrigger({ task: { conversation_id: "one" } });
    const first = await fire();
    const second = await fire();
    const [event] = await events();
    await turns.halt(event.conversation_id, second.body.execution_id);
    await until(second.body.execution_id, "cancelled", "success");
    await until(first.body.execution_id, "success");
    const [stopped, answered] = await events();
    expect([answered.status, stopped.status]).toEqual(["completed", "failed"]);
    expect(stopped.error.code).toBe("CANCELLED");
    for (const [status, ids] of [
      ["completed", [answered.id]],
      ["failed", [stopped.id]],
      ["accepted", []],
      ["rejected", []],
    ] as const) {
      expect((await events(`?status=${status}`)).map(({ id }: Any) => id)).toEqual([...ids]);
    }
  });

  test("is kept without credentials, wherever in the request they stand", async () => {
    const { aTrigger, send, storage, messages } = world();
    const { at, events } = await aTrigger({ auth: BEARER, task: { message: "{{ event | json }}" } });
    const answer = await send(
      "POST",
      `${at}?token=open-sesame&api_key=sk-something-long&plain=a%20open-sesame`,
      {
        body: { nested: [{ said: "it is open-sesame!" }], n: 1 },
        headers: {
          ...KNOWN,
          cookie: "session=abc-def-ghi",
          "x-api-key": "another-secret-key",
          "x-forwarded": "Bearer abcdefghij",
          "idempotency-key": "order-7",
        },
      },
    );
    expect(answer.status).toBe(202);
    const [event] = await events();
    expect(event.request).toMatchObject({
      query: { token: "[removed]", api_key: "[removed]", plain: "a [secret]" },
      headers: {
        authorization: "[removed]",
        cookie: "[removed]",
        "x-api-key": "[removed]",
        "x-forwarded": "Bearer [removed]",
        "idempotency-key": "order-7",
      },
      body: { nested: [{ said: "it is [secret]!" }], n: 1 },
    });
    const everything = ["messages", "trigger_events", "idempotency", "conversations"].map((table) =>
      JSON.stringify(storage.reader.all(`SELECT * FROM ${table}`)),
    );
    for (const secret of ["open-sesame", "abc-def-ghi", "another-secret-key", "sk-something"])
      expect(everything.filter((text) => text.includes(secret))).toEqual([]);
    expect(messages()[0]).toContain("[secret]");
  });

  test("by strangers is kept without its body, at most 20 times a minute, the newest hundred", async () => {
    const { aTrigger, storage, clock } = world();
    const { fire, events } = await aTrigger({ auth: BEARER });
    for (let n = 0; n < 50; n++) await fire({ ...TEXT, headers: { "x-n": String(n) } });
    await settled();
    const first = await events("?status=rejected");
    expect(first).toHaveLength(20);
    expect(first[0]).toMatchObject({
      request: { method: "POST", body: null },
      response: { status: 401, body: { success: false, error: { code: "UNAUTHORIZED" } } },
      error: { code: "UNAUTHORIZED", message: "the Authorization header is missing" },
      execution_id: null,
    });
    for (let minute = 0; minute < 8; minute++) {
      await clock.advance(60_000);
      for (let n = 0; n < 20; n++) await fire({ ...TEXT, headers: { authorization: "Bearer wrong" } });
    }
    await settled();
    const rows = storage.reader.all("SELECT id FROM trigger_events");
    expect(rows).toHaveLength(100);
    expect((await events("?limit=1000")).every(({ error }: Any) => error.message.includes("another"))).toBe(
      true,
    );
  });

  test("by those it knows is kept beside, and not pushed out by strangers", async () => {
    const { aTrigger, clock } = world();
    const { fire, events } = await aTrigger({ auth: BEARER });
    expect((await fire({ ...TEXT, headers: KNOWN })).status).toBe(202);
    for (let minute = 0; minute < 7; minute++) {
      for (let n = 0; n < 20; n++) await fire(TEXT);
      await clock.advance(60_000);
    }
    await settled();
    expect((await events("?limit=1000")).filter(({ status }: Any) => status !== "rejected")).toHaveLength(1);
  });

  test("goes with its conversation", async () => {
    const { aTrigger, conversations, until } = world();
    const { fire, events } = await aTrigger();
    const { body } = await fire();
    await until(body.execution_id, "success");
    const [event] = await events();
    await conversations.admin.remove(event.conversation_id);
    expect(await events()).toEqual([]);
  });
});

describe("a call that is delivered again", () => {
  test("is told to the agent once more, by the templates of now", async () => {
    const { aTrigger, call, messages, put } = await withTrigger();
    await aTrigger.fire({ body: { n: 7 } });
    const [event] = await aTrigger.events();
    await put({ task_config: { message: "again {{ event.body.n }}" } });
    const answer = await call("POST", `${aTrigger.events_at}/${event.id}/redeliver`);
    expect([answer.status, answer.body]).toMatchObject([
      202,
      {
        request: event.request,
        status: "accepted",
        redelivery_of: event.id,
        response: { status: 202, body: { success: true, execution_id: answer.body.execution_id } },
      },
    ]);
    expect(messages()).toEqual(["first 7", "again 7"]);
    expect((await aTrigger.events())[0].id).toBe(answer.body.id);
  });

  test("is one delivery for one Idempotency-Key", async () => {
    const { aTrigger, send, messages } = await withTrigger();
    await aTrigger.fire({ body: { n: 7 } });
    const [event] = await aTrigger.events();
    const headers = { "idempotency-key": "once" };
    const at = `${aTrigger.events_at}/${event.id}/redeliver`;
    const answers = await Promise.all([1, 2, 3].map(() => send("POST", at, { key: "mine", headers })));
    expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1);
    expect(answers.filter(({ headers }) => headers.get("idempotent-replay") === "true")).toHaveLength(2);
    expect(messages()).toHaveLength(2);
  });

  test("may have been refused for what it lacked, but not for who sent it; an inactive trigger says so", async () => {
    const { aTrigger, call, messages, put } = await withTrigger(BEARER);
    expect((await aTrigger.fire({ body: {}, headers: KNOWN })).status).toBe(400);
    expect((await aTrigger.fire({ body: { n: 1 } })).status).toBe(401);
    await settled();
    const [stranger, lacking] = await aTrigger.events();
    const again = (id: string) => call("POST", `${aTrigger.events_at}/${id}/redeliver`);
    expect((await again(stranger.id)).body.error.message).toContain("not recognised");
    expect((await again(lacking.id)).status).toBe(400);
    await put({ task_config: { message: "n is {{ event.body.n | default: 'missing' }}" } });
    expect((await again(lacking.id)).status).toBe(202);
    expect(messages()).toEqual(["n is missing"]);
    await put({ is_active: false });
    expect((await again(lacking.id)).status).toBe(409);
    await put({ is_active: true, task_config: { message: "{% if false %}x{% endif %}" } });
    expect((await again(lacking.id)).body).toMatchObject({ status: "completed", redelivery_of: lacking.id });
    for (const odd of [crypto.randomUUID(), "x"]) expect((await again(odd)).status).toBe(404);
  });

  async function withTrigger(auth?: object) {
    const all = world();
    const made = await all.aTrigger({
      ...(auth ? { auth } : {}),
      task: { message: "first {{ event.body.n }}" },
    });
    const events_at = `/agents/${made.agent_id}/triggers/${made.id}/events`;
    return { ...all, put: made.put, aTrigger: { ...made, events_at } };
  }
});

describe("a call and its record", () => {
  test("are one: where the message cannot be stored there is neither", async () => {
    const { aTrigger, storage, messages } = world();
    const { fire, events } = await aTrigger();
    storage.reader.run(
      "CREATE TRIGGER full BEFORE INSERT ON jobs BEGIN SELECT RAISE(ABORT, 'disk full'); END",
    );
    const answer = await fire();
    expect([answer.status >= 500, answer.body.success]).toEqual([true, false]);
    expect([messages(), await events()]).toEqual([[], []]);
    storage.reader.run("DROP TRIGGER full");
    expect((await fire()).status).toBe(202);
    expect([messages().length, (await events()).length]).toEqual([1, 1]);
  });

  test("are there with the events that tell of it", async () => {
    const { aTrigger, subscribe, eventRows } = world();
    subscribe("agent.message.received");
    const { fire, agent_id } = await aTrigger({ task: { message: "Push by {{ event.body.who }}" } });
    await fire({ body: { who: "ada" } });
    expect(eventRows()).toMatchObject([
      { kind: "agent.message.received", data: { agent_id, content: "Push by ada", role: "user" } },
    ]);
  });
});
