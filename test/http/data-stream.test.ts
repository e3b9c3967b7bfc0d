import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  dataStreamLine,
  dataStreamResponse,
  LivePartLog,
  type StreamPart,
} from "../../src/http/data-stream.ts";
import { settled, TestClock } from "../helpers/clock.ts";
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

describe("a response", () => {
  function setup(...parts: StreamPart[]) {
    const clock = new TestClock();
    const log = new LivePartLog(clock);
    log.append(...parts);
    const read = (response = dataStreamResponse(log)) => {
      const reader = response.body!.getReader();
      return {
        next: async () => {
          const { value, done } = await reader.read();
          return done ? undefined : new TextDecoder().decode(value);
        },
        leave: () => reader.cancel(),
      };
    };
    return { clock, log, read };
  }
  const say = (text: string): StreamPart => ({ type: "text", text });

  test("says in its headers what it is and keeps proxies from holding it back", () => {
    const { headers } = dataStreamResponse(setup().log, { "x-conversation-id": "c1" });
    expect(Object.fromEntries(headers)).toEqual({
      "content-type": "text/plain; charset=utf-8",
      "x-service-ai-data-stream": "v1",
      "x-vercel-ai-data-stream": "v1",
      "cache-control": "no-cache",
      "x-accel-buffering": "no",
      "x-conversation-id": "c1",
    });
  });

  test("gives what there is at once, then what comes, and ends with the log", async () => {
    const { log, read } = setup(say("a"), say("b"));
    const reader = read();
    expect(await reader.next()).toBe('0:"a"\n0:"b"\n');
    const later = reader.next();
    log.append(say("c"));
    expect(await later).toBe('0:"c"\n');
    const end = reader.next();
    log.close();
    expect(await end).toBeUndefined();
  });

  test("sends an empty line after ten seconds of silence, and again", async () => {
    const { clock, log, read } = setup();
    const reader = read();
    for (let n = 0; n < 3; n++) {
      const beat = reader.next();
      await settled();
      await clock.advance(10_000);
      expect(await beat).toBe("\n");
    }
    log.append(say("a"));
    expect(await reader.next()).toBe('0:"a"\n');
  });

  test("read a second time begins anew, at its own pace", async () => {
    const { log, read } = setup(say("a"));
    const first = read();
    await first.next();
    log.append(say("b"));
    const second = read();
    expect(await second.next()).toBe('0:"a"\n0:"b"\n');
    expect(await first.next()).toBe('0:"b"\n');
    log.close();
    const third = read();
    expect(await third.next()).toBe('0:"a"\n0:"b"\n');
    expect(await third.next()).toBeUndefined();
  });

  test("that nobody reads on leaves the log and the other readers alone", async () => {
    const { clock, log, read } = setup();
    const gone = read();
    const stays = read();
    const waiting = [gone.next(), stays.next()];
    await settled();
    await gone.leave();
    log.append(say("a"));
    expect(await Promise.all(waiting)).toEqual([undefined, '0:"a"\n']);
    await clock.advance(30_000);
    log.append(say("b"));
    expect(await stays.next()).toBe('0:"b"\n');
  });

  test("of a long answer is handed over in pieces, and only as they are taken", async () => {
    const piece = "x".repeat(1_000);
    const { log, read } = setup(...Array.from({ length: 100 }, () => say(piece)));
    log.close();
    const reader = read();
    const sizes: number[] = [];
    for (let chunk = await reader.next(); chunk !== undefined; chunk = await reader.next()) {
      sizes.push(chunk.length);
    }
    expect(sizes.length).toBeGreaterThan(5);
    expect(Math.max(...sizes)).toBeLessThan(18_000);
  });
});
