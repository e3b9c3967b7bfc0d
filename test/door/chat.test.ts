import { describe, expect, test } from "bun:test";
import { CALLER, chat, NOWHERE, world } from "../agents/world.ts";
import { settled } from "../helpers/clock.ts";

const COMPLETIONS = "/chat/completions";
const user = (content: unknown) => ({ role: "user", content });

async function setup(agent: Parameters<ReturnType<typeof world>["anAgent"]>[0] = {}) {
  const w = world({ model: "server" });
  const model = await w.anAgent({ system_prompt: "Be brief.", ...agent });
  const post = (body: object, headers = {}) => w.call("POST", COMPLETIONS, { model, ...body }, headers);
  const open = (body: object, headers = {}) => w.ask("POST", COMPLETIONS, { model, ...body }, headers);
  const nothingKept = () => expect([w.rows("conversations"), w.rows("events")]).toEqual([[], []]);
  return { w, model, post, open, nothingKept };
}

/** The data of a stream's events. */
async function chunksOf(response: Response) {
  const lines = (await response.text()).split("\n\n").filter((line) => line.startsWith("data: "));
  expect(lines.pop()).toBe("data: [DONE]");
  return lines.map((line) => JSON.parse(line.slice(6)));
}

describe("models", () => {
  test("are the agents of the key's project", async () => {
    const { w, model } = await setup({ name: "Guide", description: "Knows the way" });
    const { status, body } = await w.call("GET", "/models");
    const mine = {
      id: model,
      object: "model",
      created: Date.UTC(2026, 0, 1) / 1_000,
      owned_by: "errand",
      name: "Guide",
      metadata: { name: "Guide", description: "Knows the way" },
    };
    expect([status, body]).toEqual([200, { object: "list", data: [mine] }]);
    expect((await w.call("GET", `/models/${model}`)).body).toEqual(mine);
    const others = await w.call("GET", "/models", undefined, { authorization: "Bearer other" });
    expect(others.body.data).toEqual([]);
  });

  test.each([NOWHERE, "gpt-5"])("that do not exist are not found (%s)", async (id) => {
    const { w } = await setup();
    const { status, body } = await w.call("GET", `/models/${id}`);
    expect(status).toBe(404);
    expect(body.error).toMatchObject({
      type: "invalid_request_error",
      param: "model",
      code: "model_not_found",
    });
  });
});

