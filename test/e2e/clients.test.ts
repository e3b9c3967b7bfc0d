import { afterAll, describe, expect, test } from "bun:test";
import { chatServer } from "../models/chat-server.ts";
import { clients } from "./clients.ts";
import { world } from "./setup.ts";

const model = chatServer();
afterAll(model.close);
const { errand, key, workspace } = await world({ env: { OPENAI_BASE_URL: model.url } });

const agent = (
  await errand.api<{ id: string }>("POST", `/api/agents?${workspace}`, {
    name: "Guide",
    auto_generate_title: false,
  })
).body.id;

const workflow = (
  await errand.api<{ id: string }>("POST", `/api/workflows?${workspace}`, {
    name: "Order status",
    input_schema: { required: ["order"], properties: { order: { title: "Order", type: "integer" } } },
    nodes: [
      {
        name: "look",
        node_type_name: "set_variables",
        input_config: { variables: { status: "order {{ order }} is sent" } },
      },
    ],
  })
).body.id;
const withTool = (
  await errand.api<{ id: string }>("POST", `/api/agents?${workspace}`, {
    name: "Clerk",
    auto_generate_title: false,
    tools: [{ workflow_id: workflow }],
  })
).body.id;

const authorization = `Bearer ${key.key}`;
let chats = 0;
const place = (headers: Record<string, string> = {}, of = agent) => ({
  api: `${errand.url}/api/agents/${of}/stream`,
  headers: { authorization, ...headers },
  id: `chat-${++chats}`,
});

describe.each(clients)("$name", (client) => {
  test("shows the words as they were said", async () => {
    const said = client.chat(place()).say("Hi");
    (await model.next()).say('Hel"', "lo\n", "Wörld 👋").finish();
    expect(await said).toMatchObject({ text: 'Hel"lo\nWörld 👋', tools: [] });
  });

  test("has the next message answered in the same conversation", async () => {
    const chat = client.chat(place());
    for (const [question, answer] of [
      ["One", "1"],
      ["Two", "2"],
    ] as const) {
      const said = chat.say(question);
      const call = await model.next();
      call.say(answer).finish();
      expect(await said).toMatchObject({ text: answer });
      if (question === "Two") {
        expect(call.body.messages.map(({ content }: { content: string }) => content)).toEqual([
          "One",
          "1",
          "Two",
        ]);
      }
    }
  });

  test("is told what the server says beside the answer", async () => {
    const said = client.chat(place({ "x-enable-request-context": "true" })).say("Hi");
    (await model.next()).say("Hello").finish();
    const { data, text } = await said;
    expect(text).toBe("Hello");
    expect(JSON.stringify(data)).toContain('"conversation_id"');
  });

  test("shows a tool's call and its result, and the words after it", async () => {
    const said = client.chat(place({}, withTool)).say("Where is order 7?");
    const call = await model.next();
    const { name } = call.body.tools[0].function;
    call.delta({ tool_calls: [{ index: 0, id: "c1", function: { name, arguments: '{"order":7}' } }] });
    call.finish("tool_calls");
    (await model.next()).say("It is sent.").finish();
    expect(await said).toMatchObject({
      text: "It is sent.",
      tools: [{ name, args: { order: 7 }, result: { status: "order 7 is sent" } }],
    });
  });

  test("shows a failure under way in words", async () => {
    const said = client.chat(place()).say("Hi");
    (await model.next())
      .say("Half")
      .event({ error: { message: "overloaded" } })
      .end();
    expect((await said).error).toContain("The model's server");
  });

  test.if(client.reasons)("shows what the model thought", async () => {
    const said = client.chat(place()).say("Hi");
    (await model.next())
      .delta({ reasoning_content: "hm, " })
      .delta({ reasoning_content: "hi" })
      .say("Hello")
      .finish();
    expect(await said).toMatchObject({ reasoning: "hm, hi", text: "Hello" });
  });

  test.if(client.chat(place()).regenerate !== undefined)("has an answer given once more", async () => {
    const where = place();
    const chat = client.chat(where);
    const said = chat.say("Hi");
    (await model.next()).say("Hello").finish();
    await said;
    const again = chat.regenerate!();
    const call = await model.next();
    expect(call.body.messages).toEqual([{ role: "user", content: "Hi" }]);
    call.say("Good day").finish();
    expect(await again).toMatchObject({ text: "Good day" });
    const { body } = await errand.api<{ messages: { variants: string[] }[] }>(
      "GET",
      `/api/agents/${agent}/conversations/${where.id}`,
    );
    expect(body.messages.map(({ variants }) => variants.length)).toEqual([1, 2]);
  });

  test.if(client.chat(place()).resume !== undefined)("finds an answer under way again", async () => {
    const where = place();
    const first = client.chat(where).say("Hi");
    const call = await model.next();
    call.say("Hel");
    // The model is asked while the message is put on record; before that nobody finds an answer.
    const path = `/api/agents/${agent}/conversations/${where.id}`;
    while ((await errand.api("GET", path)).status !== 200) await Bun.sleep(1);
    const { promise: joined, resolve: join } = Promise.withResolvers<void>();
    const resumed = client.chat({ ...where, joined: join }).resume!();
    await joined;
    call.say("lo").finish();
    expect(await resumed).toMatchObject({ text: "Hello" });
    expect(await first).toMatchObject({ text: "Hello" });
  });
});
