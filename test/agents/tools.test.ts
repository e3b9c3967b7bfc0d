import { describe, expect, test } from "bun:test";
import { settled } from "../helpers/clock.ts";
import { readDataStream } from "../http/read-data-stream.ts";
import type { Call } from "../models/chat-server.ts";
import { CALLER, chat, OTHER, world } from "./world.ts";

type World = ReturnType<typeof world>;

/** A workflow of the project that answers with `output`, made from its input. */
const aWorkflow = async (
  w: World,
  more: {
    name?: string;
    properties?: object;
    required?: string[];
    variables?: object;
    nodes?: object[];
  } = {},
  caller = CALLER,
) =>
  (
    await w.workflows.create(caller, { workspace_id: "w" }, {
      name: more.name ?? "Order status",
      input_schema: {
        title: "t",
        description: "Tells how an order stands.",
        required: more.required ?? ["order"],
        properties: more.properties ?? { order: { type: "integer", title: "Order" } },
      },
      nodes: more.nodes ?? [
        {
          name: "look",
          node_type_name: "set_variables",
          input_config: { variables: more.variables ?? { status: "order {{ order }} is sent" } },
        },
      ],
    } as never)
  ).id;

/** Says `words`; the parts once the stream has ended. */
async function said(w: World, agent: string, words: string, id = "c1") {
  const response = await w.ask("POST", `/agents/${agent}/stream`, chat(words, id));
  return { response, parts: response.text().then(readDataStream) };
}
const calls = (call: Call, ...list: [id: string, name: string, args: object][]) => {
  for (const [index, [id, name, args]] of list.entries()) {
    call.delta({ tool_calls: [{ index, id, function: { name, arguments: JSON.stringify(args) } }] });
  }
  call.finish("tool_calls", { prompt_tokens: 10, completion_tokens: 5 });
};
const toolMessages = (call: Call) =>
  call.body.messages
    .filter(({ role }: { role: string }) => role === "tool")
    .map(({ content }: { content: string }) => content);

