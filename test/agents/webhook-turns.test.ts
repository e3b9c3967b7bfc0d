import { describe, expect, test } from "bun:test";
import { sha256Hex } from "../../src/lib/secrets.ts";
import { settled } from "../helpers/clock.ts";
import type { Call } from "../models/chat-server.ts";
import { CALLER, world } from "./world.ts";

const claim = (key: string, body: string) => ({
  scope: "hooks/agents/a",
  key,
  request_hash: sha256Hex(body),
  expires_at: Date.UTC(2026, 0, 2),
});

type World = ReturnType<typeof world>;

/** Answers each call of the model as it comes, moving the clock between them, until the turn has ended. */
async function served(w: World, id: string, answer: (call: Call, n: number) => void): Promise<number> {
  let calls = 0;
  let isOver = false;
  const serve = async () => {
    for (;;) {
      const call = await w.server.next();
      if (isOver) return;
      answer(call, ++calls);
    }
  };
  void serve();
  for (let n = 0; n < 2_000; n++) {
    const { status } = (await w.turns.status(id))!;
    if (status !== "queued" && status !== "running") break;
    await w.clock.advance(250);
  }
  isOver = true;
  return calls;
}

describe("a message by webhook", () => {
  test("whose turn is ended as it begins is no failure of a job", async () => {
    const w = world({ model: "server" });
    const agent = await w.anAgent();
    const { id } = await w.enqueue(agent, "Hi", {});
    const call = await w.server.next();
    // As deleting its conversation leaves it, where the turn was not yet among those that can be stopped.
    for (const table of ["jobs", "turns", "messages", "conversations"]) {
      w.storage.reader.run(`DELETE FROM ${table}`);
    }
    w.runner.cancel(id);
    for (let n = 0; n < 50 && !call.gone.aborted; n++) await settled();
    for (let n = 0; n < 50 && w.runner.inFlight().turns > 0; n++) await settled();
    expect(w.runner.inFlight().turns).toBe(0);
    expect(w.reports).toEqual([]);
  });

  test("is on record with its job before it is answered, and answered then", async () => {
    const w = world({ model: "server" });
    w.subscribe("agent.*");
    const agent = await w.anAgent();
    const { id, status, replayed } = await w.enqueue(agent, "Hi", {
      user_id: "u1",
      metadata: { plan: "pro" },
    });
    expect([status, replayed]).toEqual([202, false]);
    expect(w.rows("conversations")).toMatchObject([{ user_id: "u1", metadata: '{"plan":"pro"}' }]);
    expect(w.rows("messages")).toMatchObject([{ role: "user", turn_id: id }]);
    expect(w.rows("jobs").filter(({ kind }) => kind === "agent.turn")).toMatchObject([{ ref: id }]);
    expect(await w.turns.status(id)).toMatchObject({ execution_id: id, agent_id: agent, reply: null });

    (await w.server.next()).say("Hello").finish();
    expect(await w.until(id, "success")).toMatchObject({
      reply: "Hello",
      error: null,
      completed_at: "2026-01-01T00:00:00.000Z",
    });
    const [conversation] = (await w.conversations.list(CALLER, agent, { limit: 10, offset: 0 })).items;
    expect(conversation).toMatchObject({ user_id: "u1", message_count: 2 });
    expect(w.eventRows().map(({ kind }) => kind)).toEqual([
      "agent.conversation.started",
      "agent.message.received",
      "agent.message.sent",
    ]);
    await settled();
    expect(w.rows("jobs")).toEqual([]);
  });

  test("goes on with the conversation that its context names, and tells the model the rest of it", async () => {
    const w = world({ model: "server" });
    const agent = await w.anAgent();
    const first = await w.enqueue(agent, "One", { context: { conversation_id: "ticket-7" } });
    (await w.server.next()).say("1").finish();
    await w.until(first.id, "success");
    const context = { conversation_id: "ticket-7", order: { id: 5 } };
    const second = await w.enqueue(agent, "Two", { context });
    const call = await w.server.next();
    expect(call.body.messages).toEqual([
      { role: "user", content: "One" },
      { role: "assistant", content: "1" },
      { role: "user", content: 'Two\n\nContext:\n{"order":{"id":5}}' },
    ]);
    call.say("2").finish();
    await w.until(second.id, "success");
    const { messages } = await w.conversations.get(CALLER, agent, "ticket-7");
    expect(messages.map(({ content }) => content)).toEqual(["One", "1", "Two", "2"]);
  });

  test.each([5, "", {}, "x".repeat(201)])(
    "whose conversation is named %j is refused",
    async (conversation_id) => {
      const w = world();
      const enqueued = w.enqueue(await w.anAgent(), "Hi", { context: { conversation_id } as never });
      expect(await enqueued.catch(({ code }) => code)).toBe("invalid_input");
      expect(w.rows("messages")).toEqual([]);
    },
  );

  test("sent twice under one idempotency key is one, whatever the moment", async () => {
    const w = world();
    const agent = await w.anAgent();
    const send = (body: string) => w.enqueue(agent, body, { idempotency: claim("k", body) });
    const [first, second] = await Promise.all([send("Hi"), send("Hi")]);
    const third = await send("Hi");
    expect([first.replayed, second.replayed, third.replayed]).toEqual([false, true, true]);
    expect([second.id, third.id]).toEqual([first.id, first.id]);
    expect(await send("Other").catch(({ code }) => code)).toBe("conflict");
    await w.until(first.id, "success");
    expect(w.rows("conversations")).toMatchObject([{ message_count: 2 }]);
    expect(w.rows("turns")).toHaveLength(1);
    await settled();
    expect(w.rows("jobs")).toEqual([]);
  });

  test("behind others of its conversation waits for them, and sees their answers", async () => {
    const w = world({ model: "server" });
    const agent = await w.anAgent();
    const context = { conversation_id: "c1" };
    const turns = [];
    for (const message of ["a", "b", "c"]) turns.push(await w.enqueue(agent, message, { context }));
    const told: string[][] = [];
    for (const { id } of turns) {
      const call = await w.server.next();
      told.push(call.body.messages.map(({ content }: { content: string }) => content));
      call.say(told.at(-1)!.at(-1)!.toUpperCase()).finish();
      await w.until(id, "success");
    }
    expect(told).toEqual([["a"], ["a", "A", "b"], ["a", "A", "b", "B", "c"]]);
    const { messages } = await w.conversations.get(CALLER, agent, "c1");
    expect(messages.map(({ content }) => content)).toEqual(["a", "A", "b", "B", "c", "C"]);
  });

  test("passes its hop on to what is delivered", async () => {
    const w = world();
    w.subscribe("agent.message.sent");
    const { id } = await w.enqueue(await w.anAgent(), "Hi", { hop: 3 });
    await w.until(id, "success");
    expect(w.rows("deliveries")).toMatchObject([{ hop: 4 }]);
  });
});

