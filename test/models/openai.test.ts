import { describe, expect, test } from "bun:test";
import { createEgress } from "../../src/egress/egress.ts";
import { createModels } from "../../src/models/index.ts";
import { settled, TestClock } from "../helpers/clock.ts";
import { type Call, chatServer } from "./chat-server.ts";
import { asked, collect, moved, setup } from "./setup.ts";

const finish = (reason = "stop", prompt_tokens = 7, completion_tokens = 3) => ({
  type: "finish",
  reason,
  usage: { prompt_tokens, completion_tokens },
});
const text = (words: string) => ({ type: "text", text: words });

/** The parts that come of one call which `script` answers. */
async function partsOf(script: (call: Call) => void, request = asked()) {
  const { server, models } = setup();
  const collected = collect(models, request);
  script(await server.next());
  return collected;
}

describe("words that come at once", () => {
  const chunk = (delta: object) => `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`;
  const WORDS = ["Hm", "m"].map((reasoning) => chunk({ reasoning })).join("");
  const MORE = ["Hel", "lo ", "\n", "you"].map((content) => chunk({ content })).join("");

  const partsOfAll = async (isBusy: boolean, script: (call: Call) => void) => {
    const { server, models, egress, clock } = setup();
    await clock.advance(100);
    if (isBusy) egress.beat.passed(10_000);
    const collected = collect(models);
    script(await server.next());
    return collected;
  };

  test("are told one by one, and as one while much passes", async () => {
    const script = (call: Call) => call.raw(WORDS + MORE).finish();
    const thought = (text: string) => ({ type: "reasoning", text });
    const { parts } = await partsOfAll(false, script);
    const each = [thought("Hm"), thought("m"), text("Hel"), text("lo "), text("\n"), text("you")];
    expect(parts as unknown[]).toEqual([...each, finish()]);
    const busy = await partsOfAll(true, script);
    expect(busy.parts as unknown[]).toEqual([thought("Hmm"), text("Hello \nyou"), finish()]);
  });

  test("are told before what goes wrong behind them", async () => {
    for (const isBusy of [false, true]) {
      const { parts, error } = await partsOfAll(isBusy, (call) => {
        call.raw(`${MORE}data: {"error":{"message":"no more"}}\n\n`).end();
      });
      const said = parts.map((part) => (part.type === "text" ? part.text : ""));
      expect([said.join(""), error?.code]).toEqual(["Hello \nyou", "MODEL_FAILED"]);
    }
  });
});

