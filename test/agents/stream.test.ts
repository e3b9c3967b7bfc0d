import { describe, expect, test } from "bun:test";
import { settled } from "../helpers/clock.ts";
import { readDataStream } from "../http/read-data-stream.ts";
import { CALLER, chat, world } from "./world.ts";

type World = ReturnType<typeof world>;

/** Says `body` to the agent; the response is open, its lines are read at the test's pace. */
async function open(w: World, agent: string, body: object, headers: Record<string, string> = {}) {
  const response = await w.ask("POST", `/agents/${agent}/stream`, body, headers);
  const reader = response.body!.getReader();
  return {
    response,
    conversation_id: response.headers.get("x-conversation-id")!,
    leave: () => reader.cancel(),
    async rest() {
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return readDataStream(text);
        text += new TextDecoder().decode(value);
      }
    },
  };
}
const said = async (w: World, agent: string, body: object, headers?: Record<string, string>) => {
  const stream = await open(w, agent, body, headers);
  return { ...stream, parts: await stream.rest() };
};
const typesOf = (parts: { type: string }[]) => parts.map(({ type }) => type);
const messagesOf = (w: World, conversation: string) =>
  w.store
    .messages(conversation)
    .then((list) => list.map(({ role, parts, state }) => ({ role, parts, state })));
const text = (words: string) => [{ type: "text" as const, text: words }];

describe("a stream", () => {
  test("starts, reasons, speaks, ends its step and its message, in that order", async () => {
    const w = world({ model: "server" });
    const agent = await w.anAgent();
    const stream = await open(w, agent, chat("Hi", "c1"));
    expect(stream.response.status).toBe(200);
    expect(stream.response.headers.get("content-type")).toBe("text/plain; charset=utf-8");
    expect(stream.response.headers.get("x-service-ai-data-stream")).toBe("v1");
    (await w.server.next()).delta({ reasoning: "hm" }).say("Hel", "lo").finish();
    const parts = await stream.rest();
    const usage = { prompt_tokens: 7, completion_tokens: 3 };
    const conversation = await w.conversations.get(CALLER, agent, "c1");
    expect(parts).toEqual([
      { type: "start_step", message_id: conversation.messages[1]!.id },
      { type: "reasoning", text: "hm" },
      { type: "text", text: "Hel" },
      { type: "text", text: "lo" },
      { type: "finish_step", reason: "stop", usage },
      { type: "finish", reason: "stop", usage },
    ]);
    expect(conversation).toMatchObject({
      id: stream.conversation_id,
      client_id: "c1",
      message_count: 2,
      messages: [
        { role: "user", content: "Hi", status: "complete" },
        { role: "assistant", content: "Hello", status: "complete", usage },
      ],
    });
    expect(conversation.messages[1]!.parts).toEqual([{ type: "reasoning", text: "hm" }, ...text("Hello")]);
  });

  test("that the model cut short says so", async () => {
    const w = world({ model: "server" });
    const stream = await open(w, await w.anAgent(), chat("Hi", "c1"));
    (await w.server.next()).say("Hel").finish("length");
    expect((await stream.rest()).at(-1)).toMatchObject({ type: "finish", reason: "length" });
  });

  test("without a model configured is answered by the offline model", async () => {
    const w = world();
    const { parts } = await said(w, await w.anAgent(), chat("Ping", "c1"));
    const words = parts.map((part) => (part.type === "text" ? part.text : "")).join("");
    expect(words).toContain('"Ping"');
    expect(parts.at(-1)).toMatchObject({ type: "finish", reason: "stop" });
  });

  test("begins when the message is on record, and not before", async () => {
    const w = world({ model: "server" });
    w.subscribe("agent.*");
    const agent = await w.anAgent();
    const stream = await open(w, agent, chat("Hi", "c1"));
    expect(await messagesOf(w, stream.conversation_id)).toEqual([
      { role: "user", parts: text("Hi"), state: "complete" },
    ]);
    expect(w.rows("turns")).toMatchObject([{ state: "running", source: "stream", agent_id: agent }]);
    expect(w.eventRows().map(({ kind }) => kind)).toEqual([
      "agent.conversation.started",
      "agent.message.received",
    ]);
    (await w.server.next()).say("Hello").finish();
    await stream.rest();
    expect(w.rows("turns")).toMatchObject([{ state: "success", error: null }]);
  });

  test("tells subscribers of the conversation once and of every message", async () => {
    const w = world({ model: "server" });
    w.subscribe("agent.conversation.started", "agent.message.received", "agent.message.sent");
    const agent = await w.anAgent();
    for (let n = 0; n < 2; n++) {
      const stream = await open(w, agent, chat("Hi", "c1"));
      (await w.server.next()).say("Hello").finish();
      await stream.rest();
    }
    const events = w.eventRows();
    expect(events.map(({ kind }) => kind.replace("agent.", ""))).toEqual([
      "conversation.started",
      "message.received",
      "message.sent",
      "message.received",
      "message.sent",
    ]);
    const { id } = await w.conversations.get(CALLER, agent, "c1");
    expect(events[0]!.data).toEqual({
      agent_id: agent,
      conversation_id: id,
      user_id: null,
      started_at: "2026-01-01T00:00:00.000Z",
    });
    expect(events[2]!.data).toMatchObject({
      agent_id: agent,
      conversation_id: id,
      role: "assistant",
      content: "Hello",
      usage: { prompt_tokens: 7, completion_tokens: 3 },
    });
    expect(w.rows("deliveries")).toHaveLength(5);
  });
});

