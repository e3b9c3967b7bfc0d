import { describe, expect, test } from "bun:test";
import { completeIdle } from "../../src/agents/chores.ts";
import { readUiMessageStream } from "../http/read-ui-message-stream.ts";
import { CALLER, chat, NOWHERE, OTHER, world } from "./world.ts";

type World = ReturnType<typeof world>;
type Message = { id: string; role: string; content: string; variants: string[] };

/** Says `body`, lets the model answer, and reads the stream to its end. */
async function talk(w: World, agent: string, body: object, answer: string) {
  const asked = w.ask("POST", `/agents/${agent}/stream`, body);
  const call = await w.server.next();
  call.say(answer).finish();
  const response = await asked;
  await response.text();
  return { call, conversation_id: response.headers.get("x-conversation-id")! };
}
async function setup() {
  const w = world({ model: "server" });
  const agent = await w.anAgent();
  const at = (id = "c1", rest = "") => `/agents/${agent}/conversations/${id}${rest}`;
  const read = async (id = "c1") => (await w.call("GET", at(id))).body;
  const said = async (id = "c1") =>
    ((await read(id)).messages as Message[]).map(({ role, content }) => `${role[0]}: ${content}`);
  return { w, agent, at, read, said };
}

describe("a conversation", () => {
  test("is renamed, tagged and rated; what is not sent stays, null clears", async () => {
    const { w, agent, at } = await setup();
    await talk(w, agent, chat("Hi", "c1"), "Hello");
    const first = await w.call("PUT", at(), {
      title: "Refund",
      tags: ["vip", "vip", "new"],
      metadata: { a: 1 },
    });
    expect(first.status).toBe(200);
    expect(first.body).toMatchObject({ title: "Refund", tags: ["vip", "new"], metadata: { a: 1 } });
    const second = await w.call("PUT", at(), { title: null, satisfaction_score: 4.5 });
    expect(second.body).toMatchObject({ title: null, tags: ["vip", "new"], satisfaction_score: 4.5 });
  });

  test("is found by user, tag and status", async () => {
    const { w, agent, at } = await setup();
    for (const n of [1, 2, 3])
      await talk(w, agent, { ...chat("Hi", `c${n}`), user_id: `u${n % 2}` }, "Hello");
    await w.call("PUT", at("c2"), { tags: ['a "b" %'] });
    await w.call("POST", at("c3", "/close"), {});
    const found = async (query: string) =>
      (await w.call("GET", `/agents/${agent}/conversations?${query}`)).body.map(
        (one: { client_id: string }) => one.client_id,
      );
    expect(await found("")).toEqual(["c3", "c2", "c1"]);
    expect(await found("user_id=u1")).toEqual(["c3", "c1"]);
    expect(await found(`tag=${encodeURIComponent('a "b" %')}`)).toEqual(["c2"]);
    for (const tag of ["a", "A", 'A "b" %', "%", '"b"']) {
      expect(await found(`tag=${encodeURIComponent(tag)}`)).toEqual([]);
    }
    expect(await found("status=active")).toEqual(["c2", "c1"]);
    expect(await found("status=completed&user_id=u1")).toEqual(["c3"]);
  });

  test("that is closed tells what came of it, once; what is said later opens it again", async () => {
    const { w, agent, at, read } = await setup();
    w.subscribe("agent.conversation.completed");
    const { conversation_id } = await talk(w, agent, { ...chat("Hi", "c1"), user_id: "ann" }, "Hello");
    await w.clock.advance(60_000);
    const resolution = { type: "answered", category: "billing", tags: ["refund"] };
    const closed = await w.call("POST", at("c1", "/close"), { resolution, satisfaction_score: 5 });
    expect(closed.status).toBe(200);
    expect(closed.body).toMatchObject({ status: "completed", ended_as: "resolved", resolution });
    expect((await w.call("POST", at("c1", "/close"), {})).status).toBe(409);
    expect(w.eventRows()).toEqual([
      {
        kind: "agent.conversation.completed",
        data: {
          agent_id: agent,
          conversation_id,
          user_id: "ann",
          status: "resolved",
          started_at: "2026-01-01T00:00:00.000Z",
          completed_at: "2026-01-01T00:01:00.000Z",
          message_count: 2,
          satisfaction_score: 5,
          credits_used: 0.01,
          resolution,
        },
      },
    ]);
    await talk(w, agent, chat("One more thing", "c1"), "Yes?");
    expect(await read()).toMatchObject({ status: "active", ended_as: null, completed_at: null });
    expect((await w.call("POST", at("c1", "/close"), {})).status).toBe(200);
    expect(w.eventRows()).toHaveLength(2);
  });

  test("is closed by its agent, where that may, once the answer is on record", async () => {
    const w = world({ model: "server" });
    w.subscribe("agent.conversation.completed");
    const agent = await w.anAgent({ can_resolve: true });
    const asked = w.ask("POST", `/agents/${agent}/stream`, chat("Thanks, that is all", "c1"));
    const call = await w.server.next();
    expect(call.body.tools.map((tool: { function: { name: string } }) => tool.function.name)).toEqual([
      "resolve_conversation",
    ]);
    const resolve = (id: string, args: object, index = 0) => ({
      tool_calls: [
        { index, id, function: { name: "resolve_conversation", arguments: JSON.stringify(args) } },
      ],
    });
    const resolution = { type: "answered", category: "billing", tags: ["refund"] };
    call.delta(resolve("a", { ...resolution, satisfaction_score: 90 })).finish("tool_calls");
    const second = await w.server.next();
    expect(w.rows("conversations")).toMatchObject([{ status: "active" }]);
    second.delta(resolve("b", { satisfaction_score: "high" })).finish("tool_calls");
    const third = await w.server.next();
    expect(third.body.messages.at(-1).content).toContain("INVALID_ARGUMENTS");
    third.say("Goodbye").finish();
    await (await asked).text();
    const closed = await w.call("GET", `/agents/${agent}/conversations/c1`);
    const as = { ended_as: "resolved", resolution, satisfaction_score: 90 };
    expect(closed.body).toMatchObject({ status: "completed", ...as });
    expect(w.eventRows()).toMatchObject([{ data: { status: "resolved", resolution, message_count: 2 } }]);

    await w.agents.update(CALLER, agent, { can_resolve: null });
    const { call: next } = await talk(w, agent, chat("One more thing", "c1"), "Yes?");
    expect(next.body.tools).toBeUndefined();
    expect(w.rows("conversations")).toMatchObject([{ status: "active" }]);
  });

  test("is not closed by a workflow of that name", async () => {
    const w = world({ model: "server" });
    const workflow = await w.workflows.create(CALLER, { workspace_id: "w" }, {
      name: "Resolve conversation",
      nodes: [{ name: "n", node_type_name: "set_variables", input_config: { variables: { done: true } } }],
    } as never);
    const agent = await w.anAgent({ tools: [{ workflow_id: workflow.id }] });
    const asked = w.ask("POST", `/agents/${agent}/stream`, chat("Resolve it", "c1"));
    const call = await w.server.next();
    const { name } = call.body.tools[0].function;
    call.delta({ tool_calls: [{ index: 0, id: "a", function: { name, arguments: '{"type":"x"}' } }] });
    call.finish("tool_calls");
    const second = await w.server.next();
    expect(second.body.messages.at(-1).content).toBe('{"done":true}');
    second.say("Done").finish();
    await (await asked).text();
    expect(w.rows("conversations")).toMatchObject([{ status: "active" }]);
  });

  test("completes when nothing was said in it for as long as its agent gives", async () => {
    const { w } = await setup();
    w.subscribe("agent.conversation.completed");
    const patient = await w.anAgent({ conversation_idle_hours: 48 });
    const usual = await w.anAgent();
    const chore = completeIdle(w);
    await talk(w, usual, chat("Hi", "a"), "Hello");
    await talk(w, patient, chat("Hi", "b"), "Hello");
    const { conversation_id } = await talk(w, usual, chat("Hi", "waits for an approval"), "Hello");
    w.storage.reader.run(
      "UPDATE turns SET state = 'waiting', ended_at = NULL WHERE conversation_id = ?",
      conversation_id,
    );
    const eventsAfter = async (hours: number) => {
      await w.clock.advance(hours * 3_600_000);
      await chore.run();
      return w.eventRows().map(({ data }) => [data.agent_id, data.status]);
    };
    expect(await eventsAfter(23)).toEqual([]);
    expect(await eventsAfter(1)).toEqual([[usual, "idle"]]);
    expect(await eventsAfter(23)).toEqual([[usual, "idle"]]);
    expect(await eventsAfter(1)).toEqual([
      [usual, "idle"],
      [patient, "idle"],
    ]);
  });

  test("is told as far round as the farthest message in it, so that a loop of conversations ends", async () => {
    const { w, agent } = await setup();
    w.subscribe("agent.conversation.completed");
    const { id } = await w.enqueue(agent, "Hi", { hop: 3, context: { conversation_id: "c1" } });
    (await w.server.next()).say("Hello").finish();
    await w.until(id, "success");
    await talk(w, agent, chat("And I say", "c1"), "Yes?");
    await w.clock.advance(24 * 3_600_000);
    await completeIdle(w).run();
    expect(w.eventRows()).toHaveLength(1);
    expect(w.rows("deliveries")).toMatchObject([{ hop: 4 }]);
  });

  test("with an agent of before the setting idles for a day", async () => {
    const { w, agent, at } = await setup();
    w.storage.reader.run("UPDATE agents SET settings = json_remove(settings, '$.conversation_idle_hours')");
    await talk(w, agent, chat("Hi", "c1"), "Hello");
    await w.clock.advance(24 * 3_600_000);
    await completeIdle(w).run();
    expect((await w.call("GET", at())).body).toMatchObject({ status: "completed", ended_as: "idle" });
  });

  test("is deleted with all that was said in it, and its answer under way ends", async () => {
    const { w, agent, at } = await setup();
    await talk(w, agent, chat("Hi", "c1"), "Hello");
    const open = await w.ask("POST", `/agents/${agent}/stream`, chat("Again", "c1"));
    const call = await w.server.next();
    expect((await w.call("DELETE", at())).status).toBe(204);
    await open.text();
    expect(call.gone.aborted).toBe(true);
    expect((await w.call("GET", at())).status).toBe(404);
    for (const table of ["conversations", "messages", "turns"]) expect(w.rows(table)).toEqual([]);
    expect((await w.call("DELETE", at())).status).toBe(404);
  });

  test("is out of reach for other projects and unknown ids", async () => {
    const { w, agent, at } = await setup();
    await talk(w, agent, chat("Hi", "c1"), "Hello");
    const foreign = await w.anAgent({}, OTHER);
    for (const [method, rest, body] of [
      ["GET", "", undefined],
      ["PUT", "", {}],
      ["DELETE", "", undefined],
      ["POST", "/close", {}],
      ["GET", `/messages/${NOWHERE}/variants`, undefined],
      ["POST", `/messages/${NOWHERE}/choose`, undefined],
      ["PUT", `/messages/${NOWHERE}/feedback`, { rating: "up" }],
    ] as const) {
      const ask = async (path: string) => (await w.call(method, path, body)).status;
      expect([method, rest, await ask(`/agents/${foreign}/conversations/c1${rest}`)]).toEqual([
        method,
        rest,
        403,
      ]);
      expect([method, rest, await ask(at(NOWHERE, rest))]).toEqual([method, rest, 404]);
    }
    for (const body of [{ tags: "x" }, { owner: "anonymous" }, { satisfaction_score: "5" }, { title: 5 }]) {
      expect((await w.call("PUT", at(), body)).status).toBe(400);
    }
    expect((await w.call("POST", at("c1", "/close"), { resolution: { kind: "x" } })).status).toBe(400);
  });
});

