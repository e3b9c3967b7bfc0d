import { afterAll, describe, expect, test } from "bun:test";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, jsonSchema, streamText, tool } from "ai-v6";
import OpenAI from "openai";
import { chatServer } from "../models/chat-server.ts";
import { world } from "./setup.ts";

const model = chatServer();
afterAll(model.close);
const { errand, key, workspace } = await world({ env: { OPENAI_BASE_URL: model.url } });
const baseURL = `${errand.url}/api`;
const client = new OpenAI({ baseURL, apiKey: key.key, maxRetries: 0 });
const { body: agent } = await errand.api<{ id: string }>("POST", `/api/agents?${workspace}`, {
  name: "Guide",
  system_prompt: "Be brief.",
  auto_generate_title: false,
});
const hi = [{ role: "user" as const, content: "Hi" }];
const parameters = { type: "object" as const, properties: { city: { type: "string" as const } } };

describe("OpenAI's own client", () => {
  test("lists agents as models", async () => {
    const list = await client.models.list();
    expect(list.data).toMatchObject([{ id: agent.id, object: "model", name: "Guide" }]);
    expect(await client.models.retrieve(agent.id)).toMatchObject({ id: agent.id });
  });

  test("creates a chat completion", async () => {
    const asked = client.chat.completions.create({ model: agent.id, messages: hi });
    (await model.next()).say("Hello").finish();
    const answer = await asked;
    expect(answer.choices[0]!.message.content).toBe("Hello");
    expect(answer.usage).toMatchObject({ total_tokens: 10 });
    expect(answer._request_id).toBeTruthy();
  });

  test("streams one, word by word", async () => {
    const stream = await Promise.all([
      client.chat.completions.create({ model: agent.id, messages: hi, stream: true }),
      model.next().then((call) => call.say("Hel", "lo").finish()),
    ]);
    const words: string[] = [];
    for await (const chunk of stream[0]) words.push(chunk.choices[0]?.delta.content ?? "");
    expect(words.join("|")).toBe("|Hel|lo|");
  });

  test("gathers one by its helper, with tools that it runs itself", async () => {
    const runner = client.chat.completions.runTools({
      model: agent.id,
      messages: hi,
      stream: true,
      tools: [
        {
          type: "function",
          function: { name: "rain", description: "", parameters, parse: JSON.parse, function: () => "yes" },
        },
      ],
    });
    const first = await model.next();
    first.delta({ tool_calls: [{ index: 0, id: "c1", function: { name: "rain", arguments: "{}" } }] });
    first.finish("tool_calls");
    const second = await model.next();
    expect(second.body.messages.at(-1)).toMatchObject({ role: "tool", tool_call_id: "c1", content: "yes" });
    second.say("It rains").finish();
    expect(await runner.finalContent()).toBe("It rains");
  });

  test("is stopped, and so is the model", async () => {
    const runner = client.chat.completions.stream({ model: agent.id, messages: hi });
    const call = await model.next();
    call.say("Hel");
    await new Promise((resolve) => runner.once("content", resolve));
    const gone = new Promise((resolve) => call.gone.addEventListener("abort", resolve));
    runner.abort();
    await expect(runner.done()).rejects.toBeInstanceOf(OpenAI.APIUserAbortError);
    await gone;
  });

  test("knows what went wrong by its classes", async () => {
    const stranger = new OpenAI({ baseURL, apiKey: "erk_no", maxRetries: 0 });
    const asked = (by: OpenAI, more: object): Promise<unknown> =>
      by.chat.completions.create({ model: agent.id, messages: hi, ...more }).then(
        () => undefined,
        (error) => error,
      );
    const unknown = await asked(stranger, {});
    expect(unknown).toBeInstanceOf(OpenAI.AuthenticationError);
    expect(unknown).toMatchObject({ code: "invalid_api_key", requestID: expect.any(String) });
    const missing = await asked(client, { model: "gpt-5" });
    expect(missing).toBeInstanceOf(OpenAI.NotFoundError);
    expect(missing).toMatchObject({ code: "model_not_found", param: "model" });
    const bad = await asked(client, { messages: [] });
    expect(bad).toBeInstanceOf(OpenAI.BadRequestError);
    expect(bad).toMatchObject({ param: "messages", type: "invalid_request_error" });
    const busy = asked(client, {});
    (await model.next()).refuse(429, { message: "Slow down" }, { "retry-after": "60" });
    expect(await busy).toBeInstanceOf(OpenAI.RateLimitError);
    const broken = client.chat.completions.create({ model: agent.id, messages: hi, stream: true });
    const reading = broken.then(async (stream) => {
      for await (const _ of stream);
    });
    const call = await model.next();
    call
      .say("Hel")
      .event({ error: { message: "Overheated" } })
      .end();
    await expect(reading).rejects.toBeInstanceOf(OpenAI.APIError);
  });
});

