import { expect, test } from "bun:test";
import { once } from "node:events";
import type { Storage } from "../../src/storage/sqlite/storage.ts";
import { settled } from "../helpers/clock.ts";
import { memoryStorage } from "../helpers/storage.ts";
import { world } from "./world.ts";

/** A storage whose commits of new messages wait until the test lets them be, or fails them. */
function slowToBegin(storage = memoryStorage() as Storage) {
  const disk = Promise.withResolvers<void>();
  const submit: Storage["writer"]["submit"] = async (name, args, mode) => {
    if (name === "turns.begin") await disk.promise;
    return storage.writer.submit(name, args, mode);
  };
  return { storage: { reader: storage.reader, writer: { ...storage.writer, submit } }, disk };
}

/** A conversation in which "Hi" was answered with "Hello", on a storage that is slow from here on. */
async function begun() {
  const before = world({ model: "server" });
  const agent = await before.anAgent();
  const at = `/agents/${agent}/stream`;
  const first = before.ask("POST", at, { ...hello, id: "c1" });
  (await before.server.next()).say("Hello").finish();
  await (await first).text();
  const { storage, disk } = slowToBegin(before.storage);
  const w = world({ storage, model: "server" });
  const say = (content: string) => w.ask("POST", at, { id: "c1", messages: [{ role: "user", content }] });
  return { w, at, disk, say };
}

/** Whether the model is asked once more, now or later. */
function askedAgain({ server }: ReturnType<typeof world>) {
  const asked = { again: false };
  void server.next().then(() => {
    asked.again = true;
  });
  return asked;
}

const hello = { messages: [{ role: "user", content: "Hi" }] };

test("the model is asked while a first message is put on record, and nobody is told before it is", async () => {
  const { storage, disk } = slowToBegin();
  const w = world({ storage, model: "server" });
  const at = `/agents/${await w.anAgent()}/stream`;
  let isAnswered = false;
  const response = w.ask("POST", at, hello).finally(() => {
    isAnswered = true;
  });
  const call = await w.server.next();
  call.say("Hel", "lo").finish();
  await settled();
  expect([isAnswered, w.rows("turns")]).toEqual([false, []]);
  const asked = askedAgain(w);
  disk.resolve();
  const lines = await (await response).text();
  expect(lines).toContain('0:"Hel"\n0:"lo"\n');
  expect(w.rows("turns")).toMatchObject([{ state: "success" }]);
  expect(w.rows("messages")).toMatchObject([{ role: "user" }, { role: "assistant", state: "complete" }]);
  expect(asked.again).toBe(false);
});

test("an answer whose message is not on record yet is not one without a conversation", async () => {
  const { storage, disk } = slowToBegin();
  const w = world({ storage, model: "server" });
  const response = w.ask("POST", `/agents/${await w.anAgent()}/stream`, hello);
  const call = await w.server.next();
  await w.turns.haltOrphans();
  disk.resolve();
  call.say("Hello").finish();
  expect(await (await response).text()).toContain('0:"Hello"');
  expect(w.rows("turns")).toMatchObject([{ state: "success" }]);
});

test("a message that cannot be put on record is refused, and its model is asked no longer", async () => {
  const { storage, disk } = slowToBegin();
  const w = world({ storage, model: "server" });
  const at = `/agents/${await w.anAgent()}/stream`;
  const response = w.ask("POST", at, hello);
  const call = await w.server.next();
  call.say("Hel");
  const gone = once(call.gone, "abort");
  disk.reject(new Error("no room"));
  expect((await response).status).toBe(500);
  await gone;
  await settled();
  expect([w.rows("turns"), w.rows("messages"), w.reports]).toEqual([[], [], []]);
});