describe("a chat completion", () => {
  test("answers to what the client sends, behind the agent's prompt, and keeps nothing", async () => {
    const { w, model, post, nothingKept } = await setup({
      model_config: { temperature: 0.2, max_tokens: 50 },
    });
    const messages = [
      { role: "system", content: "Rhyme." },
      user("Hi"),
      { role: "assistant", content: "Hello" },
      { role: "developer", content: [{ type: "text", text: "In German." }] },
      user([
        { type: "text", text: "How" },
        { type: "text", text: "now?" },
      ]),
    ];
    const asked = post({ messages, temperature: 1, stop: ["x"], frequency_penalty: 1, n: 1, store: false });
    const call = await w.server.next();
    expect(call.body).toMatchObject({ temperature: 1, max_tokens: 50 });
    expect(call.body.messages).toEqual([
      { role: "system", content: "Be brief.\n\nRhyme.\n\nIn German." },
      { role: "user", content: "Hi" },
      { role: "assistant", content: "Hello" },
      { role: "user", content: "How\nnow?" },
    ]);
    call.delta({ reasoning_content: "Hm" }).say("Brown", " cow").finish();
    const { status, body } = await asked;
    expect(status).toBe(200);
    expect(body).toEqual({
      id: expect.stringMatching(/^chatcmpl-[0-9a-f]{32}$/),
      object: "chat.completion",
      created: Date.UTC(2026, 0, 1) / 1_000,
      model,
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: "Brown cow", refusal: null, reasoning_content: "Hm" },
          logprobs: null,
          finish_reason: "stop",
        },
      ],
      usage: { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 },
    });
    nothingKept();
  });

  test("is streamed in chunks, with the usage where it is asked for", async () => {
    const { w, open } = await setup();
    const asked = open({ messages: [user("Hi")], stream: true, stream_options: { include_usage: true } });
    (await w.server.next()).delta({ reasoning: "Hm" }).say("Hel", "lo").finish("length");
    const response = await asked;
    expect(response.headers.get("content-type")).toStartWith("text/event-stream");
    const chunks = await chunksOf(response);
    expect(chunks.map(({ choices }) => choices[0]?.delta)).toEqual([
      { role: "assistant", content: "" },
      { reasoning_content: "Hm" },
      { content: "Hel" },
      { content: "lo" },
      {},
      undefined,
    ]);
    expect(chunks.map(({ choices }) => choices[0]?.finish_reason ?? null)).toEqual([
      null,
      null,
      null,
      null,
      "length",
      null,
    ]);
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: 10 } });
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
    const plain = open({ messages: [user("Hi")], stream: true });
    (await w.server.next()).say("Hello").finish();
    expect((await chunksOf(await plain)).every((chunk) => !("usage" in chunk))).toBe(true);
  });

  test("tells the steps of an agent with tools as one answer, and its own calls to nobody", async () => {
    const { w, open, nothingKept } = await setup();
    const workflow = await w.workflows.create(
      { key_id: "key", workspace_id: "w", project_id: "p" },
      { workspace_id: "w" },
      {
        name: "Clock",
        nodes: [
          { name: "n", node_type_name: "set_variables", input_config: { variables: { time: "noon" } } },
        ],
      } as never,
    );
    const agent = await w.anAgent({ tools: [{ workflow_id: workflow.id }] });
    const asked = open({ model: agent, messages: [user("Time?")], stream: true });
    const first = await w.server.next();
    first.say("Let me look.");
    first
      .delta({ tool_calls: [{ index: 0, id: "c1", function: { name: "clock", arguments: "{}" } }] })
      .finish("tool_calls");
    const second = await w.server.next();
    expect(second.body.messages.at(-1)).toMatchObject({ role: "tool", content: '{"time":"noon"}' });
    second.say("Noon.").finish();
    const chunks = await chunksOf(await asked);
    expect(chunks.map(({ choices }) => choices[0].delta.content ?? "").join("")).toBe(
      "Let me look.\n\nNoon.",
    );
    expect(chunks.at(-1).choices[0].finish_reason).toBe("stop");
    expect(JSON.stringify(chunks)).not.toContain("tool_calls");
    expect(w.rows("executions")).toHaveLength(1);
    nothingKept();
  });

  test("has nobody to ask for an approval, and tells the model", async () => {
    const { w, post } = await setup();
    const workflow = await w.workflows.create(
      { key_id: "key", workspace_id: "w", project_id: "p" },
      { workspace_id: "w" },
      {
        name: "Pay",
        nodes: [{ name: "n", node_type_name: "set_variables", input_config: { variables: { paid: true } } }],
      } as never,
    );
    const agent = await w.anAgent({
      tools: [{ workflow_id: workflow.id, run_behavior: "request_confirmation" }],
    });
    const asked = post({ model: agent, messages: [user("Pay")] });
    (await w.server.next())
      .delta({ tool_calls: [{ index: 0, id: "c1", function: { name: "pay", arguments: "{}" } }] })
      .finish("tool_calls");
    const second = await w.server.next();
    expect(second.body.messages.at(-1).content).toContain("NEEDS_APPROVAL");
    second.say("I cannot").finish();
    expect((await asked).body.choices[0].message.content).toBe("I cannot");
    expect(w.rows("executions")).toEqual([]);
  });

  test("hands calls of the client's own tools over, and goes on with what they gave", async () => {
    const { w, open, post } = await setup();
    const tools = [
      { type: "function", function: { name: "weather", parameters: { type: "object", properties: {} } } },
    ];
    const asked = open({ messages: [user("Rain?")], tools, tool_choice: "required", stream: true });
    const first = await w.server.next();
    expect(first.body).toMatchObject({ tool_choice: "required", tools: [{ function: { name: "weather" } }] });
    const call = { id: "c1", type: "function", function: { name: "weather", arguments: '{"city":"Bonn"}' } };
    const extra_content = { google: { thought_signature: "s" } };
    first.delta({ tool_calls: [{ index: 0, ...call, extra_content }] }).finish("tool_calls");
    const chunks = await chunksOf(await asked);
    const told = { ...call, extra_content: { openai: extra_content } };
    expect(chunks[1].choices[0].delta).toEqual({ tool_calls: [{ index: 0, ...told }] });
    expect(chunks.at(-1).choices[0].finish_reason).toBe("tool_calls");
    const messages = [
      user("Rain?"),
      { role: "assistant", content: null, tool_calls: [told] },
      { role: "tool", tool_call_id: "c1", content: "yes" },
    ];
    const next = post({ messages, tools });
    const second = await w.server.next();
    expect(second.body.tool_choice).toBeUndefined();
    expect(second.body.messages.slice(1)).toEqual([
      user("Rain?"),
      { role: "assistant", content: "", tool_calls: [{ ...call, extra_content }] },
      { role: "tool", tool_call_id: "c1", content: "yes" },
    ]);
    second.say("It rains").finish();
    expect((await next).body.choices[0].message.content).toBe("It rains");
  });

  test("has the form that the client asks for", async () => {
    const { w, post } = await setup();
    const schema = { type: "object", required: ["city"], properties: { city: { type: "string" } } };
    const response_format = { type: "json_schema", json_schema: { name: "place", schema, strict: true } };
    const asked = post({ messages: [user("Where?")], response_format });
    const call = await w.server.next();
    expect(call.body.response_format).toMatchObject({
      type: "json_schema",
      json_schema: { name: "place", schema },
    });
    call.say('```json\n{"city":"Bonn"}\n```').finish();
    expect((await asked).body.choices[0].message.content).toBe('{"city":"Bonn"}');
  });

  test("shows pictures to the model", async () => {
    const { w, post } = await setup();
    const png =
      "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    const url = `data:image/png;base64,${png}`;
    const asked = post({
      messages: [
        user([
          { type: "text", text: "What?" },
          { type: "image_url", image_url: { url } },
        ]),
      ],
    });
    const call = await w.server.next();
    expect(call.body.messages[1].content).toEqual([
      { type: "text", text: "What?" },
      { type: "image_url", image_url: { url } },
    ]);
    call.say("A dot").finish();
    expect((await asked).status).toBe(200);
    expect(w.rows("attachments")).toEqual([]);
  });

  test("ends with its reader", async () => {
    const { w, model } = await setup();
    const gone = new AbortController();
    const body = JSON.stringify({ model, messages: [user("Hi")], stream: true });
    const asked = w.send(
      new Request("http://localhost/chat/completions", {
        method: "POST",
        headers: {
          host: "localhost",
          authorization: "Bearer mine",
          "content-type": "application/json",
          "content-length": String(body.length),
        },
        body,
        signal: gone.signal,
      }),
    );
    const call = await w.server.next();
    call.say("Hel");
    await asked;
    const left = new Promise((resolve) => call.gone.addEventListener("abort", resolve));
    gone.abort();
    await left;
  });
});