describe("feedback", () => {
  test("is kept with an answer, replaced and taken back", async () => {
    const { w, agent, at, read } = await setup();
    await talk(w, agent, chat("Hi", "c1"), "Hello");
    const [question, answer] = (await read()).messages;
    const path = at("c1", `/messages/${answer.id}/feedback`);
    const given = await w.call("PUT", path, { rating: "down", comment: "Too short" });
    expect(given.body.feedback).toEqual({
      rating: "down",
      comment: "Too short",
      given_at: "2026-01-01T00:00:00.000Z",
    });
    await w.call("PUT", path, { rating: "up" });
    expect((await read()).messages[1].feedback).toMatchObject({ rating: "up", comment: null });
    expect((await w.call("PUT", path, { rating: null })).body.feedback).toBeNull();
    const onQuestion = await w.call("PUT", at("c1", `/messages/${question.id}/feedback`), { rating: "up" });
    expect(onQuestion.status).toBe(400);
  });
});

describe("an answer once more", () => {
  const again = (messageId?: string) => ({
    ...chat("One", "c1"),
    trigger: "regenerate-message",
    ...(messageId ? { messageId } : {}),
  });

  test("replaces the newest for the reader and the model; the old one stays as a variant", async () => {
    const { w, agent, at, said, read } = await setup();
    w.subscribe("agent.message.received", "agent.message.sent");
    await talk(w, agent, chat("One", "c1"), "first");
    const { call } = await talk(w, agent, again(), "second");
    expect(call.body.messages).toEqual([{ role: "user", content: "One" }]);
    expect(await said()).toEqual(["u: One", "a: second"]);
    expect(w.eventRows().map(({ kind }) => kind)).toEqual([
      "agent.message.received",
      "agent.message.sent",
      "agent.message.sent",
    ]);
    const { messages, message_count } = await read();
    expect(message_count).toBe(2);
    expect(messages[0].variants).toEqual([messages[0].id]);
    expect(messages[1].variants).toHaveLength(2);
    const variants = await w.call("GET", at("c1", `/messages/${messages[1].id}/variants`));
    expect(variants.body.map((one: Message & { chosen: boolean }) => [one.content, one.chosen])).toEqual([
      ["first", false],
      ["second", true],
    ]);
    const next = await talk(w, agent, chat("Two", "c1"), "2");
    expect(next.call.body.messages.map(({ content }: Message) => content)).toEqual(["One", "second", "Two"]);
  });

  test("of the middle begins another branch; choosing the old answer brings back what followed it", async () => {
    const { w, agent, at, said, read } = await setup();
    await talk(w, agent, chat("One", "c1"), "1");
    await talk(w, agent, chat("Two", "c1"), "2");
    const old = (await read()).messages[1].id;
    await talk(w, agent, again(old), "one!");
    expect(await said()).toEqual(["u: One", "a: one!"]);
    await talk(w, agent, chat("Three", "c1"), "3");
    expect(await said()).toEqual(["u: One", "a: one!", "u: Three", "a: 3"]);

    const chosen = await w.call("POST", at("c1", `/messages/${old}/choose`));
    expect(chosen.body.message_count).toBe(4);
    expect(await said()).toEqual(["u: One", "a: 1", "u: Two", "a: 2"]);
    const { call } = await talk(w, agent, chat("Four", "c1"), "4");
    expect(call.body.messages.map(({ content }: Message) => content)).toEqual([
      "One",
      "1",
      "Two",
      "2",
      "Four",
    ]);

    const newer = (await read()).messages[1].variants[1];
    await w.call("POST", at("c1", `/messages/${newer}/choose`));
    expect(await said()).toEqual(["u: One", "a: one!", "u: Three", "a: 3"]);
  });

  test("is asked for by clients before AI SDK 5 with the same messages again", async () => {
    const { w, agent, said } = await setup();
    const user = (content: string) => ({ role: "user", content, parts: [{ type: "text", text: content }] });
    const send = (messages: object[], answer: string) => talk(w, agent, { id: "c1", messages }, answer);
    await send([user("Hi")], "1");
    await send([user("Hi")], "one");
    expect(await said()).toEqual(["u: Hi", "a: one"]);
    const history = [user("Hi"), { role: "assistant", content: "one" }];
    await send([...history, user("Hi")], "2");
    expect(await said()).toEqual(["u: Hi", "a: one", "u: Hi", "a: 2"]);
    await send([...history, user("Hi")], "two");
    expect(await said()).toEqual(["u: Hi", "a: one", "u: Hi", "a: two"]);
  });

  test("after a failure answers the same message", async () => {
    const { w, agent, said } = await setup();
    const failing = w.ask("POST", `/agents/${agent}/stream`, chat("One", "c1"));
    (await w.server.next()).refuse(401);
    await (await failing).text();
    await talk(w, agent, again(), "now");
    expect(await said()).toEqual(["u: One", "a: now"]);
  });

  test("in a conversation that is not on record answers what was sent", async () => {
    const { w, agent, said } = await setup();
    await talk(w, agent, again("unknown"), "1");
    expect(await said()).toEqual(["u: One", "a: 1"]);
  });

  test("while the first still comes waits for it, and is the one that counts", async () => {
    const { w, agent, said } = await setup();
    const first = w.ask("POST", `/agents/${agent}/stream`, chat("One", "c1"));
    const call = await w.server.next();
    const second = await w.ask("POST", `/agents/${agent}/stream`, again());
    call.say("old").finish();
    await (await first).text();
    (await w.server.next()).say("new").finish();
    await second.text();
    expect(await said()).toEqual(["u: One", "a: new"]);
  });
});