describe("a workflow as a tool", () => {
  test("is offered by its schema, run when called, and its result is told to the model and the reader", async () => {
    const w = world({ model: "server" });
    const workflow_id = await aWorkflow(w);
    const agent = await w.anAgent({ tools: [{ workflow_id }] });
    const { parts } = await said(w, agent, "Where is order 7?");
    const first = await w.server.next();
    expect(first.body.tools).toEqual([
      {
        type: "function",
        function: {
          name: "order_status",
          description: "Tells how an order stands.",
          parameters: {
            title: "t",
            description: "Tells how an order stands.",
            type: "object",
            properties: { order: { type: "integer", title: "Order", description: "" } },
            required: ["order"],
          },
        },
      },
    ]);
    first.say("Let me see.");
    calls(first, ["call_a", "order_status", { order: 7 }]);
    const second = await w.server.next();
    expect(second.body.messages.slice(1)).toEqual([
      {
        role: "assistant",
        content: "Let me see.",
        tool_calls: [
          { id: "call_a", type: "function", function: { name: "order_status", arguments: '{"order":7}' } },
        ],
      },
      { role: "tool", tool_call_id: "call_a", content: '{"status":"order 7 is sent"}' },
    ]);
    second.say("It is sent.").finish();
    const [f1, text, call, result, e1, ...rest] = await parts;
    expect([f1!.type, text]).toEqual(["start_step", { type: "text", text: "Let me see." }]);
    expect(call).toEqual({ type: "tool_call", id: "call_a", name: "order_status", args: { order: 7 } });
    expect(result).toEqual({
      type: "tool_result",
      id: "call_a",
      result: { status: "order 7 is sent" },
    });
    expect(e1).toMatchObject({ type: "finish_step", reason: "tool-calls", usage: { prompt_tokens: 10 } });
    expect(rest.map(({ type }) => type)).toEqual(["start_step", "text", "finish_step", "finish"]);
    expect(rest.at(-1)).toMatchObject({ usage: { prompt_tokens: 17, completion_tokens: 8 } });
    const [run] = w.rows("executions") as { source: string; metadata: string; hop: number }[];
    expect(run).toMatchObject({ source: "agent", hop: 1 });
    expect(JSON.parse(run!.metadata)).toMatchObject({ agent_id: agent, tool_call_id: "call_a" });
    expect(w.storage.reader.all("SELECT * FROM turn_steps")).toEqual([]);
  });

  test("is kept in the conversation, and later turns tell the model of it", async () => {
    const w = world({ model: "server" });
    const agent = await w.anAgent({ tools: [{ workflow_id: await aWorkflow(w) }] });
    const { parts } = await said(w, agent, "Where is 7?");
    calls(await w.server.next(), ["a", "order_status", { order: 7 }]);
    (await w.server.next()).say("Sent.").finish();
    await parts;
    const { messages } = await w.conversations.get(CALLER, agent, "c1");
    expect(messages[1]!.parts.map(({ type }) => type)).toEqual(["tool_call", "tool_result", "text"]);
    await said(w, agent, "Thanks");
    const later = await w.server.next();
    expect(later.body.messages.map(({ role }: { role: string }) => role)).toEqual([
      "user",
      "assistant",
      "tool",
      "assistant",
      "user",
    ]);
  });

  test("called several times at once runs side by side, and each call keeps its result", async () => {
    const w = world({ model: "server" });
    const agent = await w.anAgent({ tools: [{ workflow_id: await aWorkflow(w) }] });
    const { parts } = await said(w, agent, "Both?");
    calls(await w.server.next(), ["a", "order_status", { order: 1 }], ["b", "order_status", { order: 2 }]);
    const second = await w.server.next();
    expect(toolMessages(second)).toEqual(['{"status":"order 1 is sent"}', '{"status":"order 2 is sent"}']);
    second.say("Both sent").finish();
    await parts;
    expect(w.rows("executions")).toHaveLength(2);
  });

  test.each([
    ["that does not exist", "nothing", { order: 7 }, "UNKNOWN_TOOL"],
    ["with arguments that do not fit", "order_status", { order: "seven" }, "INVALID_ARGUMENTS"],
    ["with arguments that are no object", "order_status", ["x"], "INVALID_ARGUMENTS"],
  ])("a call %s is answered with what is wrong", async (_, name, args, code) => {
    const w = world({ model: "server" });
    const agent = await w.anAgent({ tools: [{ workflow_id: await aWorkflow(w) }] });
    const { parts } = await said(w, agent, "Go");
    calls(await w.server.next(), ["a", name, args]);
    const second = await w.server.next();
    expect(JSON.parse(toolMessages(second)[0]!)).toMatchObject({ error: { code } });
    second.say("Sorry").finish();
    expect((await parts).at(-1)).toMatchObject({ type: "finish", reason: "stop" });
    expect(w.rows("executions")).toEqual([]);
  });

  test("arguments cut off in the middle are told to be no JSON", async () => {
    const w = world({ model: "server" });
    const agent = await w.anAgent({ tools: [{ workflow_id: await aWorkflow(w, { required: [] }) }] });
    const { parts } = await said(w, agent, "Go");
    const first = await w.server.next();
    first.delta({
      tool_calls: [{ index: 0, id: "a", function: { name: "order_status", arguments: '{"or' } }],
    });
    first.finish("tool_calls");
    const second = await w.server.next();
    expect(toolMessages(second)[0]).toContain("INVALID_ARGUMENTS");
    second.say("Sorry").finish();
    expect((await parts)[1]).toMatchObject({ args: { unreadable_arguments: '{"or' } });
  });

  test("what its owner fixed is neither asked for nor to be overridden", async () => {
    const w = world({ model: "server" });
    const workflow_id = await aWorkflow(w, {
      properties: { order: { type: "integer" }, shop: { type: "string" } },
      required: ["order", "shop"],
      variables: { told: "{{ shop }}" },
    });
    const agent = await w.anAgent({ tools: [{ workflow_id, input_config: { shop: "north" } }] });
    const { parts } = await said(w, agent, "Go");
    const first = await w.server.next();
    expect(first.body.tools[0].function.parameters).toMatchObject({
      properties: { order: { type: "integer" } },
      required: ["order"],
    });
    calls(first, ["a", "order_status", { order: 1, shop: "south" }]);
    const second = await w.server.next();
    expect(toolMessages(second)).toEqual(['{"told":"north"}']);
    second.say("ok").finish();
    await parts;
  });

  test("that fails is told to the model with its error", async () => {
    const w = world({ model: "server" });
    const workflow_id = await aWorkflow(w, { variables: { status: "{{ run.nothing.at.all }}" } });
    const agent = await w.anAgent({ tools: [{ workflow_id }] });
    const { parts } = await said(w, agent, "Go");
    calls(await w.server.next(), ["a", "order_status", { order: 1 }]);
    const second = await w.server.next();
    expect(JSON.parse(toolMessages(second)[0]!).error.execution_id).toBeString();
    second.say("It failed").finish();
    expect((await parts).at(-1)).toMatchObject({ reason: "stop" });
  });

  test("that answers a book is cut at 32 KiB and says so", async () => {
    const w = world({ model: "server" });
    const workflow_id = await aWorkflow(w, { variables: { text: "é".repeat(40_000) } });
    const agent = await w.anAgent({ tools: [{ workflow_id }] });
    const { parts } = await said(w, agent, "Go");
    calls(await w.server.next(), ["a", "order_status", { order: 1 }]);
    const second = await w.server.next();
    const told = toolMessages(second)[0]!;
    expect(Buffer.byteLength(told)).toBeLessThan(33_000);
    expect(told).toMatch(/\[cut: 32768 of \d+ bytes\]$/);
    expect(told).not.toContain("\uFFFD");
    second.say("ok").finish();
    await parts;
  });

  test("that does not end in time goes on, and the model is told", async () => {
    const w = world({ model: "server" });
    const nodes = [{ name: "ask", node_type_name: "llm", input_config: { prompt: "slow" } }];
    const workflow_id = await aWorkflow(w, { nodes, required: [] });
    const agent = await w.anAgent({ tools: [{ workflow_id, timeout_seconds: 3 }] });
    const { parts } = await said(w, agent, "Go");
    calls(await w.server.next(), ["a", "order_status", {}]);
    const slow = await w.server.next();
    await w.clock.advance(3_000);
    const second = await w.server.next();
    expect(JSON.parse(toolMessages(second)[0]!).error).toMatchObject({ code: "TIMEOUT" });
    second.say("Later").finish();
    await parts;
    slow.say("done").finish();
  });

  test("two of one name are told apart, and one of another project is not offered", async () => {
    const w = world({ model: "server" });
    const [a, b] = [await aWorkflow(w, { name: "Ünder-way!" }), await aWorkflow(w, { name: "Under way" })];
    const agent = await w.anAgent({ tools: [{ workflow_id: a }, { workflow_id: b }] });
    const foreign = await aWorkflow(w, {}, OTHER);
    w.storage.reader.run(
      "UPDATE agents SET settings = json_set(settings, '$.tools[2]', json(?))",
      JSON.stringify({ workflow_id: foreign }),
    );
    await said(w, agent, "Go");
    const { tools } = (await w.server.next()).body;
    expect(tools.map((tool: { function: { name: string } }) => tool.function.name)).toEqual([
      "under_way",
      "under_way_2",
    ]);
  });

  test("the last step allowed is asked for words, and an agent that only calls comes to an end", async () => {
    const w = world({ model: "server" });
    const tools = [{ workflow_id: await aWorkflow(w) }];
    const agent = await w.anAgent({ tools, recursion_limit: 2 });
    const { parts } = await said(w, agent, "Go");
    const first = await w.server.next();
    expect(first.body.tool_choice).toBeUndefined();
    calls(first, ["a", "order_status", { order: 1 }]);
    const second = await w.server.next();
    expect(second.body.tool_choice).toBe("none");
    calls(second, ["a", "order_status", { order: 1 }]);
    expect((await parts).at(-1)).toMatchObject({ type: "finish", reason: "error" });
    expect((await w.conversations.get(CALLER, agent, "c1")).messages[1]).toMatchObject({ status: "failed" });
  });
});

