import { describe, expect, test } from "bun:test";
import { KEPT_EVERY_MS } from "../../src/agents/kept-words.ts";
import type { Storage } from "../../src/storage/sqlite/storage.ts";
import { settled } from "../helpers/clock.ts";
import { memoryStorage } from "../helpers/storage.ts";
import type { Call } from "../models/chat-server.ts";
import { CALLER, chat, world } from "./world.ts";

type World = ReturnType<typeof world>;

/** An answer under way; `say` resolves when its words have been told to readers. */
async function underway(w: World, { agent, id = "c1" }: { agent?: string; id?: string } = {}) {
  const agent_id = agent ?? (await w.anAgent());
  const response = await w.ask("POST", `/agents/${agent_id}/stream`, chat("Hi", id));
  const conversation_id = response.headers.get("x-conversation-id")!;
  const { log } = w.turns.live(conversation_id)!;
  async function told(act: () => void, more = 1) {
    const length = log.parts.length + more;
    act();
    while (log.parts.length < length) await settled(1);
  }
  const say = (call: Call, ...words: string[]) => told(() => call.say(...words), words.length);
  return { response, agent_id, id, told, say, call: await w.server.next() };
}

/** What the answer of a conversation is after the program died and was started again. */
async function afterCrash(w: World, { agent_id, id }: { agent_id: string; id: string }) {
  const after = world({ model: "server", storage: w.storage });
  await after.turns.recover();
  await after.runner.start();
  const { messages } = await after.conversations.get(CALLER, agent_id, id);
  expect(words(w)).toEqual([]);
  return messages.at(-1)!;
}

const words = (w: World) => w.storage.reader.all("SELECT parts FROM turn_words ORDER BY rowid");
const text = (text: string) => ({ type: "text", text });

describe("what an answer has said when the program dies under it", () => {
  test("is in the conversation, marked interrupted, up to the last beat", async () => {
    const w = world({ model: "server" });
    const one = await underway(w);
    await one.say(one.call, "Once ", "upon ");
    await w.clock.advance(KEPT_EVERY_MS);
    await one.say(one.call, "a ", "time");
    await w.clock.advance(KEPT_EVERY_MS);
    await w.clock.advance(KEPT_EVERY_MS);
    expect(words(w)).toHaveLength(2);
    await one.say(one.call, " there");
    expect(await afterCrash(w, one)).toMatchObject({
      status: "interrupted",
      parts: [text("Once upon a time")],
    });
  });

  test("is kept with what it thought, in its order", async () => {
    const w = world({ model: "server" });
    const one = await underway(w);
    await one.told(() => one.call.delta({ reasoning: "Hm, " }));
    await w.clock.advance(KEPT_EVERY_MS);
    await one.told(() => one.call.delta({ reasoning: "yes." }));
    await one.say(one.call, "Hel");
    await w.clock.advance(KEPT_EVERY_MS);
    const { parts } = await afterCrash(w, one);
    expect(parts).toEqual([{ type: "reasoning", text: "Hm, yes." }, text("Hel")] as never);
  });

  test("is kept of many answers in one write", async () => {
    const w = world({ model: "server" });
    const agent = await w.anAgent();
    const all = [];
    for (const id of ["a", "b", "c"]) {
      const one = await underway(w, { agent, id });
      await one.say(one.call, id);
      all.push(one);
    }
    const before = w.storage.writer.health().operations;
    await w.clock.advance(KEPT_EVERY_MS);
    expect(w.storage.writer.health().operations).toBe(before + 1);
    for (const one of all) one.call.finish();
    for (const one of all) await one.response.text();
    expect(words(w)).toEqual([]);
    const still = w.storage.writer.health().operations;
    await w.clock.advance(10 * KEPT_EVERY_MS);
    expect(w.storage.writer.health().operations).toBe(still);
  });

  test("is tried again with the next beat where the disk refuses", async () => {
    const storage = memoryStorage();
    const disk = { isFull: true };
    const submit: Storage["writer"]["submit"] = async (name, args, mode) => {
      if (name === "turns.keep_words" && disk.isFull) throw new Error("no room");
      return storage.writer.submit(name, args, mode);
    };
    const full = { reader: storage.reader, writer: { ...storage.writer, submit } };
    const w = world({ model: "server", storage: full });
    const one = await underway(w);
    await one.say(one.call, "Hel");
    await w.clock.advance(KEPT_EVERY_MS);
    disk.isFull = false;
    await one.say(one.call, "lo");
    await w.clock.advance(KEPT_EVERY_MS);
    expect((await afterCrash(w, one)).parts).toEqual([text("Hello")] as never);
  });
});