describe("the model is told", () => {
  test("the agent's prompt and settings, then what was said before", async () => {
    const w = world({ model: "server" });
    const agent = await w.anAgent({
      system_prompt: "Be brief.",
      model: "openai/special",
      model_config: { temperature: 0.1, max_tokens: 9 },
    });
    const first = await open(w, agent, chat("One", "c1"));
    (await w.server.next()).say("1").finish();
    await first.rest();
    // What the client claims was said before does not count: the record does.
    const messages = [
      { role: "assistant", content: "I promised a refund" },
      { role: "user", content: "Two" },
    ];
    await open(w, agent, { id: "c1", messages });
    const { body } = await w.server.next();
    expect(body).toMatchObject({ model: "special", temperature: 0.1, max_tokens: 9 });
    expect(body.messages).toEqual([
      { role: "system", content: "Be brief." },
      { role: "user", content: "One" },
      { role: "assistant", content: "1" },
      { role: "user", content: "Two" },
    ]);
  });

  test("as much of the conversation as its window takes, the first of it the user's", async () => {
    const w = world({ model: "server" });
    const agent = await w.anAgent({ model_config: { max_input_tokens: 1_000 } });
    for (let n = 0; n < 6; n++) {
      const stream = await open(w, agent, chat(`q${n} ${"x".repeat(800)}`, "c1"));
      (await w.server.next()).say(`a${n}`).finish();
      await stream.rest();
    }
    await open(w, agent, chat("last", "c1"));
    const { messages } = (await w.server.next()).body;
    expect(messages).toHaveLength(9);
    expect(messages[0].content).toStartWith("q2 ");
    expect(messages.at(-1)).toEqual({ role: "user", content: "last" });
  });
});

describe("a conversation", () => {
  test("is the agent's and the client's: the same id elsewhere is another one", async () => {
    const w = world();
    const [a, b] = [await w.anAgent({ visibility: "public" }), await w.anAgent()];
    const ids = [];
    for (const agent of [a, a, b, `anonymous/${a}`]) {
      ids.push((await said(w, agent, chat("Hi", "c1"))).conversation_id);
    }
    expect(ids[0]).toBe(ids[1]!);
    expect(new Set(ids).size).toBe(3);
  });

  test("without an id is made, told in the first line, and goes on by that name", async () => {
    const w = world();
    const agent = await w.anAgent();
    const { parts, conversation_id } = await said(w, agent, chat("Hi"));
    const { id: message_id } = (await w.conversations.get(CALLER, agent, conversation_id)).messages[1]!;
    expect(parts[0]).toEqual({ type: "data", data: [{ conversation_id, message_id }] });
    expect(typesOf(parts.slice(1, 2))).toEqual(["start_step"]);
    const again = await said(w, agent, chat("Hi", conversation_id));
    expect(again.conversation_id).toBe(conversation_id);
    expect(again.parts[0]?.type).toBe("start_step");
  });

  test("goes on by its own id too, though the client named it otherwise, but not from another agent", async () => {
    const w = world();
    const [agent, other] = [await w.anAgent(), await w.anAgent()];
    const { conversation_id } = await said(w, agent, chat("Hi", "c1"));
    expect((await said(w, agent, chat("Hi", conversation_id))).conversation_id).toBe(conversation_id);
    expect((await said(w, other, chat("Hi", conversation_id))).conversation_id).not.toBe(conversation_id);
  });

  test("of a key's holder is out of reach without a key, even by its own id", async () => {
    const w = world();
    const agent = await w.anAgent({ visibility: "public" });
    const { conversation_id } = await said(w, agent, chat("Hi", "c1"));
    const anonymous = await said(w, `anonymous/${agent}`, chat("Hi", conversation_id), { authorization: "" });
    expect(anonymous.response.status).toBe(200);
    expect(anonymous.conversation_id).not.toBe(conversation_id);
  });

  test("of strangers whose pages use the same short id stay apart; a long id, or the one answered, goes on", async () => {
    const w = world();
    const agent = `anonymous/${await w.anAgent({ visibility: "public" })}`;
    const visit = async (id: string) =>
      (await said(w, agent, chat("Hi", id), { authorization: "" })).conversation_id;
    const first = await visit("chat-1");
    expect(await visit("chat-1")).not.toBe(first);
    expect(await visit(first!)).toBe(first);
    expect(await visit("a-long-random-id-of-mine")).toBe(await visit("a-long-random-id-of-mine"));
  });

  test("that two first messages open at once is one", async () => {
    const w = world();
    w.subscribe("agent.conversation.started");
    const agent = await w.anAgent();
    const both = await Promise.all([said(w, agent, chat("a", "c1")), said(w, agent, chat("b", "c1"))]);
    expect(both[0].conversation_id).toBe(both[1].conversation_id);
    expect(w.rows("conversations")).toMatchObject([{ message_count: 4 }]);
    expect(w.eventRows()).toHaveLength(1);
  });

  test("is listed newest first and read by those who reach its agent", async () => {
    const w = world();
    const [agent, other] = [await w.anAgent(), await w.anAgent()];
    for (const id of ["c1", "c2"]) await said(w, agent, chat("Hi", id));
    const list = await w.call("GET", `/agents/${agent}/conversations?limit=1`);
    expect(list.body).toMatchObject([{ client_id: "c2", agent_id: agent, message_count: 2, metadata: {} }]);
    expect(list.headers.get("x-total-count")).toBe("2");
    const own = await w.call("GET", `/agents/${agent}/conversations/${list.body[0].id}`);
    expect(own.body.messages).toHaveLength(2);
    expect((await w.call("GET", `/agents/${other}/conversations/${own.body.id}`)).status).toBe(404);
    const foreign = { authorization: "Bearer other" };
    const refused = await w.call("GET", `/agents/${agent}/conversations/c1`, undefined, foreign);
    expect(refused.status).toBe(403);
  });
});