describe("a chat completion in a conversation that the client names", () => {
  test.each([
    ["metadata", { metadata: { conversation_id: "c1" } }, {}],
    ["the body", { chat_id: "c1" }, {}],
    ["a header", {}, { "x-openwebui-chat-id": "c1" }],
  ])("by %s is kept, and what is on record is the context", async (_, more, headers) => {
    const { w, model, post } = await setup();
    w.subscribe("agent.message.sent");
    const first = post({ messages: [user("Hi")], user: "ann", ...more }, headers);
    (await w.server.next()).say("Hello").finish();
    expect((await first).headers.get("x-conversation-id")).toBeTruthy();
    const messages = [
      user("Hi"),
      { role: "assistant", content: "Hello" },
      { role: "system", content: "Rhyme." },
      user("And?"),
    ];
    const second = post({ messages, ...more }, headers);
    const call = await w.server.next();
    expect(call.body.messages).toEqual([
      { role: "system", content: "Be brief.\n\nRhyme." },
      user("Hi"),
      { role: "assistant", content: "Hello" },
      user("And?"),
    ]);
    call.say("Well").finish();
    await second;
    const kept = (await w.call("GET", `/agents/${model}/conversations/c1`)).body;
    expect(kept).toMatchObject({ user_id: "ann", message_count: 4 });
    expect(w.eventRows()).toHaveLength(2);
  });

  test("is answered once more, or said otherwise, where the client's chat says so", async () => {
    const { w, model, post } = await setup();
    const more = { metadata: { conversation_id: "c1" } };
    const told = [user("Hi"), { role: "assistant", content: "Hello" }, user("And?")];
    const talk = async (messages: object[], answer: string) => {
      const asked = post({ messages, ...more });
      const call = await w.server.next();
      call.say(answer).finish();
      await asked;
      return call.body.messages.slice(1).map(({ content }: { content: string }) => content);
    };
    await talk([user("Hi")], "Hello");
    await talk(told, "One");
    expect(await talk(told, "Two")).toEqual(["Hi", "Hello", "And?"]);
    expect(await talk([...told.slice(0, 2), user("Or?")], "Three")).toEqual(["Hi", "Hello", "Or?"]);
    const trimmed = [{ role: "assistant", content: "Three" }, user("More")];
    expect(await talk(trimmed, "Four")).toEqual(["Hi", "Hello", "Or?", "Three", "More"]);
    const { body } = await w.call("GET", `/agents/${model}/conversations/c1`);
    expect(body.messages.map(({ content }: { content: string }) => content)).toEqual([
      "Hi",
      "Hello",
      "Or?",
      "Three",
      "More",
      "Four",
    ]);
  });

  test("is said once under an Idempotency-Key", async () => {
    const { w, model, post } = await setup();
    const body = { messages: [user("Hi")], metadata: { conversation_id: "c1" } };
    const first = post(body, { "idempotency-key": "k1" });
    (await w.server.next()).say("Hello").finish();
    await first;
    const again = await post(body, { "idempotency-key": "k1" });
    expect(again.headers.get("idempotent-replay")).toBe("true");
    expect(again.body.choices[0].message.content).toBe("Hello");
    expect((await w.call("GET", `/agents/${model}/conversations/c1`)).body.message_count).toBe(2);
    const other = await post({ ...body, messages: [user("Ho")] }, { "idempotency-key": "k1" });
    expect(other.status).toBe(409);
  });

  test("goes on after an approval as the client asked for it, and keeps none of that afterwards", async () => {
    const { w, model, post } = await setup();
    const workflow = await w.workflows.create(CALLER, { workspace_id: "w" }, {
      name: "Pay",
      nodes: [{ name: "n", node_type_name: "set_variables", input_config: { variables: { paid: true } } }],
    } as never);
    const tools = [{ workflow_id: workflow.id, run_behavior: "request_confirmation" as const }];
    await w.agents.update(CALLER, model, { tools });
    const messages = [{ role: "system", content: "Rhyme." }, user("Pay")];
    const asked = post({ messages, temperature: 0.5, metadata: { conversation_id: "c1" } });
    const pay = (id: string) => ({
      tool_calls: [{ index: 0, id, function: { name: "pay", arguments: "{}" } }],
    });
    (await w.server.next()).delta(pay("a")).finish("tool_calls");
    await asked;
    const at = `/agents/${model}/conversations/c1`;
    const approve = async () => {
      const [{ approval_id }] = (await w.call("GET", at)).body.pending_approvals;
      await w.call("POST", `${at}/approvals/${approval_id}`, { approved: true });
      return w.server.next();
    };
    for (const id of ["b", ""]) {
      const call = await approve();
      const system = { role: "system", content: "Be brief.\n\nRhyme." };
      expect(call.body).toMatchObject({
        temperature: 0.5,
        messages: [system, user("Pay"), {}, {}, ...(id ? [] : [{}, {}])],
      });
      if (id) {
        call.delta(pay(id)).finish("tool_calls");
        await settled(40);
      } else call.say("Done").finish();
    }
    await settled(40);
    expect((await w.call("GET", at)).body.messages.at(-1)).toMatchObject({
      content: "Done",
      status: "complete",
    });
    expect(w.rows("turns")).toMatchObject([{ settings: null }]);
  });

  test("is stopped by who goes away; what came is kept", async () => {
    const { w, model } = await setup();
    const gone = new AbortController();
    const body = JSON.stringify({
      model,
      messages: [user("Hi")],
      stream: true,
      metadata: { conversation_id: "c1" },
    });
    const asked = w.send(
      new Request("http://localhost/chat/completions", {
        method: "POST",
        headers: {
          host: "localhost",
          authorization: "Bearer mine",
          "content-type": "application/json",
          "content-length": String(body.length),
        },
        body,
        signal: gone.signal,
      }),
    );
    (await w.server.next()).say("Hel");
    await asked;
    gone.abort();
    await settled(30);
    const { body: kept } = await w.call("GET", `/agents/${model}/conversations/c1`);
    expect(kept.messages.at(-1)).toMatchObject({ role: "assistant", content: "Hel", status: "stopped" });
  });
});