describe("words of an answer that calls something", () => {
  /** "Let me ask." was kept before the call was made; the helper that is asked has not answered yet. */
  async function asking(w: World) {
    const helper = await w.anAgent({ name: "Helper" });
    const agent = await w.anAgent({ sub_agents: [{ agent_id: helper }] });
    const one = await underway(w, { agent });
    await one.say(one.call, "Let me ask.");
    await w.clock.advance(KEPT_EVERY_MS);
    const [tool] = one.call.body.tools as { function: { name: string } }[];
    const named = { name: tool!.function.name, arguments: '{"message":"Help"}' };
    one.call.delta({ tool_calls: [{ index: 0, id: "c1", function: named }] }).finish("tool_calls");
    return { one, helped: await w.server.next() };
  }
  const types = ({ parts }: { parts: { type: string }[] }) => parts.map(({ type }) => type);

  test("are in its step alone once that is whole", async () => {
    const w = world({ model: "server" });
    const { one, helped } = await asking(w);
    helped.say("Not for the reader");
    await w.clock.advance(3 * KEPT_EVERY_MS);
    expect(words(w)).toEqual([]);
    const answer = await afterCrash(w, one);
    expect(types(answer)).toEqual(["text", "tool_call"]);
    expect(answer.content).toBe("Let me ask.");
  });

  test("are followed by those of the step after it", async () => {
    const w = world({ model: "server" });
    const { one, helped } = await asking(w);
    helped.say("7").finish();
    const second = await w.server.next();
    await one.say(second, "It ", "is ");
    await w.clock.advance(KEPT_EVERY_MS);
    const answer = await afterCrash(w, one);
    expect(types(answer)).toEqual(["text", "tool_call", "tool_result", "text"]);
    expect(answer.content).toContain("It is ");
  });
});

test("an answer that is told whole, once it has its form, leaves nothing of its first try", async () => {
  const w = world({ model: "server" });
  const schema = { type: "object", required: ["city"], properties: { city: { type: "string" } } };
  const agent = await w.anAgent({ response_format: { type: "json_schema", schema } });
  const one = await underway(w, { agent });
  await one.told(() => one.call.delta({ reasoning: "first" }));
  await w.clock.advance(KEPT_EVERY_MS);
  one.call.say('{"city": 5}').finish();
  const second = await w.server.next();
  await one.told(() => second.delta({ reasoning: "second" }));
  await w.clock.advance(KEPT_EVERY_MS);
  const { parts } = await afterCrash(w, one);
  expect(parts).toEqual([{ type: "reasoning", text: "second" }] as never);
});

test("words that come late, after an answer has ended, are not kept", async () => {
  const w = world({ model: "server" });
  const one = await underway(w);
  await one.say(one.call, "Hel");
  await afterCrash(w, one);
  await w.clock.advance(KEPT_EVERY_MS);
  expect(words(w)).toEqual([]);
});

test("a conversation that is deleted takes what was kept of its answers along", async () => {
  const w = world({ model: "server" });
  const one = await underway(w);
  await one.say(one.call, "Hel");
  await w.clock.advance(KEPT_EVERY_MS);
  expect(words(w)).toHaveLength(1);
  await world({ storage: w.storage }).conversations.admin.remove(
    w.storage.reader.get<{ id: string }>("SELECT id FROM conversations")!.id,
  );
  expect(words(w)).toEqual([]);
  await one.say(one.call, "lo");
  await w.clock.advance(KEPT_EVERY_MS);
  expect(words(w)).toEqual([]);
});

test("a message of a webhook whose answer is taken up again is answered with nothing said twice", async () => {
  const w = world({ model: "server" });
  const agent = await w.anAgent();
  const { id } = await w.enqueue(agent, "Hi");
  const call = await w.server.next();
  call.say("Hel");
  await settled();
  await w.clock.advance(KEPT_EVERY_MS);
  const after = world({ model: "server", storage: w.storage });
  await after.turns.recover();
  await after.runner.start();
  (await after.server.next()).say("Hello").finish();
  expect(await after.until(id, "success")).toMatchObject({ reply: "Hello" });
});

test("a message of a webhook that is given up after three crashes keeps what was said last, marked interrupted", async () => {
  const w = world({ model: "server" });
  const agent = await w.anAgent();
  const { id } = await w.enqueue(agent, "Hi", { context: { conversation_id: "c1" } });
  /** One life of the program, that says so much of the answer and dies. */
  async function life(one: World, ...said: string[]) {
    (await one.server.next()).say(...said);
    const { conversation_id } = (await one.turns.status(id))!;
    const isTold = () => one.turns.live(conversation_id)!.log.parts.length > said.length;
    for (let n = 0; n < 500 && !isTold(); n++) await settled(1);
    await one.clock.advance(KEPT_EVERY_MS);
  }
  await life(w, "Once ", "upon ", "a time");
  const second = world({ model: "server", storage: w.storage });
  await second.runner.start();
  await life(second, "Long ", "ago");

  w.storage.reader.run("UPDATE jobs SET crashes = 2");
  const last = world({ storage: w.storage });
  expect(await last.runner.start()).toMatchObject({ dead: 1 });
  expect((await last.conversations.get(CALLER, agent, "c1")).messages).toMatchObject([
    { content: "Hi" },
    { content: "Long ago", status: "interrupted", error: { code: "CRASH_LOOP" } },
  ]);
  expect(words(w)).toEqual([]);
});