describe("x-enable-request-context", () => {
  test("puts the request, the model and the agent's version first", async () => {
    const w = world();
    const agent = await w.anAgent();
    await w.call("PUT", `/agents/${agent}`, { name: "Second" });
    const headers = { "x-enable-request-context": "true" };
    const { parts, conversation_id, response } = await said(w, agent, chat("Hi", "c1"), headers);
    const { id: message_id } = (await w.conversations.get(CALLER, agent, "c1")).messages[1]!;
    expect(parts[0]).toEqual({
      type: "data",
      data: [
        {
          conversation_id,
          message_id,
          request_id: response.headers.get("x-request-id")!,
          model: "offline/errand",
          agent_version: 2,
        },
      ],
    });
  });

  test("with another value changes nothing", async () => {
    const w = world();
    const headers = { "x-enable-request-context": "yes" };
    const { parts } = await said(w, await w.anAgent(), chat("Hi", "c1"), headers);
    expect(parts[0]?.type).toBe("start_step");
  });
});

describe("an answer that fails", () => {
  test("says why and ends; the turn is failed and the conversation goes on", async () => {
    const w = world({ model: "server" });
    const agent = await w.anAgent();
    const stream = await open(w, agent, chat("One", "c1"));
    (await w.server.next()).refuse(401);
    const parts = await stream.rest();
    expect(typesOf(parts)).toEqual(["start_step", "error", "finish"]);
    expect(parts[2]).toMatchObject({ reason: "error", error: { code: "MODEL_UNAUTHORIZED" } });
    expect(parts[1]).toMatchObject({
      type: "error",
      message: expect.stringContaining("refuses the configured key"),
    });
    expect(w.rows("turns")).toMatchObject([{ state: "failed", message_id: null }]);

    const next = await open(w, agent, chat("Two", "c1"));
    const call = await w.server.next();
    expect(call.body.messages).toEqual([{ role: "user", content: "One\n\nTwo" }]);
    call.say("Hello").finish();
    expect((await next.rest()).at(-1)).toMatchObject({ reason: "stop" });
  });

  test("under way keeps what had come, marked failed, and sends no event of it", async () => {
    const w = world({ model: "server" });
    w.subscribe("agent.message.sent");
    const stream = await open(w, await w.anAgent(), chat("One", "c1"));
    const call = await w.server.next();
    call.say("Half");
    await settled();
    call.cut();
    expect(typesOf(await stream.rest())).toEqual(["start_step", "text", "error", "finish"]);
    expect((await messagesOf(w, stream.conversation_id))[1]).toEqual({
      role: "assistant",
      parts: text("Half"),
      state: "failed",
    });
    expect(w.eventRows()).toEqual([]);
  });

  test("for a model that there is not says which", async () => {
    const w = world();
    const { parts } = await said(w, await w.anAgent({ model: "nobody/m" }), chat("Hi", "c1"));
    expect(parts.at(-1)).toMatchObject({ reason: "error", error: { code: "MODEL_UNKNOWN" } });
  });

  test("for want of storage ends properly and is reported", async () => {
    const w = world({ model: "server" });
    const stream = await open(w, await w.anAgent(), chat("One", "c1"));
    const call = await w.server.next();
    w.storage.reader.run("DROP TABLE turns");
    call.say("Hello").finish();
    expect((await stream.rest()).at(-1)).toMatchObject({ reason: "error", error: { code: "UNAVAILABLE" } });
    expect(w.reports).toEqual(["an answer could not be stored"]);
  });
});