describe("housekeeping of a chat program", () => {
  const task = (what: string) =>
    `### Task:\n${what}\n### Output:\nJSON format: { "title": "..." }\n### Chat History:\n<chat_history>\nUSER: How do I sail?\nASSISTANT: Hoist.\n</chat_history>`;
  const title = task("Generate a concise, 3-5 word title with an emoji summarizing the chat history.");

  test.each([
    ["Open WebUI's titles", title, ""],
    [
      "Open WebUI's tags",
      task("Generate 1-3 broad tags categorizing the main themes of the chat history."),
      "",
    ],
    [
      "LibreChat's titles",
      "User: Hi\nAI: Hello",
      "Provide a concise, 5-word-or-less title for the conversation, using its same language.",
    ],
  ])("(%s) is answered by the model alone, in no conversation", async (_, prompt, system) => {
    const { w, post, nothingKept } = await setup();
    const workflow = await w.workflows.create(
      { key_id: "key", workspace_id: "w", project_id: "p" },
      { workspace_id: "w" },
      { name: "Clock", nodes: [] } as never,
    );
    const agent = await w.anAgent({ system_prompt: "Be brief.", tools: [{ workflow_id: workflow.id }] });
    const messages = [...(system ? [{ role: "system", content: system }] : []), user(prompt)];
    const asked = post({ model: agent, messages }, { "x-openwebui-chat-id": "c1" });
    const call = await w.server.next();
    expect(call.body.tools).toBeUndefined();
    expect(call.body.messages).toEqual(messages);
    call.say("Sailing").finish();
    expect((await asked).body.choices[0].message.content).toBe("Sailing");
    nothingKept();
  });

  test.each([
    [title, '{"title":"How do I sail?"}'],
    [task('Suggest 3-5 relevant follow-up questions. {"follow_ups": []}'), '{"follow_ups":[]}'],
  ])("is answered by rule where there is no model that could", async (prompt, expected) => {
    const w = world();
    const model = await w.anAgent();
    const { body } = await w.call("POST", COMPLETIONS, { model, messages: [user(prompt)] });
    expect(body.choices[0].message.content).toBe(expected);
  });

  test("is not what only begins like it: a question with documents goes to the agent", async () => {
    const { w, post } = await setup();
    const prompt =
      "### Task:\nRespond to the user query using the provided context.\n<context>...</context>\n<user_query>\nWhy?\n</user_query>";
    const asked = post({ messages: [user(prompt)], metadata: { conversation_id: "c1" } });
    const call = await w.server.next();
    expect(call.body.messages[0]).toEqual({ role: "system", content: "Be brief." });
    call.say("Because").finish();
    await asked;
    expect(w.rows("conversations")).toHaveLength(1);
  });
});

