import { describe, expect, test } from "bun:test";
import { createEgress } from "../../src/egress/egress.ts";
import { createModels } from "../../src/models/index.ts";
import { TestClock } from "../helpers/clock.ts";
import { asked, collect, setup } from "./setup.ts";

type Config = Parameters<typeof createModels>[0]["config"];

function modelsOf(config: Partial<Config> = {}) {
  const none = { default_model: undefined, openai_api_key: undefined, openai_base_url: undefined };
  return createModels({
    config: { ...none, ollama_host: undefined, ...config },
    egress: createEgress(),
    clock: new TestClock(),
  });
}

describe("the default model", () => {
  test.each([
    [{}, "offline/errand"],
    [{ openai_api_key: "k" }, "openai/gpt-4.1-mini"],
    [{ openai_base_url: "http://localhost:1/v1" }, "openai/gpt-4.1-mini"],
    [{ ollama_host: "http://localhost:11434" }, "ollama/llama3.2"],
    [{ openai_api_key: "k", default_model: "offline/errand" }, "offline/errand"],
    [{ anthropic_api_key: "k", gemini_api_key: "k" }, "anthropic/claude-sonnet-4-5"],
    [{ vllm_base_url: "http://localhost:8000/v1" }, "offline/errand"],
    [{ lmstudio_base_url: "http://localhost:1234/v1", groq_api_key: "k" }, "groq/llama-3.3-70b-versatile"],
  ])("of %j is %s", (config, expected) => {
    expect(modelsOf(config).default_model).toBe(expected);
  });
});

test("providers are listed with whether they are configured", () => {
  const list = modelsOf({ ollama_host: "http://localhost:11434" }).list();
  expect(list.map(({ provider }) => provider)).toEqual([
    "openai",
    "anthropic",
    "gemini",
    "groq",
    "mistral",
    "deepseek",
    "openrouter",
    "ollama",
    "lmstudio",
    "llamacpp",
    "vllm",
    "offline",
  ]);
  expect(list.filter(({ configured }) => configured)).toEqual([
    { provider: "ollama", configured: true, usual_model: "llama3.2", is_default: true },
    { provider: "offline", configured: true, usual_model: "errand", is_default: false },
  ]);
});

test.each(["nobody/m", "openai", "", "openai/gpt"])(
  "a model %j that cannot be had is named",
  async (model) => {
    const { error } = await collect(modelsOf(), asked({ model }));
    expect(error).toMatchObject({ code: "MODEL_UNKNOWN", retryable: false });
  },
);

test("a whole answer is the text of the stream, its reason and its usage", async () => {
  const { server, models } = setup();
  const answer = models.complete(asked());
  (await server.next()).delta({ reasoning: "hm" }).say("Hel", "lo").finish("length");
  expect(await answer).toEqual({
    text: "Hello",
    finish_reason: "length",
    usage: { prompt_tokens: 7, completion_tokens: 3 },
  });
});

describe("the offline model", () => {
  const say = (...contents: string[]) =>
    collect(
      modelsOf(),
      asked({
        model: "offline/errand",
        messages: contents.map((content) => ({ role: "user" as const, content })),
      }),
    );
  const textOf = ({ parts }: Awaited<ReturnType<typeof say>>) =>
    parts.map((part) => (part.type === "text" ? part.text : "")).join("");

  test("says what it heard, what it is and how to add a model, in many pieces", async () => {
    const said = await say("What can you do?");
    const text = textOf(said);
    expect(text).toContain('"What can you do?"');
    expect(text).toContain("offline model");
    expect(text).toContain("OPENAI_API_KEY");
    expect(said.parts.length).toBeGreaterThan(20);
    expect(said.parts.at(-1)).toMatchObject({ type: "finish", reason: "stop" });
  });

  test("answers the same words the same way", async () => {
    expect(await say("Hello")).toEqual(await say("Hello"));
  });

  test("knows which message of the conversation it answers and does not repeat a book", async () => {
    const text = textOf(await say("one", "x".repeat(10_000)));
    expect(text).toContain("message 2");
    expect(text.length).toBeLessThan(1_000);
  });
});
