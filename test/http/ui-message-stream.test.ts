import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { StreamPart } from "../../src/http/part-log.ts";
import { uiMessageStream } from "../../src/http/ui-message-stream.ts";
import { type Chunk, readUiMessageStream } from "./read-ui-message-stream.ts";

const usage = { prompt_tokens: 3, completion_tokens: 4 };
const start: StreamPart = { type: "start_step", message_id: "m1" };
const say = (text: string): StreamPart => ({ type: "text", text });
const think = (text: string): StreamPart => ({ type: "reasoning", text });
const finishStep: StreamPart = { type: "finish_step", reason: "stop", usage };

function written(parts: StreamPart[], options?: { approvals: boolean }): string {
  const writer = uiMessageStream(options).writer();
  return parts.map((part) => writer.part(part)).join("") + writer.end();
}
const chunksOf = (...parts: StreamPart[]): Chunk[] => readUiMessageStream(written(parts));

describe("the chunks", () => {
  test("of an answer put text and reasoning into blocks, between the message's start and its finish", () => {
    const parts = [start, think("h"), think("m"), say("Hel"), say("lo"), finishStep];
    expect(chunksOf(...parts, { type: "finish", reason: "stop", usage })).toEqual([
      { type: "start", messageId: "m1" },
      { type: "start-step" },
      { type: "reasoning-start", id: "1" },
      { type: "reasoning-delta", id: "1", delta: "h" },
      { type: "reasoning-delta", id: "1", delta: "m" },
      { type: "reasoning-end", id: "1" },
      { type: "text-start", id: "2" },
      { type: "text-delta", id: "2", delta: "Hel" },
      { type: "text-delta", id: "2", delta: "lo" },
      { type: "text-end", id: "2" },
      { type: "finish-step" },
      {
        type: "finish",
        messageMetadata: {
          finishReason: "stop",
          usage: { inputTokens: 3, outputTokens: 4, totalTokens: 7 },
        },
      },
    ]);
  });

  test("of a tool's use name it and give its result, or the words of its failure", () => {
    expect(
      chunksOf(
        start,
        { type: "tool_call", id: "c", name: "sum", args: { a: 1 } },
        { type: "tool_result", id: "c", result: 1 },
        { type: "tool_result", id: "d", result: { error: { message: "no such thing" } }, is_error: true },
      ).slice(2),
    ).toEqual([
      { type: "tool-input-available", toolCallId: "c", toolName: "sum", input: { a: 1 }, dynamic: true },
      { type: "tool-output-available", toolCallId: "c", output: 1, dynamic: true },
      { type: "tool-output-error", toolCallId: "d", errorText: "no such thing", dynamic: true },
    ]);
  });

  test("of a second step begin no second message", () => {
    expect(chunksOf(start, finishStep, start).map(({ type }) => type)).toEqual([
      "start",
      "start-step",
      "finish-step",
      "start-step",
    ]);
  });

  test("of data have its type for a name, and wait for the message to have an id", () => {
    const data: StreamPart = {
      type: "data",
      data: [{ conversation_id: "c" }, { type: "title", title: "Hi" }, 5, { type: "no name", a: 1 }],
    };
    expect(chunksOf(data, start)).toEqual([
      { type: "start", messageId: "m1" },
      { type: "data-context", data: { conversation_id: "c" } },
      { type: "data-title", data: { title: "Hi" } },
      { type: "data-value", data: 5 },
      { type: "data-context", data: { a: 1 } },
      { type: "start-step" },
    ]);
  });

  test("of a failure say what went wrong, also where nothing had begun", () => {
    const error: StreamPart = { type: "error", message: "no model" };
    expect(chunksOf({ type: "data", data: [{ a: 1 }] }, error)).toEqual([
      { type: "data-context", data: { a: 1 } },
      { type: "error", errorText: "no model" },
    ]);
  });

  test("of a stopped answer end it as aborted", () => {
    expect(chunksOf(start, say("Hel"), { type: "finish", reason: "stopped", usage }).at(-1)).toEqual({
      type: "abort",
    });
  });

  test("of an approval have a native form for clients that ask for it", () => {
    const ask: StreamPart = {
      type: "approval_request",
      approval_id: "a",
      tool_call_id: "c",
      tool_name: "pay",
      args: {},
    };
    expect(chunksOf(start, ask).at(-1)).toMatchObject({ type: "data-approval_request" });
    expect(written([start, ask], { approvals: true })).toContain(
      'data: {"type":"tool-approval-request","approvalId":"a","toolCallId":"c"}\n\n',
    );
  });
});

const text = fc.string({ unit: "grapheme" });
const json = fc.jsonValue().map((value) => JSON.parse(JSON.stringify(value)));
const anyPart: fc.Arbitrary<StreamPart> = fc.oneof(
  text.map(say),
  text.map(think),
  fc.array(json).map((data) => ({ type: "data" as const, data })),
  fc.record({ type: fc.constant("tool_call" as const), id: text, name: text, args: json }),
  fc.record({ type: fc.constant("tool_result" as const), id: text, result: json }),
  fc.constant(start),
  fc.constant(finishStep),
  fc.record({ type: fc.constant("error" as const), message: text }),
);

test("any parts make chunks that the strictest client reads, and no word is lost", () => {
  fc.assert(
    fc.property(fc.array(anyPart), (parts) => {
      const words = (list: { type: string; text?: unknown; delta?: unknown }[], type: string) =>
        list
          .filter((each) => each.type === type)
          .map((each) => each.text ?? each.delta)
          .join("");
      const chunks = chunksOf(start, ...parts);
      expect(words(chunks, "text-delta")).toBe(words(parts, "text"));
      expect(words(chunks, "reasoning-delta")).toBe(words(parts, "reasoning"));
    }),
  );
});