describe("a sub-agent as a tool", () => {
  test("answers by its own words and tools, and what it took is counted", async () => {
    const w = world({ model: "server" });
    const helper = await w.anAgent({ name: "Billing", system_prompt: "You bill.", model: "openai/small" });
    const agent = await w.anAgent({ sub_agents: [{ agent_id: helper, description: "Knows bills." }] });
    const { parts } = await said(w, agent, "How much?");
    const first = await w.server.next();
    expect(first.body.tools[0].function).toMatchObject({ name: "ask_billing", description: "Knows bills." });
    calls(first, ["a", "ask_billing", { message: "Sum?" }]);
    const inner = await w.server.next();
    expect(inner.body).toMatchObject({
      model: "small",
      messages: [
        { role: "system", content: "You bill." },
        { role: "user", content: "Sum?" },
      ],
    });
    inner.say("42").finish();
    const second = await w.server.next();
    expect(toolMessages(second)).toEqual(["42"]);
    second.say("It is 42").finish();
    const all = await parts;
    expect(all.map(({ type }) => type)).toEqual([
      "start_step",
      "tool_call",
      "tool_result",
      "finish_step",
      "start_step",
      "text",
      "finish_step",
      "finish",
    ]);
    expect(all.at(-1)).toMatchObject({ usage: { prompt_tokens: 24, completion_tokens: 11 } });
  });

  test("stands at most three deep, and none of them its own helper", async () => {
    const w = world({ model: "server" });
    const ids = [await w.anAgent({ name: "a4" })];
    for (const name of ["a3", "a2", "a1", "a0"]) {
      ids.unshift(await w.anAgent({ name, sub_agents: [{ agent_id: ids[0]! }] }));
    }
    w.storage.reader.run(
      "UPDATE agents SET settings = json_set(settings, '$.sub_agents[1]', json(?)) WHERE name = 'a1'",
      JSON.stringify({ agent_id: ids[0] }),
    );
    const { parts } = await said(w, ids[0]!, "Go");
    for (const name of ["ask_a1", "ask_a2", "ask_a3"]) {
      const call = await w.server.next();
      expect(call.body.tools.map((tool: { function: { name: string } }) => tool.function.name)).toEqual([
        name,
      ]);
      calls(call, ["a", name, { message: "Go" }]);
    }
    const deepest = await w.server.next();
    expect(deepest.body.tools).toBeUndefined();
    deepest.say("deep").finish();
    for (let n = 0; n < 3; n++) (await w.server.next()).say("up").finish();
    expect((await parts).at(-1)).toMatchObject({ reason: "stop" });
  });

  test("that fails is told to the agent that asked", async () => {
    const w = world({ model: "server" });
    const helper = await w.anAgent({ name: "Helper", model: "nobody/here" });
    const agent = await w.anAgent({ sub_agents: [{ agent_id: helper }] });
    const { parts } = await said(w, agent, "Go");
    calls(await w.server.next(), ["a", "ask_helper", { message: "Go" }]);
    const second = await w.server.next();
    expect(toolMessages(second)[0]).toContain("MODEL_UNKNOWN");
    second.say("Nobody there").finish();
    expect((await parts).at(-1)).toMatchObject({ reason: "stop" });
  });
});