describe("a message said otherwise", () => {
  test("takes the place of the one named, by the client's name of it, and of what followed", async () => {
    const { w, agent, said, read, at } = await setup();
    const say = (id: string, content: string, messageId?: string) => ({
      id: "c1",
      trigger: "submit-message",
      ...(messageId ? { messageId } : {}),
      messages: [{ id, role: "user", parts: [{ type: "text", text: content }] }],
    });
    await talk(w, agent, say("m1", "One"), "1");
    await talk(w, agent, say("m2", "Two"), "2");
    await talk(w, agent, say("m3", "Three"), "3");
    const { call } = await talk(w, agent, say("m2", "Zwei", "m2"), "zwei");
    expect(call.body.messages.map(({ content }: Message) => content)).toEqual(["One", "1", "Zwei"]);
    expect(await said()).toEqual(["u: One", "a: 1", "u: Zwei", "a: zwei"]);
    const { messages } = await read();
    expect(messages[2].variants).toHaveLength(2);
    await w.call("POST", at("c1", `/messages/${messages[2].variants[0]}/choose`));
    expect(await said()).toEqual(["u: One", "a: 1", "u: Two", "a: 2", "u: Three", "a: 3"]);
  });
});

describe("a message said otherwise by clients before AI SDK 5, which do not name it", () => {
  const user = (content: string) => ({ role: "user", content, parts: [{ type: "text", text: content }] });
  const answer = (content: string, id?: string) => ({ role: "assistant", content, ...(id ? { id } : {}) });

  async function twice() {
    const s = await setup();
    const send = (messages: object[], answer: string) => talk(s.w, s.agent, { id: "c1", messages }, answer);
    await send([user("One")], "1");
    await send([user("One"), answer("1"), user("Two")], "2");
    await send([user("One"), answer("1"), user("Two"), answer("2"), user("Three")], "3");
    const ids = ((await s.read()).messages as Message[]).map(({ id }) => id);
    return { ...s, send, ids };
  }

  test("takes the place of what followed the same answer, by the answer's id", async () => {
    const { send, said, ids } = await twice();
    const { call } = await send([user("shown otherwise"), answer("", ids[1]), user("Zwei")], "zwei");
    expect(call.body.messages.map(({ content }: Message) => content)).toEqual(["One", "1", "Zwei"]);
    expect(await said()).toEqual(["u: One", "a: 1", "u: Zwei", "a: zwei"]);
    await send([user("One"), answer("1", ids[1]), user("Zwei")], "again");
    expect(await said()).toEqual(["u: One", "a: 1", "u: Zwei", "a: again"]);
  });

  test("also where that was answered once more in the meantime", async () => {
    const { w, agent, send, said, ids } = await twice();
    const trigger = { trigger: "regenerate-message", messageId: ids[3] };
    await talk(w, agent, { id: "c1", messages: [user("Two")], ...trigger }, "two");
    await send([user("One"), answer("1", ids[1]), user("Zwei")], "zwei");
    expect(await said()).toEqual(["u: One", "a: 1", "u: Zwei", "a: zwei"]);
  });

  test("without ids, where all that stands before it is on record just so", async () => {
    const { send, said } = await twice();
    await send([user("One"), answer("1"), user("Zwei")], "zwei");
    expect(await said()).toEqual(["u: One", "a: 1", "u: Zwei", "a: zwei"]);
  });

  test("by its own name, the first one too", async () => {
    const { w, agent, said } = await setup();
    const send = (messages: object[], answer: string) => talk(w, agent, { id: "c1", messages }, answer);
    const named = (id: string, content: string) => ({ id, ...user(content) });
    const first = "msg-8Zb0c1lNq4pWxY7e";
    await send([named(first, "One")], "1");
    await send([named(first, "One"), answer("1"), named("short", "Two")], "2");
    await send([named(first, "Eins")], "eins");
    expect(await said()).toEqual(["u: Eins", "a: eins"]);
    await send([named("short", "Two")], "next");
    await send([named("short", "Three")], "next too");
    await send([named(first, "Eins")], "once more");
    expect(await said()).toEqual(["u: Eins", "a: once more"]);
  });

  test("is the next one where nothing is certain", async () => {
    const { send, said, ids } = await twice();
    const before = ["u: One", "a: 1", "u: Two", "a: 2", "u: Three", "a: 3"];
    await send([user("Two"), answer("2"), user("Four")], "4");
    await send([user("One"), answer("1", "of-some-other-conversation"), user("Five")], "5");
    await send([user("Three"), answer("3", ids[5]), user("Four"), answer("4"), user("Six")], "6");
    await send([user("Seven")], "7");
    const added = [4, 5, 6, 7].flatMap((n) => [`u: ${["Four", "Five", "Six", "Seven"][n - 4]}`, `a: ${n}`]);
    expect(await said()).toEqual([...before, ...added]);
  });
});

