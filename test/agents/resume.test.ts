import { describe, expect, test } from "bun:test";
import { settled } from "../helpers/clock.ts";
import { readDataStream } from "../http/read-data-stream.ts";
import { readUiMessageStream } from "../http/read-ui-message-stream.ts";
import { CALLER, chat, NOWHERE, OTHER, world } from "./world.ts";

const LONG = "chat-4f1d0c7e9b2a4d55";

/** An answer under way: "Hel" has come. */
async function underway(options: { anonymous?: boolean } = {}) {
  const w = world({ model: "server" });
  const id = await w.anAgent({ visibility: "public" });
  const agent = options.anonymous ? `anonymous/${id}` : id;
  const first = await w.ask("POST", `/agents/${agent}/stream`, chat("Hi", LONG));
  const call = await w.server.next();
  call.say("Hel");
  await settled();
  return { w, id, agent, first, call, conversation_id: first.headers.get("x-conversation-id")! };
}
const textOf = (parts: { type: string; text?: string }[]) =>
  parts.map((part) => (part.type === "text" ? part.text : "")).join("");

describe.each(["project", "anonymous"])("an answer under way, of a conversation of the %s,", (owner) => {
  const anonymous = owner === "anonymous";

  test("is read from its start by several readers, in either protocol", async () => {
    const { w, agent, first, call, conversation_id } = await underway({ anonymous });
    const readers = await Promise.all([
      w.ask("GET", `/agents/${agent}/stream?chatId=${LONG}`),
      w.ask("GET", `/agents/${agent}/stream?chatId=${conversation_id}`),
      w.ask("GET", `/agents/${agent}/stream/${LONG}/stream`),
    ]);
    call.say("lo").finish();
    const whole = readDataStream(await first.text());
    expect(textOf(whole)).toBe("Hello");
    expect(readDataStream(await readers[0].text())).toEqual(whole);
    expect(readDataStream(await readers[1].text())).toEqual(whole);
    const chunks = readUiMessageStream(await readers[2].text());
    expect(chunks.filter(({ type }) => type === "text-delta").map(({ delta }) => delta)).toEqual([
      "Hel",
      "lo",
    ]);
  });

  test("is stopped when asked: readers get a proper end, what had come is kept and counts", async () => {
    const { w, id, agent, first, call, conversation_id } = await underway({ anonymous });
    const { status, body } = await w.call("POST", `/agents/${agent}/conversations/${LONG}/stop`);
    expect(status).toBe(200);
    expect(body).toEqual({ conversation_id, stopped: [expect.any(String)] });
    const parts = readDataStream(await first.text());
    expect(textOf(parts)).toBe("Hel");
    expect(parts.at(-1)).toMatchObject({ type: "finish", reason: "other" });
    expect(parts.some(({ type }) => type === "error")).toBe(false);
    expect(call.gone.aborted).toBe(true);
    expect(w.rows("turns")).toMatchObject([{ state: "cancelled", error: null }]);
    const read = await w.call("GET", `/agents/${id}/conversations/${conversation_id}`);
    expect(read.body.messages[1]).toMatchObject({ content: "Hel", status: "stopped" });

    await w.ask("POST", `/agents/${agent}/stream`, chat("Go on", LONG));
    expect((await w.server.next()).body.messages).toEqual([
      { role: "user", content: "Hi" },
      { role: "assistant", content: "Hel" },
      { role: "user", content: "Go on" },
    ]);
  });
});