describe("OpenAI's own client, by responses", () => {
  test("creates one, and goes on from it", async () => {
    const asked = client.responses.create({ model: agent.id, input: "Hi" });
    (await model.next()).say("Hello").finish();
    const first = await asked;
    expect(first.output_text).toBe("Hello");
    expect((await client.responses.retrieve(first.id)).output_text).toBe("Hello");
    const going = client.responses.create({ model: agent.id, input: "And?", previous_response_id: first.id });
    const call = await model.next();
    expect(call.body.messages.map(({ content }: { content: string }) => content)).toEqual([
      "Be brief.",
      "Hi",
      "Hello",
      "And?",
    ]);
    call.say("Well").finish();
    expect((await going).output_text).toBe("Well");
    await client.responses.delete(first.id);
    const gone = await client.responses.retrieve(first.id).catch((error) => error);
    expect(gone).toBeInstanceOf(OpenAI.NotFoundError);
  });

  test("gathers one by its helper", async () => {
    const stream = client.responses.stream({ model: agent.id, input: "Hi" });
    const words: string[] = [];
    stream.on("response.output_text.delta", ({ delta }) => words.push(delta));
    (await model.next()).delta({ reasoning: "Hm" }).say("Hel", "lo").finish();
    const response = await stream.finalResponse();
    expect([response.status, response.output_text, words]).toEqual(["completed", "Hello", ["Hel", "lo"]]);
  });
});

describe("AI SDK with its provider for OpenAI", () => {
  const openai = createOpenAI({ baseURL, apiKey: key.key });
  const rain = tool({ inputSchema: jsonSchema<object>(parameters), execute: async () => "yes" });

  test("speaks chat completions", async () => {
    const result = streamText({ model: openai.chat(agent.id), prompt: "Hi", maxRetries: 0 });
    (await model.next()).say("Hel", "lo").finish();
    expect(await result.text).toBe("Hello");
    expect(await result.usage).toMatchObject({ inputTokens: 7, outputTokens: 3 });
    const tooled = generateText({
      model: openai.chat(agent.id),
      prompt: "Hi",
      tools: { rain },
      stopWhen: ({ steps }) => steps.length === 2,
    });
    const first = await model.next();
    first.delta({ tool_calls: [{ index: 0, id: "c1", function: { name: "rain", arguments: "{}" } }] });
    first.finish("tool_calls");
    (await model.next()).say("It rains").finish();
    expect((await tooled).text).toBe("It rains");
  });

  test("speaks responses, and refers to earlier answers by their ids", async () => {
    const result = streamText({ model: openai(agent.id), prompt: "Hi", tools: { rain }, maxRetries: 0 });
    (await model.next()).say("Hel", "lo").finish();
    expect(await result.text).toBe("Hello");
    const { messages } = await result.response;
    const next = generateText({
      model: openai(agent.id),
      messages: [{ role: "user", content: "Hi" }, ...messages, { role: "user", content: "Rain?" }],
      tools: { rain },
      stopWhen: ({ steps }) => steps.length === 2,
      maxRetries: 0,
    });
    const first = await model.next();
    expect(first.body.messages.map(({ content }: { content: string }) => content)).toEqual([
      "Be brief.",
      "Hi",
      "Hello",
      "Rain?",
    ]);
    first.delta({ tool_calls: [{ index: 0, id: "c1", function: { name: "rain", arguments: "{}" } }] });
    first.finish("tool_calls");
    const second = await model.next();
    expect(second.body.messages.at(-1)).toMatchObject({ role: "tool", tool_call_id: "c1" });
    second.say("It rains").finish();
    expect((await next).text).toBe("It rains");
  });

  test("learns that the model failed under way", async () => {
    const errors: unknown[] = [];
    const onError = ({ error }: { error: unknown }) => void errors.push(error);
    const result = streamText({ model: openai(agent.id), prompt: "Hi", maxRetries: 0, onError });
    (await model.next())
      .say("Hel")
      .event({ error: { message: "Overheated" } })
      .end();
    await result.consumeStream();
    expect(String(JSON.stringify(errors) + (await result.finishReason))).toContain("error");
  });
});