describe("an Idempotency-Key on a stream", () => {
  const key = { "idempotency-key": "k1" };

  test("gives the same answer again, while it comes and after it has", async () => {
    const { w, agent, said } = await setup();
    const ask = (body = chat("Hi", "c1")) => w.ask("POST", `/agents/${agent}/stream`, body, key);
    const first = await ask();
    const call = await w.server.next();
    call.say("Hel");
    const second = await ask();
    expect(second.headers.get("idempotent-replay")).toBe("true");
    call.say("lo").finish();
    const text = await first.text();
    expect(await second.text()).toBe(text);
    const third = await (await ask()).text();
    expect(third).toContain('0:"Hello"');
    expect(third.split("\n")[0]).toBe(text.split("\n")[0]!);
    expect(await said()).toEqual(["u: Hi", "a: Hello"]);
    expect((await ask(chat("Other", "c1"))).status).toBe(409);
  });

  test("gives the same failure again", async () => {
    const { w, agent } = await setup();
    const ask = () =>
      w.ask("POST", `/agents/${agent}/stream?protocol=ui-message-stream`, chat("Hi", "c1"), key);
    const first = ask();
    (await w.server.next()).refuse(401);
    const errors = async (response: Response) =>
      readUiMessageStream(await response.text()).filter(({ type }) => type === "error");
    const failed = await errors(await first);
    expect(failed).toHaveLength(1);
    expect(await errors(await ask())).toEqual(failed);
    expect(w.rows("messages")).toHaveLength(1);
  });
});

test("the command line finds a conversation by the client's name for it, where one alone goes by that", async () => {
  const w = world();
  const [one, other] = [await w.anAgent(), await w.anAgent()];
  for (const [agent, id] of [
    [one, "c1"],
    [one, "both"],
    [other, "both"],
  ] as const) {
    await (await w.ask("POST", `/agents/${agent}/stream`, chat("Hi", id))).text();
  }
  const { admin } = w.conversations;
  const found = await admin.get("c1");
  expect(found).toMatchObject({ agent_id: one, client_id: "c1" });
  expect((await admin.get(found.id)).id).toBe(found.id);
  expect(admin.get("none")).rejects.toMatchObject({ code: "not_found" });
  expect(admin.remove("both")).rejects.toMatchObject({ code: "conflict" });
  await admin.remove("c1");
  expect(admin.get(found.id)).rejects.toMatchObject({ code: "not_found" });
});