describe("a request", () => {
  test("carries the key, the model without its provider, and what was set", async () => {
    const { server, models } = setup();
    const collected = collect(models, asked({ temperature: 0.2, max_tokens: 50 }));
    const call = await server.next();
    call.say("Hello").finish();
    await collected;
    expect(call.headers["authorization"]).toBe("Bearer sk-secret");
    expect(call.body).toEqual({
      model: "m",
      messages: [{ role: "user", content: "Hi" }],
      temperature: 0.2,
      max_tokens: 50,
      stream: true,
      stream_options: { include_usage: true },
    });
  });

  test("to a server without a key carries none", async () => {
    const { server, models } = setup({});
    const collected = collect(models);
    const call = await server.next();
    call.say("Hello").finish();
    await collected;
    expect(call.headers["authorization"]).toBeUndefined();
  });

  test("carries pictures as data addresses beside the words", async () => {
    const { server, models } = setup();
    const picture = { type: "image" as const, media_type: "image/png", data: "iVBORw==" };
    const content = [{ type: "text" as const, text: "What is this?" }, picture];
    const collected = collect(models, asked({ messages: [{ role: "user", content }] }));
    const call = await server.next();
    call.say("A dot").finish();
    await collected;
    expect(call.body.messages).toEqual([
      {
        role: "user",
        content: [
          { type: "text", text: "What is this?" },
          { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw==" } },
        ],
      },
    ]);
  });

  test("carries tools, calls and their results in the server's own shape", async () => {
    const { server, models } = setup();
    const parameters = { type: "object" };
    const collected = collect(
      models,
      asked({
        tools: [{ name: "sum", description: "Adds", parameters }],
        messages: [
          { role: "assistant", content: "", tool_calls: [{ id: "c1", name: "sum", args: { a: 1 } }] },
          { role: "tool", content: "2", tool_call_id: "c1" },
        ],
      }),
    );
    const call = await server.next();
    call.say("2").finish();
    await collected;
    expect(call.body.tools).toEqual([
      { type: "function", function: { name: "sum", description: "Adds", parameters } },
    ]);
    expect(call.body.messages).toEqual([
      {
        role: "assistant",
        content: "",
        tool_calls: [{ id: "c1", type: "function", function: { name: "sum", arguments: '{"a":1}' } }],
      },
      { role: "tool", content: "2", tool_call_id: "c1" },
    ]);
  });
});

describe("an answer", () => {
  test("comes in the pieces it was sent in, the usage at its end", async () => {
    const { parts, error } = await partsOf((call) => call.say("Hel", "lo").finish());
    expect(error).toBeUndefined();
    expect(parts).toEqual([text("Hel"), text("lo"), finish()] as never);
  });

  test("may be reasoned first, under either name", async () => {
    const { parts } = await partsOf((call) =>
      call.delta({ reasoning_content: "hm" }).delta({ reasoning: "so" }).say("Yes").finish(),
    );
    expect(parts).toEqual([
      { type: "reasoning", text: "hm" },
      { type: "reasoning", text: "so" },
      text("Yes"),
      finish(),
    ] as never);
  });

  test("is whole without [DONE], without a reason, and without the empty line after its last event", async () => {
    const last = JSON.stringify({ choices: [{ delta: {}, finish_reason: "length" }] });
    const withoutDone = await partsOf((call) => call.say("a").raw(`data: ${last}`).end());
    expect(withoutDone.parts).toEqual([text("a"), finish("length", 0, 0)] as never);
    const withoutReason = await partsOf((call) => call.say("a").raw("data: [DONE]\n\n").end());
    expect(withoutReason.parts).toEqual([text("a"), finish("stop", 0, 0)] as never);
  });

  test("survives any cut of its bytes, comments and fields that are null", async () => {
    const { parts } = await partsOf((call) => {
      call.raw(": wait\n\n");
      const bytes = `data: ${JSON.stringify({
        choices: [{ delta: { content: "Grüße 🌍", reasoning: null, tool_calls: null } }],
        usage: null,
      })}\r\n\r\n`;
      for (const character of bytes) call.raw(character);
      call.finish();
    });
    expect(parts).toEqual([text("Grüße 🌍"), finish()] as never);
  });

  test.each([
    ["content_filter", "content-filter"],
    ["length", "length"],
    ["eos", "other"],
    ["tool_calls", "stop"],
  ])("that ends by %s ends by %s", async (said, meant) => {
    const { parts } = await partsOf((call) => call.say("a").finish(said));
    expect(parts.at(-1)).toEqual(finish(meant) as never);
  });

  test("puts tool calls together, whole, also where ids or indexes are missing", async () => {
    const { parts } = await partsOf((call) => {
      const calls = (...tool_calls: object[]) => call.delta({ tool_calls });
      calls({ index: 0, id: "a", function: { name: "one", arguments: '{"x":' } });
      calls({ index: 1, function: { name: "two", arguments: "" } });
      calls({ index: 0, function: { arguments: "1}" } });
      calls({ id: "c", function: { name: "three", arguments: '{"y"' } });
      calls({ function: { arguments: ":2}" } });
      call.finish("stop");
    });
    expect(parts).toEqual([
      { type: "tool_call", id: "a", name: "one", args: { x: 1 } },
      { type: "tool_call", id: "call_2", name: "two", args: {} },
      { type: "tool_call", id: "c", name: "three", args: { y: 2 } },
      finish("tool-calls"),
    ] as never);
  });

  test("whose fields have the wrong types is read as far as it goes", async () => {
    const { parts, error } = await partsOf((call) =>
      call
        .delta({ content: [{ a: 1 }], tool_calls: 5, reasoning: {} })
        .event({ choices: "none", usage: { prompt_tokens: "many" } })
        .say("ok")
        .finish("stop", { prompt_tokens: -0.5, completion_tokens: null }),
    );
    expect(error).toBeUndefined();
    expect(parts).toEqual([text("ok"), finish("stop", 0, 0)] as never);
  });
});

describe("calls of tools", () => {
  const partsOfDeltas = (...deltas: object[]) =>
    partsOf((call) => {
      for (const delta of deltas) call.delta({ tool_calls: [delta] });
      call.finish("tool_calls");
    });

  test.each<[string, object[], [string, unknown][]]>([
    [
      "whole, without index and id",
      [{ function: { name: "one", arguments: "{}" } }, { function: { name: "two", arguments: '{"a":1}' } }],
      [
        ["one", {}],
        ["two", { a: 1 }],
      ],
    ],
    [
      "all under one index",
      [
        { index: 0, id: "a", function: { name: "one", arguments: "{}" } },
        { index: 0, id: "b", function: { name: "two", arguments: "{}" } },
      ],
      [
        ["one", {}],
        ["two", {}],
      ],
    ],
    [
      "with an id of its own in each delta",
      [
        { index: 0, id: "a", function: { name: "one", arguments: "" } },
        { index: 0, id: "b", function: { arguments: '{"x"' } },
        { index: 0, id: "c", function: { arguments: ":1}" } },
      ],
      [["one", { x: 1 }]],
    ],
    [
      "with the name again in each delta",
      [
        { index: 0, id: "a", function: { name: "one", arguments: "{" } },
        { index: 0, function: { name: "one", arguments: "}" } },
      ],
      [["one", {}]],
    ],
    [
      "with arguments as an object",
      [{ index: 0, id: "a", function: { name: "one", arguments: { x: 1 } } }],
      [["one", { x: 1 }]],
    ],
    [
      "with arguments that are null",
      [{ index: 0, id: "a", function: { name: "one", arguments: null } }],
      [["one", {}]],
    ],
    [
      "with arguments that were cut",
      [{ index: 0, id: "a", function: { name: "one", arguments: '{"x' } }],
      [["one", '{"x']],
    ],
  ])("%s are told apart and put together", async (_, deltas, expected) => {
    const { parts } = await partsOfDeltas(...deltas);
    const found = parts.flatMap((part) => (part.type === "tool_call" ? [[part.name, part.args]] : []));
    expect(found).toEqual(expected as never);
  });

  test("keep what the vendor wants to see again with them", async () => {
    const extra_content = { google: { thought_signature: "s" } };
    const { parts } = await partsOfDeltas({
      index: 0,
      id: "a",
      function: { name: "one", arguments: "{}" },
      extra_content,
    });
    const provider_data = { openai: extra_content };
    expect(parts[0]).toMatchObject({ provider_data });
    const { server, models } = setup();
    const tool_calls = [{ id: "a", name: "one", args: {}, provider_data }];
    const collected = collect(models, asked({ messages: [{ role: "assistant", content: "", tool_calls }] }));
    const call = await server.next();
    call.finish();
    await collected;
    expect(call.body.messages[0].tool_calls[0]).toMatchObject({ id: "a", extra_content });
  });
});

describe("what vendors differ in", () => {
  const sent = async (model: string, more: Parameters<typeof asked>[0] = {}) => {
    const { egress, clock, server } = setup();
    const bodies: Record<string, unknown>[] = [];
    const config = { mistral_api_key: "k", deepseek_api_key: "k", openai_api_key: "k", gemini_api_key: "k" };
    // Their own addresses stay: what is sent is looked at on the way out.
    const models = createModels({
      config,
      clock,
      egress: {
        ...egress,
        async stream(request) {
          bodies.push({ url: request.url, ...JSON.parse(String(request.body)) });
          return egress.stream({ ...request, url: `${server.url}/chat/completions` });
        },
      },
    });
    const collected = collect(models, asked({ model, max_tokens: 9, ...more }));
    (await server.next()).say("ok").finish();
    await collected;
    return bodies[0]!;
  };

  test("OpenAI's own servers take the new name of the limit, all others the old one", async () => {
    expect(await sent("openai/m")).toMatchObject({
      url: "https://api.openai.com/v1/chat/completions",
      max_completion_tokens: 9,
    });
    expect(await sent("deepseek/m")).toMatchObject({ max_tokens: 9 });
  });

  test("Mistral takes no stream options, and ids of nine characters", async () => {
    const body = await sent("mistral/m", {
      messages: [
        { role: "assistant", content: "", tool_calls: [{ id: "call_1", name: "t", args: {} }] },
        { role: "tool", content: "2", tool_call_id: "call_1" },
      ],
    });
    expect(body["stream_options"]).toBeUndefined();
    const [call, result] = body["messages"] as [{ tool_calls: [{ id: string }] }, { tool_call_id: string }];
    expect(call.tool_calls[0].id).toMatch(/^[a-zA-Z0-9]{9}$/);
    expect(result.tool_call_id).toBe(call.tool_calls[0].id);
  });

  test.each([
    ["gemini/gemini-3-pro", ["s", undefined, "skip_thought_signature_validator", undefined]],
    ["gemini/gemini-2.5-flash", ["s", undefined, undefined, undefined]],
    ["gemini/models/gemini-1.5-pro", ["s", undefined, undefined, undefined]],
    ["gemini/gemini-20-pro", ["s", undefined, "skip_thought_signature_validator", undefined]],
    ["gemini/tuned-gemini-1.5", ["s", undefined, "skip_thought_signature_validator", undefined]],
    ["mistral/m", [undefined, undefined, undefined, undefined]],
  ])(
    "Gemini gets its signatures of calls again, a newer one also for those of others, and nobody else (%s)",
    async (model, signed) => {
      const call = (id: string) => ({ id, name: "t", args: {} });
      const result = (tool_call_id: string) => ({ role: "tool" as const, content: "2", tool_call_id });
      const provider_data = { gemini: { google: { thought_signature: "s" } } };
      const body = await sent(model, {
        messages: [
          { role: "user", content: "Hi" },
          { role: "assistant", content: "", tool_calls: [{ ...call("a"), provider_data }, call("b")] },
          result("a"),
          result("b"),
          {
            role: "assistant",
            content: "",
            tool_calls: [call("c"), { ...call("d"), provider_data: { openai: {} } }],
          },
          result("c"),
          result("d"),
        ],
      });
      const messages = body["messages"] as {
        tool_calls?: { extra_content?: typeof provider_data.gemini }[];
      }[];
      const calls = messages.flatMap(({ tool_calls }) => tool_calls ?? []);
      expect(calls.map(({ extra_content }) => extra_content?.google.thought_signature)).toEqual(
        signed as never,
      );
    },
  );

  test.each([
    ["deepseek/deepseek-reasoner", undefined, ["", ""]],
    ["deepseek/no-reasoner-at-all", undefined, [undefined, undefined]],
    ["deepseek/deepseek-reasoner", "hm", ["hm", ""]],
    ["deepseek/deepseek-chat", "hm", ["hm", ""]],
    ["deepseek/deepseek-chat", undefined, [undefined, undefined]],
    ["openai/m", "hm", [undefined, undefined]],
  ])(
    "DeepSeek gets the thoughts of a model that thinks again, and nobody else (%s, %s)",
    async (model, reasoning, told) => {
      const body = await sent(model, {
        messages: [
          { role: "user", content: "Hi" },
          {
            role: "assistant",
            content: "",
            tool_calls: [{ id: "a", name: "t", args: {} }],
            ...(reasoning ? { reasoning } : {}),
          },
          { role: "tool", content: "2", tool_call_id: "a" },
          { role: "assistant", content: "Two" },
          { role: "user", content: "And?" },
        ],
      });
      const messages = body["messages"] as { role: string; reasoning_content?: string }[];
      const said = messages.filter(({ role }) => role === "assistant");
      expect(said.map(({ reasoning_content }) => reasoning_content)).toEqual(told as never);
      expect(messages[0]).toEqual({ role: "user", content: "Hi" } as never);
    },
  );

  test("a schema goes to those that take one, to DeepSeek the wish for an object", async () => {
    const response_format = { type: "json_schema" as const, schema: { type: "object" } };
    expect((await sent("mistral/m", { response_format }))["response_format"]).toEqual({
      type: "json_schema",
      json_schema: { name: "answer", schema: { type: "object" } },
    });
    expect((await sent("deepseek/m", { response_format }))["response_format"]).toEqual({
      type: "json_object",
    });
  });

  test("content as a list is read as what is said and what is thought", async () => {
    const { parts } = await partsOf((call) =>
      call
        .delta({ content: [{ type: "thinking", thinking: [{ type: "text", text: "hm" }] }] })
        .delta({ content: [{ type: "text", text: "Yes" }] })
        .finish(),
    );
    expect(parts.slice(0, 2)).toEqual([{ type: "reasoning", text: "hm" }, text("Yes")] as never);
  });
});

describe("a server that fails", () => {
  test("by refusing the key is not asked again, and its words, which may hold the key, are not repeated", async () => {
    const { error } = await partsOf((call) => call.refuse(401, { message: "Incorrect key sk-secret" }));
    expect(error).toMatchObject({ code: "MODEL_UNAUTHORIZED", retryable: false });
    expect(error?.message).not.toContain("sk-secret");
  });

  test.each<[string, object]>([
    ["in an object", { message: "out of budget" }],
    ["in a list", [{ error: { message: "out of budget" } }] as never],
    ["as a text", "out of budget" as never],
  ])("says why, also %s", async (_, words) => {
    const { error } = await partsOf((call) => call.refuse(400, words));
    expect(error?.message).toContain("out of budget");
  });

  test("by refusing the request says why", async () => {
    const { error } = await partsOf((call) => call.refuse(404, { message: "model m not found" }));
    expect(error).toMatchObject({ code: "MODEL_REFUSED", retryable: false });
    expect(error?.message).toContain("model m not found");
  });

  test.each([
    [429, "MODEL_RATE_LIMITED"],
    [500, "MODEL_FAILED"],
    [503, "MODEL_FAILED"],
  ])("with %d before the first word is asked once more", async (status, code) => {
    const { server, models, clock } = setup();
    const collected = collect(models);
    (await server.next()).refuse(status);
    const second = server.next();
    await moved(clock, second);
    (await second).refuse(status);
    const { parts, error } = await collected;
    expect(parts).toEqual([]);
    expect(error).toMatchObject({ code, retryable: true });
  });

  test("once answers at the second try", async () => {
    const { server, models, clock } = setup();
    const collected = collect(models);
    (await server.next()).refuse(500);
    const second = server.next();
    await moved(clock, second);
    (await second).say("Hello").finish();
    expect((await collected).parts).toEqual([text("Hello"), finish()] as never);
  });

  test("under way is not asked again: what was said stands, and how it ended", async () => {
    const { parts, error } = await partsOf((call) => {
      call.say("Half");
      void settled().then(() => call.cut());
    });
    expect(parts).toEqual([text("Half")] as never);
    expect(error).toMatchObject({ name: "ModelError", retryable: true });
  });

  test("by an error inside a stream of status 200 is a failure", async () => {
    const { parts, error } = await partsOf((call) =>
      call
        .say("Half")
        .event({ error: { message: "overloaded" } })
        .end(),
    );
    expect(parts).toEqual([text("Half")] as never);
    expect(error).toMatchObject({ code: "MODEL_FAILED" });
  });

  test("by ending without a reason has broken off", async () => {
    const { error } = await partsOf((call) => call.say("Half").end());
    expect(error).toMatchObject({ code: "MODEL_INTERRUPTED", retryable: true });
  });

  test.each(["data: {not json\n\n", "data: null\n\n", "data: 5\n\n", "<html>no stream at all</html>"])(
    "by sending %j is not understood",
    async (bytes) => {
      const { error } = await partsOf((call) => call.raw(bytes).end());
      expect(error).toMatchObject({ code: "MODEL_GARBAGE", retryable: false });
    },
  );

  test("by a line without an end is given up before it holds anybody up", async () => {
    const piece = "x".repeat(64 * 1024);
    const { error } = await partsOf((call) => {
      call.raw("data: ");
      for (let n = 0; n < 600; n++) call.raw(piece);
      call.end();
    });
    expect(error).toMatchObject({ code: "MODEL_GARBAGE" });
  });

  test("by not being there is named so", async () => {
    const { server, models, clock } = setup();
    server.close();
    const collected = collect(models);
    await moved(clock, collected);
    expect((await collected).error).toMatchObject({ code: "MODEL_UNREACHABLE", retryable: true });
  });

  test("by silence before the first word is given up after two minutes, twice", async () => {
    const { server, models, clock } = setup();
    const collected = collect(models);
    await server.next();
    await clock.advance(119_000);
    const second = server.next();
    await moved(clock, second);
    await second;
    await moved(clock, collected, 60_000);
    const { error } = await collected;
    expect(error).toMatchObject({ code: "MODEL_TIMEOUT", retryable: true });
    expect(error?.message).toContain("begin");
  });

  test("by silence after a word is given up after one minute; every event starts it anew", async () => {
    const { server, models, clock } = setup();
    const parts = models.stream(asked())[Symbol.asyncIterator]();
    const first = parts.next();
    const call = await server.next();
    call.say("one");
    await first;
    const second = parts.next();
    await clock.advance(59_000);
    call.say("two");
    expect((await second).value).toEqual(text("two") as never);
    const third = parts.next().catch((error) => error);
    await clock.advance(59_000);
    await clock.advance(1_000);
    expect(await third).toMatchObject({ code: "MODEL_TIMEOUT" });
  });
});

test("a caller that gives up ends the call at the server", async () => {
  const { server, models } = setup();
  const controller = new AbortController();
  const parts = models.stream(asked({ signal: controller.signal }))[Symbol.asyncIterator]();
  const first = parts.next();
  const call = await server.next();
  call.say("one");
  await first;
  const ended = parts.next().catch(() => "ended");
  const gone = new Promise((resolve) => call.gone.addEventListener("abort", resolve));
  controller.abort();
  expect(await ended).toBe("ended");
  await gone;
});

describe("a caller's own key", () => {
  test("does not go to the operator's server, nor to a private one", async () => {
    const { server, models } = setup();
    const access = { api_key: "own-key", base_url: server.url };
    const { error } = await collect(models, asked({ access }));
    expect(error).toMatchObject({ code: "MODEL_UNREACHABLE" });
    const nowhere = await collect(models, asked({ model: "ollama/m", access: { api_key: "own-key" } }));
    expect(nowhere.error).toMatchObject({ code: "MODEL_UNKNOWN" });
  });

  test("goes to the server that it is for, in place of the operator's", async () => {
    const server = chatServer();
    const egress = createEgress({ allow: ["loopback"] });
    const models = createModels({ config: { openai_api_key: "operator" }, egress, clock: new TestClock() });
    const collected = collect(models, asked({ access: { api_key: "own-key", base_url: server.url } }));
    const call = await server.next();
    call.say("Hello").finish();
    await collected;
    expect(call.headers["authorization"]).toBe("Bearer own-key");
    server.close();
    egress.close();
  });
});