describe("where nothing is being answered", () => {
  test("there is nothing to read, whether or not there is such a conversation", async () => {
    const w = world();
    const agent = await w.anAgent({ visibility: "public" });
    await (await w.ask("POST", `/agents/${agent}/stream`, chat("Hi", LONG))).text();
    for (const path of [
      `${agent}/stream?chatId=${LONG}`,
      `${agent}/stream/${LONG}/stream`,
      `${agent}/stream?chatId=${NOWHERE}`,
      `anonymous/${agent}/stream?chatId=${NOWHERE}`,
      `anonymous/${agent}/stream/${NOWHERE}/stream`,
    ]) {
      expect([path, (await w.call("GET", `/agents/${path}`)).status]).toEqual([path, 204]);
    }
    const ended = await w.ask("GET", `/agents/${agent}/stream?chatId=${LONG}&ended=true`);
    expect(readDataStream(await ended.text()).at(-1)).toMatchObject({ type: "finish" });
  });

  test("a stop stops nothing", async () => {
    const w = world();
    const agent = await w.anAgent();
    await (await w.ask("POST", `/agents/${agent}/stream`, chat("Hi", LONG))).text();
    const { status, body } = await w.call("POST", `/agents/${agent}/conversations/${LONG}/stop`);
    expect([status, body.stopped]).toEqual([200, []]);
  });
});

describe("out of reach", () => {
  test("is a stream of another project, another agent, or a private agent's without a key", async () => {
    const { w, id, conversation_id } = await underway();
    const other = await w.anAgent();
    const hidden = await w.anAgent({ visibility: "private" });
    const foreign = await w.anAgent({}, OTHER);
    const ask = async (method: string, path: string) => (await w.call(method, `/agents/${path}`)).status;
    expect(await ask("GET", `${foreign}/stream?chatId=${LONG}`)).toBe(403);
    expect(await ask("GET", `${NOWHERE}/stream?chatId=${LONG}`)).toBe(404);
    expect(await ask("GET", `anonymous/${hidden}/stream?chatId=${LONG}`)).toBe(404);
    expect(await ask("GET", `${other}/stream/${conversation_id}/stream`)).toBe(204);
    expect(await ask("POST", `${other}/conversations/${conversation_id}/stop`)).toBe(404);
    // The project's, asked for without a key.
    expect(await ask("GET", `anonymous/${id}/stream?chatId=${conversation_id}`)).toBe(204);
    expect(await ask("POST", `anonymous/${id}/conversations/${conversation_id}/stop`)).toBe(404);
    expect(await ask("GET", `${id}/stream`)).toBe(400);
  });
});

describe("a stop that names an answer", () => {
  test("leaves a newer one alone", async () => {
    const { w, agent, first, call } = await underway();
    const path = `/agents/${agent}/conversations/${LONG}/stop?execution_id=${NOWHERE}`;
    expect((await w.call("POST", path)).body.stopped).toEqual([]);
    call.say("lo").finish();
    expect(textOf(readDataStream(await first.text()))).toBe("Hello");
  });
});

describe("a message while another of its conversation is answered", () => {
  test("is taken at once and answered next, with what was answered before it", async () => {
    const { w, agent, first, call } = await underway();
    const second = await w.ask("POST", `/agents/${agent}/stream`, chat("And?", LONG));
    expect(second.status).toBe(200);
    expect(w.rows("messages")).toHaveLength(2);
    call.say("lo").finish();
    await first.text();
    const next = await w.server.next();
    expect(next.body.messages).toEqual([
      { role: "user", content: "Hi" },
      { role: "assistant", content: "Hello" },
      { role: "user", content: "And?" },
    ]);
    next.say("Yes").finish();
    expect(textOf(readDataStream(await second.text()))).toBe("Yes");
  });

  test("is refused when five wait, and a stop ends them all", async () => {
    const { w, agent, first } = await underway();
    const waiting = [];
    for (let n = 0; n < 4; n++) waiting.push(await w.ask("POST", `/agents/${agent}/stream`, chat("a", LONG)));
    const refused = await w.call("POST", `/agents/${agent}/stream`, chat("b", LONG));
    expect([refused.status, refused.body.error.code]).toEqual([409, "CONFLICT"]);
    const { body } = await w.call("POST", `/agents/${agent}/conversations/${LONG}/stop`);
    expect(body.stopped).toHaveLength(5);
    for (const response of [first, ...waiting]) {
      expect(readDataStream(await response.text()).at(-1)).toMatchObject({ reason: "other" });
    }
    expect(w.rows("turns").map((turn) => (turn as { state: string }).state)).toEqual(
      Array(5).fill("cancelled"),
    );
  });
});

