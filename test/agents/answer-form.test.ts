import { describe, expect, test } from "bun:test";
import type { CreateAgent } from "../../src/agents/schema.ts";
import { readDataStream } from "../http/read-data-stream.ts";
import { CALLER, chat, world } from "./world.ts";

type World = ReturnType<typeof world>;
const schema = { type: "object", required: ["city"], properties: { city: { type: "string" } } };
const formed = { response_format: { type: "json_schema", schema } } satisfies Partial<CreateAgent>;

async function said(w: World, agent: string, words = "Where?", path = `/agents/${agent}/stream`) {
  const response = await w.ask("POST", path, chat(words, "c1-long-enough-to-thread"));
  return response.text().then(readDataStream);
}
const textOf = (parts: { type: string }[]) =>
  parts.map((part) => (part.type === "text" ? (part as never as { text: string }).text : "")).join("");

describe("an agent whose answers have a form", () => {
  test("asks for it, and tells the answer whole once it fits", async () => {
    const w = world({ model: "server" });
    const agent = await w.anAgent({ ...formed, system_prompt: "Be exact." });
    const parts = said(w, agent);
    const call = await w.server.next();
    expect(call.body.response_format).toEqual({
      type: "json_schema",
      json_schema: { name: "answer", schema },
    });
    expect(call.body.messages[0].content).toStartWith("Be exact.\n\n");
    expect(call.body.messages[0].content).toContain(JSON.stringify(schema));
    call.say("```json\n", '{"city":', '"Oslo"}', "\n```").finish();
    expect((await parts).filter(({ type }) => type === "text")).toEqual([
      { type: "text", text: '{"city":"Oslo"}' },
    ]);
    expect((await w.conversations.list(CALLER, agent, { limit: 1, offset: 0 })).items).toHaveLength(1);
  });

  test("tells the model once what is wrong, and takes the answer after that", async () => {
    const w = world({ model: "server" });
    const agent = await w.anAgent(formed);
    const parts = said(w, agent);
    (await w.server.next()).delta({ reasoning: "hm" }).say('{"city": 5}').finish();
    const second = await w.server.next();
    expect(second.body.messages.slice(-2)).toMatchObject([
      { role: "assistant", content: '{"city": 5}' },
      { role: "user", content: expect.stringContaining("city: expected") },
    ]);
    second.say('{"city":"Oslo"}').finish();
    const all = await parts;
    expect(textOf(all)).toBe('{"city":"Oslo"}');
    expect(all.at(-1)).toMatchObject({ reason: "stop", usage: { prompt_tokens: 14 } });
    const { items } = await w.conversations.list(CALLER, agent, { limit: 1, offset: 0 });
    const { messages } = await w.conversations.get(CALLER, agent, items[0]!.id);
    expect(messages[1]!.parts).toEqual([{ type: "text", text: '{"city":"Oslo"}' }]);
  });

  test("binds the model to it where it asks again, though it has tools", async () => {
    const w = world({ model: "server" });
    const sub_agents = [{ agent_id: await w.anAgent({ name: "Helper" }) }];
    const parts = said(w, await w.anAgent({ ...formed, sub_agents }));
    const first = await w.server.next();
    expect(first.body.response_format).toBeUndefined();
    first.say("Oslo, I think").finish();
    const second = await w.server.next();
    expect(second.body).toMatchObject({ tool_choice: "none", response_format: { type: "json_schema" } });
    second.say('{"city":"Oslo"}').finish();
    expect(textOf(await parts)).toBe('{"city":"Oslo"}');
  });

  test("has it of the offline model as well", async () => {
    const w = world();
    const alone = JSON.parse(textOf(await said(w, await w.anAgent(formed))));
    expect(alone).toEqual({ city: expect.stringContaining("offline model") });
    const sub_agents = [{ agent_id: await w.anAgent({ name: "Helper" }) }];
    const parts = await said(w, await w.anAgent({ ...formed, sub_agents }));
    expect(JSON.parse(textOf(parts))).toEqual({ city: expect.any(String) });
  });

  test("says readably that the model missed it twice", async () => {
    const w = world({ model: "server" });
    const parts = said(w, await w.anAgent(formed));
    for (let n = 0; n < 2; n++) (await w.server.next()).say("Oslo, I think").finish();
    expect((await parts).at(-1)).toMatchObject({ error: { code: "MODEL_MISFIT" } });
  });

  test.each([
    { type: "json_schema" },
    { type: "json_schema", schema: { type: "nothing" } },
    { type: "json_schema", schema, strictly: true },
    { type: "xml" },
    { schema },
    { type: "json_schema", schema, name: "no spaces" },
  ])("cannot have the form %j", async (response_format) => {
    const w = world();
    const { status } = await w.call("POST", "/agents?workspace_id=w", { name: "a", response_format });
    expect(status).toBe(400);
  });
});

test("what an agent is set to goes to the model, and where that fails to the next", async () => {
  const w = world({ model: "server" });
  const model_config = {
    reasoning_effort: "low" as const,
    fallback_models: ["openai/other"],
    time_limits: { first_token_seconds: 5 },
  };
  const parts = said(w, await w.anAgent({ model: "openai/one", model_config }));
  const first = await w.server.next();
  expect(first.body).toMatchObject({ model: "one", reasoning_effort: "low" });
  first.refuse(400, { message: "no such model" });
  const second = await w.server.next();
  expect(second.body.model).toBe("other");
  second.say("Here").finish();
  expect(textOf(await parts)).toBe("Here");
});

test("what a provider said about a failure is for those with a key, strangers get one sentence", async () => {
  const w = world({ model: "server" });
  const agent = await w.anAgent({ visibility: "public" });
  for (const [path, isTold] of [
    [`/agents/${agent}/stream`, true],
    [`/agents/anonymous/${agent}/stream`, false],
  ] as const) {
    const parts = said(w, agent, "Hi", path);
    (await w.server.next()).refuse(400, { message: "budget of acme used up" });
    const text = JSON.stringify(await parts);
    expect(text.includes("acme")).toBe(isTold);
    expect(text.includes("could not answer")).toBe(!isTold);
  }
  expect(w.reports).toEqual(["a public agent did not answer"]);
});

test("the offline model calls a tool that a message names, and tells what it answered", async () => {
  const w = world();
  const { id: workflow_id } = await w.workflows.create(CALLER, { workspace_id: "w" }, {
    name: "Sum",
    nodes: [{ name: "add", node_type_name: "set_variables", input_config: { variables: { sum: 3 } } }],
  } as never);
  const agent = await w.anAgent({ tools: [{ workflow_id }] });
  for (const words of ["/sum {}", "/tool {}", "/tool sum", "/sum"]) {
    expect(textOf(await said(w, agent, words))).toBe('sum answered: {"sum":3}');
  }
  expect(textOf(await said(w, agent, "/subtract {}"))).toContain("I can call /sum");
  expect(textOf(await said(w, agent, "/sum {oops}"))).toContain("not a JSON object");
  expect(textOf(await said(w, agent, "Hi"))).toContain("/sum {...}");
  expect(w.rows("executions")).toHaveLength(4);
});
