import { Database } from "bun:sqlite";
import { afterAll, expect, test } from "bun:test";
import { join } from "node:path";
import { createKey, discard, scratch, startErrand } from "../../scripts/lib/errand.ts";
import { chatServer } from "../models/chat-server.ts";
import { eventually } from "./setup.ts";

const model = chatServer();
const data = scratch();
afterAll(() => {
  model.close();
  discard(data);
});

type Conversation = { messages: { status: string; content: string }[] };

test("words that were read before a kill -9 are in the conversation after it, once", async () => {
  const key = await createKey(data);
  const env = { OPENAI_BASE_URL: model.url, ERRAND_ALLOW_TARGETS: "127.0.0.1" };
  const start = () => startErrand({ data, key, args: ["--log-level", "warn"], env });
  let errand = await start();
  const made = await errand.api<{ id: string }>("POST", `/api/agents?workspace_id=${key.workspace_id}`, {
    name: "Teller",
    auto_generate_title: false,
  });
  const agent = `/api/agents/${made.body.id}`;
  const ask = (content: string) =>
    fetch(`${errand.url}${agent}/stream`, {
      method: "POST",
      headers: { authorization: `Bearer ${key.key}`, "content-type": "application/json" },
      body: JSON.stringify({ id: "story", messages: [{ role: "user", content }] }),
    });

  const asked = ask("Tell me a story");
  const call = await model.next();
  call.say("Once ", "upon ", "a time");
  const reader = (await asked).body!.pipeThrough(new TextDecoderStream()).getReader();
  for (let read = ""; !read.includes("a time"); ) read += (await reader.read()).value;
  const database = new Database(join(data, "errand.db"), { readonly: true });
  const kept = async () => database.query("SELECT count(*) AS n FROM turn_words").get() as { n: number };
  await eventually(kept, ({ n }) => n > 0, 20_000);
  database.close();
  await errand.kill();
  await reader.cancel().catch(() => {});

  for (let life = 0; life < 2; life++) {
    errand = await start();
    const { body } = await errand.api<Conversation>("GET", `${agent}/conversations/story`);
    expect(body.messages).toMatchObject([
      { content: "Tell me a story" },
      { status: "interrupted", content: "Once upon a time" },
    ]);
    if (life === 0) await errand.kill();
  }
  const again = ask("Go on");
  (await model.next()).say("there was").finish();
  expect(await (await again).text()).toContain('0:"there was"');
  await errand.stop();
}, 60_000);