describe("messages that come at once", () => {
  test("are five, also where eight are sent at the same moment", async () => {
    const { w, agent, first } = await underway();
    const sent = await Promise.all(
      Array.from("abcdefgh", (word) => w.ask("POST", `/agents/${agent}/stream`, chat(word, LONG))),
    );
    const statuses = sent.map(({ status }) => status).toSorted();
    expect(statuses).toEqual([200, 200, 200, 200, 409, 409, 409, 409]);
    await w.call("POST", `/agents/${agent}/conversations/${LONG}/stop`);
    for (const response of [first, ...sent]) await response.text();
  });
});

describe("an agent that is deleted", () => {
  test("ends its streams under way and those that wait behind them, and no others", async () => {
    const { w, agent, first } = await underway();
    const other = await w.anAgent();
    const elsewhere = await w.ask("POST", `/agents/${other}/stream`, chat("a", LONG));
    const call = await w.server.next();
    const second = await w.ask("POST", `/agents/${agent}/stream`, chat("And?", LONG));
    expect((await w.call("DELETE", `/agents/${agent}`)).status).toBe(204);
    for (const response of [first, second])
      expect(readDataStream(await response.text()).at(-1)).toMatchObject({ reason: "other" });
    call.say("Hello").finish();
    expect(readDataStream(await elsewhere.text()).at(-1)).toMatchObject({ reason: "stop" });
    const states = w.rows("turns").map((turn) => (turn as { state: string }).state);
    expect(states.toSorted()).toEqual(["cancelled", "cancelled", "success"]);
  });
});

describe("what another process deletes beside the program that answers", () => {
  test.each(["agent", "conversation"])("ends at the next look around: an %s", async (what) => {
    const { w, id, first, conversation_id } = await underway();
    const other = await w.anAgent();
    const elsewhere = await w.ask("POST", `/agents/${other}/stream`, chat("a", LONG));
    const call = await w.server.next();
    const beside = world({ storage: w.storage });
    if (what === "agent") await beside.agents.remove(CALLER, id);
    else await beside.conversations.admin.remove(conversation_id);
    await w.turns.haltOrphans();
    expect(readDataStream(await first.text()).at(-1)).toMatchObject({ reason: "other" });
    call.say("Hello").finish();
    expect(readDataStream(await elsewhere.text()).at(-1)).toMatchObject({ reason: "stop" });
    expect(w.rows("messages")).toHaveLength(what === "agent" ? 4 : 2);
  });

  test("leaves a webhook's message of a deleted agent to its job", async () => {
    const w = world({ model: "server" });
    const agent = await w.anAgent();
    const { id } = await w.enqueue(agent, "a");
    const call = await w.server.next();
    await world({ storage: w.storage }).agents.remove(CALLER, agent);
    await w.turns.haltOrphans();
    call.say("Done").finish();
    expect(await w.until(id, "success")).toMatchObject({ reply: "Done" });
  });
});

describe("a message of a webhook", () => {
  test("that waits or runs is stopped too, and stays stopped", async () => {
    const w = world({ model: "server" });
    const agent = await w.anAgent();
    const context = { conversation_id: LONG };
    const [running, waiting] = [
      await w.enqueue(agent, "a", { context }),
      await w.enqueue(agent, "b", { context }),
    ];
    await w.server.next();
    const { body } = await w.call("POST", `/agents/${agent}/conversations/${LONG}/stop`);
    expect(body.stopped.sort()).toEqual([running.id, waiting.id].sort());
    await settled(40);
    await w.clock.advance(60_000);
    for (const { id } of [running, waiting]) expect((await w.turns.status(id))?.status).toBe("cancelled");
    expect(w.rows("messages")).toHaveLength(2);
  });
});
