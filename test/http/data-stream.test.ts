import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { dataStreamLine } from "../../src/http/data-stream.ts";
import type { StreamPart } from "../../src/http/part-log.ts";
import { readDataStream } from "./read-data-stream.ts";

const usage = { prompt_tokens: 3, completion_tokens: 4 };

describe("a line", () => {
  test.each<[StreamPart, string]>([
    [{ type: "start_step", message_id: "m1" }, 'f:{"messageId":"m1"}'],
    [{ type: "text", text: 'say "hi"\n' }, '0:"say \\"hi\\"\\n"'],
    [{ type: "reasoning", text: "hm" }, 'g:"hm"'],
    [{ type: "data", data: [{ a: 1 }] }, '2:[{"a":1}]'],
    [
      { type: "tool_call", id: "c", name: "sum", args: { a: 1 } },
      '9:{"toolCallId":"c","toolName":"sum","args":{"a":1}}',
    ],
    [{ type: "tool_result", id: "c", result: "two" }, 'a:{"toolCallId":"c","result":"two"}'],
    [
      { type: "finish_step", reason: "stop", usage },
      'e:{"finishReason":"stop","usage":{"promptTokens":3,"completionTokens":4},"isContinued":false}',
    ],
    [
      { type: "finish", reason: "stop", usage },
      'd:{"finishReason":"stop","usage":{"promptTokens":3,"completionTokens":4}}',
    ],
    [{ type: "error", message: "no model" }, '3:"no model"'],
    [
      { type: "finish", reason: "error", usage, error: { code: "X", message: "no" } },
      'd:{"finishReason":"error","usage":{"promptTokens":3,"completionTokens":4},"error":{"code":"X","message":"no"}}',
    ],
    [
      { type: "tool_call", id: "c", name: "sum", args: "x" },
      '9:{"toolCallId":"c","toolName":"sum","args":{"input":"x"}}',
    ],
    [
      { type: "finish", reason: "stopped", usage },
      'd:{"finishReason":"other","usage":{"promptTokens":3,"completionTokens":4}}',
    ],
  ])("for %j is %s", (part, line) => {
    expect(dataStreamLine(part)).toBe(`${line}\n`);
  });

  // What JSON cannot carry (-0, lone surrogates) never enters: bodies are checked at the gate.
  const text = fc.string({ unit: "grapheme" });
  const json = fc
    .jsonValue({ noUnicodeString: false, maxDepth: 3 })
    .map((value) => JSON.parse(JSON.stringify(value)));
  const count = fc.nat();
  const used = fc.record({ prompt_tokens: count, completion_tokens: count });
  const reason = fc.constantFrom("stop", "length", "error");
  const anyPart: fc.Arbitrary<StreamPart> = fc.oneof(
    fc.record({ type: fc.constant("start_step" as const), message_id: text }),
    fc.record({ type: fc.constant("text" as const), text }),
    fc.record({ type: fc.constant("reasoning" as const), text }),
    fc.record({ type: fc.constant("data" as const), data: fc.array(json) }),
    fc.record({
      type: fc.constant("tool_call" as const),
      id: text,
      name: text,
      args: fc.dictionary(fc.string(), json),
    }),
    fc.record({ type: fc.constant("tool_result" as const), id: text, result: json }),
    fc.record({ type: fc.constant("finish_step" as const), reason, usage: used }),
    fc.record({ type: fc.constant("finish" as const), reason, usage: used }),
    fc.record({ type: fc.constant("error" as const), message: text }),
  );

  test("of any part is one line that a strict client reads back", () => {
    fc.assert(
      fc.property(fc.array(anyPart), (parts) => {
        expect(readDataStream(parts.map(dataStreamLine).join(""))).toEqual(parts);
      }),
    );
  });
});