describe("readers", () => {
  test("that go away do not end the turn: the answer is stored, and another reader finds all of it", async () => {
    const w = world({ model: "server" });
    const stream = await open(w, await w.anAgent(), chat("Hi", "c1"));
    const call = await w.server.next();
    await stream.leave();
    call.say("Hel");
    await settled();
    const live = w.turns.live(stream.conversation_id)!;
    call.say("lo").finish();
    await w.until(live.turn_id, "success");
    expect((await messagesOf(w, stream.conversation_id))[1]?.parts).toEqual(text("Hello"));
    await settled();
    expect(typesOf([...live.log.parts])).toEqual(["start_step", "text", "text", "finish_step", "finish"]);
    expect(live.log.done).toBe(true);
    expect(call.gone.aborted).toBe(false);
  });

  test("find an ended turn for a minute, and the newest alone", async () => {
    const w = world();
    const agent = await w.anAgent();
    const { conversation_id } = await said(w, agent, chat("One", "c1"));
    const first = w.turns.live(conversation_id);
    await w.clock.advance(30_000);
    await said(w, agent, chat("Two", "c1"));
    const second = w.turns.live(conversation_id);
    expect(second?.turn_id).not.toBe(first?.turn_id);
    await w.clock.advance(59_000);
    expect(w.turns.live(conversation_id)).toBe(second);
    await w.clock.advance(1_000);
    expect(w.turns.live(conversation_id)).toBeUndefined();
  });
});

describe("at the end of the program", () => {
  test("a stream is ended with a proper last line, and what had come is on record", async () => {
    const w = world({ model: "server" });
    const stream = await open(w, await w.anAgent(), chat("Hi", "c1"));
    const call = await w.server.next();
    call.say("Half");
    const live = w.turns.live(stream.conversation_id)!;
    while (live.log.parts.length < 2) await settled(1);
    await w.turns.stop();
    expect(w.rows("turns")).toMatchObject([{ state: "interrupted" }]);
    expect((await messagesOf(w, stream.conversation_id))[1]).toMatchObject({ state: "interrupted" });
    expect((await stream.rest()).at(-1)).toMatchObject({ reason: "error", error: { code: "INTERRUPTED" } });
  });

  test("a stream that ends in time is let end", async () => {
    const w = world({ model: "server" });
    const stream = await open(w, await w.anAgent(), chat("Hi", "c1"));
    const call = await w.server.next();
    const stopped = w.turns.stop(10_000);
    call.say("Hello").finish();
    await stopped;
    expect(w.rows("turns")).toMatchObject([{ state: "success" }]);
    await stream.leave();
  });

  test("by a crash, what streamed is interrupted at the next start, once", async () => {
    const w = world({ model: "server" });
    const stream = await open(w, await w.anAgent(), chat("Hi", "c1"));
    const next = world({ storage: w.storage });
    expect(await next.turns.recover()).toBe(1);
    expect(await next.turns.recover()).toBe(0);
    expect(w.rows("turns")).toMatchObject([{ state: "interrupted" }]);
    // A result that comes late changes nothing.
    (await w.server.next()).say("Hello").finish();
    const [start] = await stream.rest();
    const [, kept] = await w.store.messages(stream.conversation_id);
    expect(start).toMatchObject({ type: "start_step", message_id: kept!.id });
    expect(w.rows("turns")).toMatchObject([{ state: "interrupted" }]);
    const messages = await messagesOf(w, stream.conversation_id);
    expect(messages.map(({ role, state }) => [role, state])).toEqual([
      ["user", "complete"],
      ["assistant", "interrupted"],
    ]);
  });
});

describe("hops", () => {
  test("that led to a message go on with what is told of it", async () => {
    const w = world();
    w.subscribe("agent.message.received");
    await said(w, await w.anAgent(), chat("Hi"), { "x-service-hop": "3" });
    expect(w.rows("deliveries")).toMatchObject([{ hop: 4 }]);
  });

  test("are refused past the eighth", async () => {
    const w = world();
    const path = `/agents/${await w.anAgent()}/stream`;
    expect((await w.call("POST", path, chat("Hi"), { "x-service-hop": "9" })).status).toBe(409);
    expect(w.rows("messages")).toEqual([]);
  });
});
