import { describe, expect, test } from "bun:test";
import type { Call } from "./chat-server.ts";
import { asked as askedOf, collect, setup } from "./setup.ts";

const asked = (more: Parameters<typeof askedOf>[0] = {}) => askedOf({ model: "anthropic/m", ...more });

async function exchange(script: (call: Call) => void, request = asked()) {
  const { server, models } = setup({ anthropic_api_key: "sk-ant" });
  const collected = collect(models, request);
  const call = await server.next();
  script(call);
  return { call, ...(await collected) };
}

const event = (call: Call, type: string, more: object = {}) =>
  call.raw(`event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`);
const start = (call: Call) =>
  event(call, "message_start", { message: { usage: { input_tokens: 5, cache_read_input_tokens: 2 } } });
const delta = (call: Call, index: number, delta: object) =>
  event(call, "content_block_delta", { index, delta });
function finish(call: Call, stop_reason = "end_turn") {
  event(call, "message_delta", { delta: { stop_reason }, usage: { output_tokens: 3 } });
  event(call, "message_stop").end();
}
const hello = (call: Call) => {
  start(call);
  delta(call, 0, { type: "text_delta", text: "Hello" });
  finish(call);
};
const usage = { prompt_tokens: 7, completion_tokens: 3 };

describe("a request in Anthropic's protocol", () => {
  test("carries the key, the version, the prompt apart, and a limit", async () => {
    const { call, parts } = await exchange(
      hello,
      asked({
        messages: [
          { role: "system", content: "Be brief." },
          { role: "user", content: "Hi" },
        ],
        temperature: 1.7,
      }),
    );
    expect(call.headers).toMatchObject({ "x-api-key": "sk-ant", "anthropic-version": "2023-06-01" });
    expect(call.body).toEqual({
      model: "m",
      max_tokens: 8192,
      system: "Be brief.",
      messages: [{ role: "user", content: [{ type: "text", text: "Hi" }] }],
      temperature: 1,
      stream: true,
    });
    expect(parts).toEqual([
      { type: "text", text: "Hello" },
      { type: "finish", reason: "stop", usage },
    ]);
  });

  test("carries pictures, tools, calls, and results of several calls as one message of the user", async () => {
    const parameters = { type: "object" };
    const { call } = await exchange(
      hello,
      asked({
        tools: [{ name: "sum", description: "Adds", parameters }],
        tool_choice: "none",
        messages: [
          { role: "user", content: [{ type: "image", media_type: "image/png", data: "aa" }] },
          {
            role: "assistant",
            content: "",
            tool_calls: [
              { id: "a", name: "sum", args: { x: 1 } },
              { id: "b", name: "sum", args: "cut" },
            ],
          },
          { role: "tool", content: "1", tool_call_id: "a" },
          { role: "tool", content: "", tool_call_id: "b" },
          { role: "user", content: "So?" },
        ],
      }),
    );
    expect(call.body).toMatchObject({
      tools: [{ name: "sum", description: "Adds", input_schema: parameters }],
      tool_choice: { type: "none" },
    });
    expect(call.body.messages).toEqual([
      {
        role: "user",
        content: [{ type: "image", source: { type: "base64", media_type: "image/png", data: "aa" } }],
      },
      {
        role: "assistant",
        content: [
          { type: "tool_use", id: "a", name: "sum", input: { x: 1 } },
          { type: "tool_use", id: "b", name: "sum", input: {} },
        ],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "a", content: "1" },
          { type: "tool_result", tool_use_id: "b", content: "(nothing)" },
          { type: "text", text: "So?" },
        ],
      },
    ]);
  });

  test("asks for thoughts where a question begins, not between calls, and then chooses no temperature", async () => {
    const more = { reasoning_effort: "low", temperature: 0.5, max_tokens: 100 } as const;
    const first = await exchange(hello, asked(more));
    expect(first.call.body).toMatchObject({
      thinking: { type: "enabled", budget_tokens: 2048 },
      max_tokens: 2148,
    });
    expect(first.call.body.temperature).toBeUndefined();
    const tool_calls = [{ id: "a", name: "t", args: {} }];
    const messages = [
      { role: "user" as const, content: "Hi" },
      { role: "assistant" as const, content: "", tool_calls },
      { role: "tool" as const, content: "1", tool_call_id: "a" },
    ];
    expect((await exchange(hello, asked({ ...more, messages }))).call.body.thinking).toBeUndefined();
  });
});

describe("an answer in Anthropic's protocol", () => {
  test("is thought, spoken and called, the calls whole at the end", async () => {
    const { parts } = await exchange((call) => {
      start(call);
      event(call, "ping");
      delta(call, 0, { type: "thinking_delta", thinking: "hm" });
      delta(call, 0, { type: "signature_delta", signature: "x" });
      delta(call, 1, { type: "text_delta", text: "See" });
      for (const [index, id] of ["a", "b"].entries()) {
        const at = index + 2;
        event(call, "content_block_start", {
          index: at,
          content_block: { type: "tool_use", id, name: "t", input: {} },
        });
      }
      delta(call, 2, { type: "input_json_delta", partial_json: '{"x":' });
      delta(call, 3, { type: "input_json_delta", partial_json: "" });
      delta(call, 2, { type: "input_json_delta", partial_json: "1}" });
      finish(call, "tool_use");
    });
    expect(parts).toEqual([
      { type: "reasoning", text: "hm" },
      { type: "text", text: "See" },
      { type: "tool_call", id: "a", name: "t", args: { x: 1 } },
      { type: "tool_call", id: "b", name: "t", args: {} },
      { type: "finish", reason: "tool-calls", usage },
    ]);
  });

  test.each([
    ["max_tokens", "length"],
    ["stop_sequence", "stop"],
    ["refusal", "content-filter"],
    ["pause_turn", "other"],
  ])("that ends by %s ends by %s", async (said, meant) => {
    const { parts } = await exchange((call) => {
      start(call);
      finish(call, said);
    });
    expect(parts.at(-1)).toMatchObject({ reason: meant });
  });

  test("whose fields have the wrong types is read as far as it goes", async () => {
    const { parts, error } = await exchange((call) => {
      event(call, "message_start", { message: 5 });
      event(call, "content_block_delta", {
        index: 9,
        delta: { type: "input_json_delta", partial_json: "x" },
      });
      event(call, "content_block_delta", { delta: null });
      event(call, "somethingNew", { a: 1 });
      delta(call, 0, { type: "text_delta", text: "ok" });
      finish(call);
    });
    expect(error).toBeUndefined();
    expect(parts[0]).toEqual({ type: "text", text: "ok" });
  });

  test("that fails under way is a failure with the server's words", async () => {
    const { error } = await exchange((call) => {
      start(call);
      delta(call, 0, { type: "text_delta", text: "Half" });
      event(call, "error", { error: { type: "overloaded_error", message: "Overloaded" } }).end();
    });
    expect(error).toMatchObject({ code: "MODEL_FAILED" });
    expect(error?.message).toContain("Overloaded");
  });

  test("that ends without a word has broken off", async () => {
    const { error } = await exchange((call) => {
      start(call);
      delta(call, 0, { type: "text_delta", text: "Half" }).end();
    });
    expect(error).toMatchObject({ code: "MODEL_INTERRUPTED", retryable: true });
  });
});
