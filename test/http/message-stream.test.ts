import { describe, expect, test } from "bun:test";
import { dataStream } from "../../src/http/data-stream.ts";
import { streamResponse } from "../../src/http/message-stream.ts";
import { LivePartLog, type StreamPart } from "../../src/http/part-log.ts";
import { uiMessageStream } from "../../src/http/ui-message-stream.ts";
import { settled, TestClock } from "../helpers/clock.ts";

describe("a response", () => {
  function setup(...parts: StreamPart[]) {
    const clock = new TestClock();
    const log = new LivePartLog(clock);
    log.append(...parts);
    const read = (response = streamResponse(log, dataStream)) => {
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
    const { headers } = streamResponse(setup().log, dataStream, { "x-conversation-id": "c1" });
    expect(Object.fromEntries(headers)).toEqual({
      "content-type": "text/plain; charset=utf-8",
      "x-service-ai-data-stream": "v1",
      "x-vercel-ai-data-stream": "v1",
      "cache-control": "no-cache",
      "x-accel-buffering": "no",
      vary: "accept",
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

  test("as server-sent events says so in its headers, beats with a comment and ends with [DONE]", async () => {
    const { clock, log, read } = setup();
    const response = streamResponse(log, uiMessageStream());
    expect(response.headers.get("content-type")).toBe("text/event-stream");
    expect(response.headers.get("x-vercel-ai-ui-message-stream")).toBe("v1");
    const reader = read(response);
    const beat = reader.next();
    await settled();
    await clock.advance(10_000);
    expect(await beat).toBe(": keep-alive\n\n");
    log.close();
    expect(await reader.next()).toBe("data: [DONE]\n\n");
    expect(await reader.next()).toBeUndefined();
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
    expect(await stays.next()).toBe("\n");
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