test("what the model calls is not run before the message is on record", async () => {
  const { storage, disk } = slowToBegin();
  const w = world({ storage, model: "server" });
  const helper = await w.anAgent({ name: "Helper" });
  const agent = await w.anAgent({ sub_agents: [{ agent_id: helper, description: "helps" }] });
  const response = w.ask("POST", `/agents/${agent}/stream`, hello);
  const call = await w.server.next();
  const [tool] = call.body.tools as { function: { name: string } }[];
  const called = {
    index: 0,
    id: "c1",
    function: { name: tool!.function.name, arguments: '{"message":"Help"}' },
  };
  call.delta({ tool_calls: [called] }).finish("tool_calls");
  let isHelped = false;
  const help = w.server.next().finally(() => {
    isHelped = true;
  });
  await settled();
  await settled();
  expect(isHelped).toBe(false);
  disk.resolve();
  (await help).say("done").finish();
  (await w.server.next()).say("Here").finish();
  expect(await (await response).text()).toContain('0:"Here"');
});

const SO_FAR = [
  { role: "user", content: "Hi" },
  { role: "assistant", content: "Hello" },
];

test("a later message asks the model early too, with all that was said before it, and is read by nobody yet", async () => {
  const { w, at, disk, say } = await begun();
  const response = say("And?");
  const call = await w.server.next();
  expect(call.body.messages).toEqual([...SO_FAR, { role: "user", content: "And?" }]);
  call.say("Yes");
  await settled();
  expect((await w.ask("GET", `${at}?chatId=c1`)).status).toBe(204);
  disk.resolve();
  await response;
  const other = await w.ask("GET", `${at}?chatId=c1`);
  call.finish();
  expect([await (await response).text(), await other.text()]).toEqual([
    expect.stringContaining('0:"Yes"'),
    expect.stringContaining('0:"Yes"'),
  ]);
});

test("of two messages that come together the second is asked with the answer to the first", async () => {
  const { w, disk, say } = await begun();
  const responses = [say("One?"), say("Two?")];
  const call = await w.server.next();
  const asked = { again: false };
  const second = w.server.next().finally(() => {
    asked.again = true;
  });
  call.say("1").finish();
  await settled();
  expect(asked.again).toBe(false);
  disk.resolve();
  const next = await second;
  expect(next.body.messages).toEqual([
    ...SO_FAR,
    { role: "user", content: "One?" },
    { role: "assistant", content: "1" },
    { role: "user", content: "Two?" },
  ]);
  next.say("2").finish();
  const texts = await Promise.all(responses.map(async (response) => (await response).text()));
  expect(texts).toEqual([expect.stringContaining('0:"1"'), expect.stringContaining('0:"2"')]);
});

test("a later message that cannot be put on record leaves the conversation as it was", async () => {
  const { w, at, disk, say } = await begun();
  const response = say("And?");
  const call = await w.server.next();
  call.say("Yes");
  const gone = once(call.gone, "abort");
  disk.reject(new Error("no room"));
  expect((await response).status).toBe(500);
  await gone;
  await settled();
  expect([w.rows("turns").length, w.rows("messages").length, w.reports]).toEqual([1, 2, []]);
  expect((await w.ask("GET", `${at}?chatId=c1&ended=true`)).status).toBe(204);
});

test("a message said otherwise is asked for once its place is found", async () => {
  const { w, at, disk } = await begun();
  const { messages } = hello;
  const response = w.ask("POST", at, { id: "c1", trigger: "regenerate-message", messages });
  await settled();
  const asked = askedAgain(w);
  await settled();
  expect(asked.again).toBe(false);
  disk.reject(new Error("no room"));
  expect((await response).status).toBe(500);
});

test("a message sent again under its Idempotency-Key asks the model for nothing", async () => {
  const w = world({ model: "server" });
  const at = `/agents/${await w.anAgent()}/stream`;
  const send = () => w.ask("POST", at, hello, { "idempotency-key": "one" });
  const first = send();
  (await w.server.next()).say("Hello").finish();
  await (await first).text();
  const asked = askedAgain(w);
  expect(await (await send()).text()).toContain('0:"Hello"');
  await settled();
  expect(asked.again).toBe(false);
});