describe("a model that fails", () => {
  test("for a moment is asked again later; nothing is stored twice", async () => {
    const w = world({ model: "server" });
    const agent = await w.anAgent();
    const { id } = await w.enqueue(agent, "Hi", { context: { conversation_id: "c1" } });
    // Two calls an attempt, so the answer is the third attempt's.
    const calls = await served(w, id, (call, n) => (n < 5 ? call.refuse(500) : call.say("Hello").finish()));
    expect(calls).toBe(5);
    expect(await w.turns.status(id)).toMatchObject({ status: "success", reply: "Hello" });
    expect((await w.conversations.get(CALLER, agent, "c1")).message_count).toBe(2);
    await settled();
    expect(w.rows("jobs")).toEqual([]);
  });

  test("every time fails the turn after three attempts, with no event of a message sent", async () => {
    const w = world({ model: "server" });
    w.subscribe("agent.message.sent");
    const { id } = await w.enqueue(await w.anAgent(), "Hi");
    const calls = await served(w, id, (call) => call.refuse(429));
    expect(calls).toBe(6);
    expect(await w.turns.status(id)).toMatchObject({
      status: "failed",
      reply: null,
      error: { code: "MODEL_RATE_LIMITED" },
    });
    expect(w.eventRows()).toEqual([]);
    await settled();
    expect(w.rows("jobs")).toEqual([]);
  });

  test("for good is not asked again", async () => {
    const w = world({ model: "server" });
    const { id } = await w.enqueue(await w.anAgent(), "Hi");
    (await w.server.next()).refuse(401);
    expect((await w.until(id, "failed")).error?.code).toBe("MODEL_UNAUTHORIZED");
  });
});

describe("after a crash", () => {
  test("a turn under way is run again and answered once", async () => {
    const w = world({ model: "server" });
    const agent = await w.anAgent();
    const { id } = await w.enqueue(agent, "Hi", { context: { conversation_id: "c1" } });
    const before = await w.server.next();

    const next = world({ storage: w.storage });
    expect(await next.turns.recover()).toBe(0);
    expect(await next.runner.start()).toMatchObject({ recovered: 1 });
    expect((await next.until(id, "success")).reply).toContain("offline model");

    // The program that was thought dead finishes late: its answer is not taken.
    before.say("Late").finish();
    await settled(30);
    const { messages } = await next.conversations.get(CALLER, agent, "c1");
    expect(messages.map(({ role }) => role)).toEqual(["user", "assistant"]);
    expect(messages[1]?.content).not.toBe("Late");
    expect(next.rows("jobs")).toEqual([]);
  });

  test("and two more of them, the turn is given up and says so", async () => {
    const w = world({ model: "server" });
    const { id } = await w.enqueue(await w.anAgent(), "Hi");
    await w.server.next();
    w.storage.reader.run("UPDATE jobs SET crashes = 2");
    const next = world({ storage: w.storage });
    expect(await next.runner.start()).toMatchObject({ dead: 1 });
    expect(await next.turns.status(id)).toMatchObject({ status: "failed", error: { code: "CRASH_LOOP" } });
  });
});

test("a turn whose agent was deleted in the meantime fails and says so", async () => {
  const w = world({ model: "server" });
  const agent = await w.anAgent();
  const context = { conversation_id: "c1" };
  const first = await w.enqueue(agent, "One", { context });
  const second = await w.enqueue(agent, "Two", { context });
  const call = await w.server.next();
  await w.agents.remove(CALLER, agent);
  call.say("1").finish();
  await w.until(first.id, "success");
  expect((await w.until(second.id, "failed")).error?.code).toBe("GONE");
});

test("the status of a turn that there is not is nothing", async () => {
  const { turns } = world();
  expect(await turns.status("01900000-0000-7000-8000-000000000000")).toBeUndefined();
  expect(await turns.status("no-uuid")).toBeUndefined();
});
