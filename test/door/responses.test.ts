import { describe, expect, test } from "bun:test";
import { forgetResponses } from "../../src/door/chores.ts";
import { sqliteResponses } from "../../src/storage/sqlite/responses.ts";
import { world } from "../agents/world.ts";

const user = (content: unknown) => ({ role: "user", content });

async function setup() {
  const w = world({ model: "server" });
  const model = await w.anAgent({ system_prompt: "Be brief." });
  const post = (body: object, headers = {}) => w.call("POST", "/responses", { model, ...body }, headers);
  const open = (body: object) => w.ask("POST", "/responses", { model, stream: true, ...body });
  /** What the model was told, without the agent's prompt. */
  const talk = async (body: object, answer: string) => {
    const asked = post(body);
    const call = await w.server.next();
    call.say(answer).finish();
    return { told: call.body.messages.slice(1), ...(await asked) };
  };
  return { w, model, post, open, talk };
}

async function eventsOf(response: Response) {
  const blocks = (await response.text()).split("\n\n").filter((block) => block !== "");
  return blocks.map((block) => {
    const [event, data] = block.split("\n");
    const parsed = JSON.parse(data!.slice(6));
    expect(event).toBe(`event: ${parsed.type}`);
    return parsed;
  });
}

describe("a response", () => {
  test("answers text or items, and is on record for who refers to it", async () => {
    const { w, model, talk } = await setup();
    const { status, body } = await talk(
      { input: "Hi", instructions: "Rhyme.", metadata: { a: "b" } },
      "Hello",
    );
    expect(status).toBe(200);
    expect(structuredClone(body)).toMatchObject({
      id: expect.stringMatching(/^resp_[0-9a-f]{32}$/),
      object: "response",
      created_at: Date.UTC(2026, 0, 1) / 1_000,
      status: "completed",
      error: null,
      incomplete_details: null,
      instructions: "Rhyme.",
      metadata: { a: "b" },
      model,
      store: true,
      output: [
        {
          id: expect.stringMatching(/^msg_/),
          type: "message",
          role: "assistant",
          status: "completed",
          content: [{ type: "output_text", text: "Hello", annotations: [] }],
        },
      ],
      usage: { input_tokens: 7, output_tokens: 3, total_tokens: 10 },
    });
    expect((await w.call("GET", `/responses/${body.id}`)).body).toEqual(body);
    const other = { authorization: "Bearer other" };
    expect((await w.call("GET", `/responses/${body.id}`, undefined, other)).status).toBe(404);
    expect((await w.call("DELETE", `/responses/${body.id}`)).body).toMatchObject({ deleted: true });
    expect((await w.call("GET", `/responses/${body.id}`)).status).toBe(404);
    expect(w.rows("conversations")).toEqual([]);
  });

  test("goes on from an earlier one, or from items of it", async () => {
    const { talk } = await setup();
    const first = await talk({ input: "Hi" }, "Hello");
    const second = await talk({ input: "And?", previous_response_id: first.body.id }, "Well");
    expect(second.told).toEqual([user("Hi"), { role: "assistant", content: "Hello" }, user("And?")]);
    const third = await talk({ input: "So?", previous_response_id: second.body.id }, "So");
    expect(third.told.map(({ content }: { content: string }) => content)).toEqual([
      "Hi",
      "Hello",
      "And?",
      "Well",
      "So?",
    ]);
    const item = { type: "item_reference", id: first.body.output[0].id };
    const again = await talk({ input: [user("Hi"), item, user("Or?")] }, "Or");
    expect(again.told).toEqual([user("Hi"), { role: "assistant", content: "Hello" }, user("Or?")]);
  });

  test("is not on record where its client wants none, and none refers to what is not there", async () => {
    const { w, post, talk } = await setup();
    const { body } = await talk({ input: "Hi", store: false }, "Hello");
    expect([body.store, w.rows("responses")]).toEqual([false, []]);
    const { status, body: refused } = await post({ input: "And?", previous_response_id: body.id });
    expect([status, refused.error.param]).toEqual([400, "previous_response_id"]);
    const item = { type: "item_reference", id: body.output[0].id };
    expect((await post({ input: [item, user("Hi")] })).body.error.param).toBe("input.0.id");
  });

  test("of another project is not there", async () => {
    const { w, talk } = await setup();
    const { body } = await talk({ input: "Hi" }, "Hello");
    const theirs = await w.anAgent({}, { key_id: "k", workspace_id: "w", project_id: "q" });
    const asked = { model: theirs, input: "And?", previous_response_id: body.id };
    const answer = await w.call("POST", "/responses", asked, { authorization: "Bearer other" });
    expect([answer.status, answer.body.error.param]).toEqual([400, "previous_response_id"]);
  });

  test("is streamed as events, reasoning and text as items of their own", async () => {
    const { w, open } = await setup();
    const asked = open({ input: "Hi" });
    (await w.server.next()).delta({ reasoning: "Hm" }).say("Hel", "lo").finish();
    const events = await eventsOf(await asked);
    expect(events.map(({ type }) => type.replace("response.", ""))).toEqual([
      "created",
      "in_progress",
      "output_item.added",
      "reasoning_summary_part.added",
      "reasoning_summary_text.delta",
      "reasoning_summary_text.done",
      "reasoning_summary_part.done",
      "output_item.done",
      "output_item.added",
      "content_part.added",
      "output_text.delta",
      "output_text.delta",
      "output_text.done",
      "content_part.done",
      "output_item.done",
      "completed",
    ]);
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, index) => index));
    const { response } = events.at(-1);
    expect(response.output.map(({ type }: { type: string }) => type)).toEqual(["reasoning", "message"]);
    expect((await w.call("GET", `/responses/${response.id}`)).body).toEqual(response);
  });

  test("hands calls of the client's tools over, and goes on with what they gave", async () => {
    const { w, open, talk } = await setup();
    const tools = [{ type: "function", name: "rain", parameters: { type: "object", properties: {} } }];
    const asked = open({ input: "Rain?", tools, tool_choice: { type: "function", name: "rain" } });
    const call = await w.server.next();
    expect(call.body.tool_choice).toEqual({ type: "function", function: { name: "rain" } });
    call.say("Let me see.");
    call.delta({ tool_calls: [{ index: 0, id: "c1", function: { name: "rain", arguments: '{"a":1}' } }] });
    call.finish("tool_calls");
    const { response } = (await eventsOf(await asked)).at(-1);
    expect(response.output[1]).toMatchObject({
      type: "function_call",
      call_id: "c1",
      name: "rain",
      arguments: '{"a":1}',
    });
    const output = { type: "function_call_output", call_id: "c1", output: "yes" };
    const { told } = await talk({ input: [output], previous_response_id: response.id, tools }, "It rains");
    expect(told).toEqual([
      user("Rain?"),
      {
        role: "assistant",
        content: "Let me see.",
        tool_calls: [{ id: "c1", type: "function", function: { name: "rain", arguments: '{"a":1}' } }],
      },
      { role: "tool", tool_call_id: "c1", content: "yes" },
    ]);
  });

  test("is incomplete where the model ran out of room, and failed where it failed", async () => {
    const { w, open } = await setup();
    const cut = open({ input: "Hi" });
    (await w.server.next()).say("Hel").finish("length");
    expect((await eventsOf(await cut)).at(-1)).toMatchObject({
      type: "response.incomplete",
      response: { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } },
    });
    const broken = open({ input: "Hi" });
    (await w.server.next())
      .say("Hel")
      .event({ error: { message: "Overheated" } })
      .end();
    const { type, response } = (await eventsOf(await broken)).at(-1);
    expect([type, response.status]).toEqual(["response.failed", "failed"]);
    expect(response.error.message).toContain("Overheated");
    expect(w.rows("responses")).toHaveLength(1);
  });

  test("in a conversation that its client names is kept there", async () => {
    const { w, model, talk } = await setup();
    await talk({ input: "Hi", conversation: "c1" }, "Hello");
    const { told } = await talk({ input: "And?", conversation: { id: "c1" } }, "Well");
    expect(told).toEqual([user("Hi"), { role: "assistant", content: "Hello" }, user("And?")]);
    expect((await w.call("GET", `/agents/${model}/conversations/c1`)).body.message_count).toBe(4);
    expect(w.rows("responses")).toEqual([]);
  });

  test("is forgotten after a month", async () => {
    const { w, talk } = await setup();
    await talk({ input: "Hi" }, "Hello");
    const chore = forgetResponses({ store: sqliteResponses(w.storage), clock: w.clock });
    await w.clock.advance(29 * 86_400_000);
    await chore.run();
    expect(w.rows("responses")).toHaveLength(1);
    await w.clock.advance(2 * 86_400_000);
    await chore.run();
    expect(w.rows("responses")).toEqual([]);
  });
});

describe("what goes wrong has OpenAI's body", () => {
  test.each([
    ["no input", { input: undefined }, "input"],
    ["an empty input", { input: [] }, "input"],
    ["an item of another kind", { input: [{ type: "computer_call" }] }, "input.0.type"],
    ["a message without a role", { input: [{ content: "Hi" }] }, "input.0.role"],
    [
      "a result without its call",
      { input: [{ type: "function_call_output", output: "x" }] },
      "input.0.call_id",
    ],
    ["an answer in the background", { input: "Hi", background: true }, "background"],
    ["a number for an id", { input: "Hi", previous_response_id: 7 }, "previous_response_id"],
    ["another's tools", { input: "Hi", tools: [{ type: "file_search" }] }, "tools.0.type"],
    ["a form that is none", { input: "Hi", text: { format: { type: "xml" } } }, "text.format.type"],
  ])("%s", async (_, body, param) => {
    const { post } = await setup();
    const answer = await post(body);
    expect([answer.status, answer.body.error.type, answer.body.error.param]).toEqual([
      400,
      "invalid_request_error",
      param,
    ]);
  });
});
