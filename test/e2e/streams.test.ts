import { afterAll, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { type Call, chatServer } from "../models/chat-server.ts";
import { world } from "./setup.ts";

const model = chatServer();
afterAll(model.close);
const { errand, key, workspace } = await world({ env: { OPENAI_BASE_URL: model.url } });
const headers = { authorization: `Bearer ${key.key}`, "content-type": "application/json" };
const { body: agent } = await errand.api<{ id: string }>("POST", `/api/agents?${workspace}`, {
  name: "Guide",
  auto_generate_title: false,
});
const at = `/api/agents/${agent.id}/stream`;
const messages = [{ role: "user", content: "Hi" }];
const ask = async (path: string, body: object) =>
  (await fetch(errand.url + path, { method: "POST", headers, body: JSON.stringify(body) })).text();

// Longer than a silent connection is left open otherwise, and than the first heartbeat takes.
const SILENCE_MS = 12_000;

test("answers survive a silence of the model, before their first word and under way", async () => {
  const door = { model: agent.id, messages };
  const requests = [
    [at, { messages }],
    ["/api/chat/completions", { ...door, stream: true }],
    ["/api/chat/completions", door],
    [`${at}?protocol=ui-message-stream`, { messages }],
    ["/api/responses", { model: agent.id, input: "Hi", stream: true }],
  ] as const;
  const answers: Promise<string>[] = [];
  const calls: Call[] = [];
  for (const [path, body] of requests) {
    answers.push(ask(path, body));
    calls.push(await model.next());
  }
  for (const call of calls.slice(3)) call.say("Hel");
  await Bun.sleep(SILENCE_MS);
  for (const call of calls.slice(0, 3)) call.say("Hel");
  for (const call of calls) call.say("lo").finish();
  const [data, chunks, whole, ui, events] = await Promise.all(answers);
  expect(data).toContain('\n\n0:"Hel"\n');
  expect(ui).toContain(": keep-alive\n\n");
  expect(ui).toEndWith("data: [DONE]\n\n");
  expect([chunks!.split("[DONE]").length, JSON.parse(whole!).choices[0].message.content]).toEqual([
    2,
    "Hello",
  ]);
  expect(events).toContain("response.completed");
}, 60_000);

const rss = (): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${errand.pid}/status`, "utf8"))?.[1]) / 1_024;
const SLOW = 100;
const TOKEN = "x".repeat(1_000);
const TOKENS = 6_000;

test.if(process.platform === "linux")(
  "readers that do not read cost next to nothing, and hold up nobody",
  async () => {
    const id = "big";
    const asked = fetch(errand.url + at, { method: "POST", headers, body: JSON.stringify({ id, messages }) });
    const call = await model.next();
    call.say("begin");
    const reader = (await asked).body!.pipeThrough(new TextDecoderStream()).getReader();
    let said = "";
    const read = async (length: number) => {
      while (said.length < length) {
        const { done, value } = await reader.read();
        if (done) return;
        said += value;
      }
    };
    const { port } = new URL(errand.url);
    const request = `GET ${at}?chatId=${id} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key.key}\r\n\r\n`;
    const slow = await Promise.all(
      Array.from({ length: SLOW }, async () => {
        const socket = connect(Number(port), "127.0.0.1");
        await new Promise((resolve) => socket.once("connect", resolve));
        socket.write(request);
        await new Promise((resolve) => socket.once("readable", resolve));
        socket.pause();
        return socket;
      }),
    );
    const before = rss();
    const reading = read(TOKENS * TOKEN.length);
    for (let n = 0; n < TOKENS; n += 100) {
      call.say(...Array.from({ length: 100 }, () => TOKEN));
      await Bun.sleep(2);
    }
    await reading;
    // Before the answer goes on record: to write six megabytes takes several times as much, whoever reads.
    const grown = rss() - before;
    call.finish();
    await read(Number.POSITIVE_INFINITY);
    expect(said.split(TOKEN).length - 1).toBe(TOKENS);
    for (const socket of slow) socket.destroy();
    // Six megabytes for each of them would be six hundred. What their sockets take is written for each of them, and
    // this much of what that leaves behind waits for the collector: seen 84 to 135, more on a busy machine.
    expect(grown).toBeLessThan(200);
  },
  60_000,
);