describe("what goes wrong has OpenAI's body", () => {
  test.each([
    ["no key", {}, { authorization: "" }, 401, { type: "invalid_request_error", code: "invalid_api_key" }],
    ["no such agent", { model: NOWHERE }, {}, 404, { code: "model_not_found", param: "model" }],
    ["no model", { model: 7 }, {}, 400, { type: "invalid_request_error", param: "model" }],
    ["no messages", { messages: [] }, {}, 400, { param: "messages" }],
    ["messages of another type", { messages: "Hi" }, {}, 400, { param: "messages" }],
    ["instructions alone", { messages: [{ role: "system", content: "Hi" }] }, {}, 400, { param: "messages" }],
    ["no role", { messages: [{ content: "Hi" }] }, {}, 400, { param: "messages.0.role" }],
    ["an empty message", { messages: [user("")] }, {}, 400, { param: "messages.0.content" }],
    [
      "a sound",
      { messages: [user([{ type: "input_audio" }])] },
      {},
      400,
      { param: "messages.0.content.0.type" },
    ],
    ["two answers", { n: 2 }, {}, 400, { param: "n" }],
    ["tools of its own", { tools: [{ type: "web_search" }] }, {}, 400, { param: "tools.0.type" }],
    [
      "a tool without a name",
      { tools: [{ type: "function", function: {} }] },
      {},
      400,
      { param: "tools.0.name" },
    ],
    ["a hot model", { temperature: 9 }, {}, 400, { param: "temperature" }],
    ["no true or false", { stream: "yes" }, {}, 400, { param: "stream" }],
    [
      "a form without a schema",
      { response_format: { type: "json_schema" } },
      {},
      400,
      { param: "response_format.schema" },
    ],
    ["a long id", { chat_id: "x".repeat(300) }, {}, 400, { param: "metadata.conversation_id" }],
  ])("%s", async (_, body, headers, status, error) => {
    const { post, nothingKept } = await setup();
    const answer = await post({ messages: [user("Hi")], ...body }, headers);
    expect(answer.status).toBe(status);
    expect(answer.body).toEqual({
      error: {
        message: expect.any(String),
        type: "invalid_request_error",
        param: null,
        code: null,
        ...error,
      },
    });
    nothingKept();
  });

  test("an agent of another project", async () => {
    const { w, post } = await setup();
    const model = await w.anAgent({}, { key_id: "k", workspace_id: "w", project_id: "q" });
    const { status, body } = await post({ model, messages: [user("Hi")] });
    expect([status, body.error.code]).toEqual([403, "model_not_found"]);
  });

  test.each([true, false])(
    "a model that fails before its first word has a status (stream: %p)",
    async (stream) => {
      const { w, post } = await setup();
      const asked = post({ messages: [user("Hi")], stream });
      (await w.server.next()).refuse(400, { message: "No such thing" });
      const { status, body } = await asked;
      expect([status, body.error.type]).toEqual([400, "invalid_request_error"]);
      expect(body.error.message).toContain("No such thing");
    },
  );

  test("a model that fails under way says so in the stream", async () => {
    const { w, open } = await setup();
    const asked = open({ messages: [user("Hi")], stream: true });
    (await w.server.next())
      .say("Hel")
      .event({ error: { message: "Overheated" } })
      .end();
    const chunks = await chunksOf(await asked);
    expect(chunks.at(-1).error).toMatchObject({ type: "server_error", code: "model_failed" });
    expect(chunks.at(-1).error.message).toContain("Overheated");
  });
});

test("the agents' own streams are as they were", async () => {
  const { w, model } = await setup();
  const asked = w.ask("POST", `/agents/${model}/stream`, chat("Hi"));
  (await w.server.next()).say("Hello").finish();
  expect(await (await asked).text()).toContain('0:"Hello"');
});