describe("a turn that a job answers", () => {
  test("goes on after a crash from the steps on record, and repeats no call that has ended", async () => {
    const w = world({ model: "server" });
    const agent = await w.anAgent({ tools: [{ workflow_id: await aWorkflow(w) }] });
    const { id } = await w.enqueue(agent, "Where is 7?");
    calls(await w.server.next(), ["a", "order_status", { order: 7 }], ["b", "order_status", { order: 8 }]);
    await w.server.next(); // the program ends while the second step is asked for
    const steps = w.storage.reader.all("SELECT seq FROM turn_steps");
    expect(steps).toHaveLength(1);

    const after = world({ model: "server", storage: w.storage });
    await after.runner.start();
    const second = await after.server.next();
    expect(toolMessages(second)).toEqual(['{"status":"order 7 is sent"}', '{"status":"order 8 is sent"}']);
    second.say("Sent").finish();
    expect(await after.until(id, "success")).toMatchObject({ reply: "Sent" });
    expect(after.rows("executions")).toHaveLength(2);
    expect(after.storage.reader.all("SELECT * FROM turn_steps")).toEqual([]);
  });

  test("asks again for a run that it had started without knowing, and starts no second one", async () => {
    const w = world({ model: "server" });
    const agent = await w.anAgent({ tools: [{ workflow_id: await aWorkflow(w) }] });
    const { id } = await w.enqueue(agent, "Where is 7?");
    calls(await w.server.next(), ["a", "order_status", { order: 7 }]);
    await w.server.next();
    // The result was lost, the run was not.
    w.storage.reader.run("UPDATE turn_steps SET parts = json_remove(parts, '$[1]')");
    const after = world({ model: "server", storage: w.storage });
    await after.runner.start();
    const second = await after.server.next();
    expect(toolMessages(second)).toEqual(['{"status":"order 7 is sent"}']);
    second.say("Sent").finish();
    await after.until(id, "success");
    expect(after.rows("executions")).toHaveLength(1);
  });

  test("a stream that the program died under keeps the steps that were whole", async () => {
    const w = world({ model: "server" });
    const agent = await w.anAgent({ tools: [{ workflow_id: await aWorkflow(w) }] });
    await said(w, agent, "Where is 7?");
    calls(await w.server.next(), ["a", "order_status", { order: 7 }]);
    await w.server.next();
    const after = world({ model: "server", storage: w.storage });
    expect(await after.turns.recover()).toBe(1);
    const { messages } = await after.conversations.get(CALLER, agent, "c1");
    expect(messages[1]).toMatchObject({ status: "interrupted" });
    expect(messages[1]!.parts.map(({ type }) => type)).toEqual(["tool_call", "tool_result"]);
    await settled();
  });
});
