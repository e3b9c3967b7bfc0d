import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { createLog, type LogOptions } from "../../src/lib/log.ts";
import { redact } from "../../src/lib/redact.ts";
import { TestClock } from "../helpers/clock.ts";

function setup(options: Partial<LogOptions> = {}) {
  const clock = new TestClock();
  const written: string[] = [];
  const log = createLog({
    level: "info",
    format: "json",
    clock,
    write: (text) => written.push(text),
    terminal: false,
    env: {},
    ...options,
  });
  return { clock, log, written };
}

describe("log", () => {
  test("a line is one JSON object with time, level, message and fields", () => {
    const { log, written } = setup();
    log.info("started", { port: 7070 });
    log.flush();
    expect(written.map((line) => JSON.parse(line))).toEqual([
      { time: "2026-01-01T00:00:00.000Z", level: "info", message: "started", port: 7070 },
    ]);
  });

  test("lines below the level are left out", () => {
    const { log, written } = setup({ level: "warn" });
    log.debug("a");
    log.info("b");
    log.plain("info", "c", {});
    log.warn("d");
    log.flush();
    expect(written.join("")).toContain('"d"');
    expect(written.join("").split("\n")).toHaveLength(2);
  });

  test("lines wait at most 100 ms, an error does not wait and takes along what came before", async () => {
    const { clock, log, written } = setup();
    log.info("first");
    log.info("second");
    expect(written).toEqual([]);
    await clock.advance(100);
    expect(written).toHaveLength(1);
    log.info("third");
    log.error("fourth");
    expect(written).toHaveLength(2);
    expect(written[1]).toContain("third");
  });

  test("32 KB of lines go out at once", () => {
    const { log, written } = setup();
    for (let i = 0; i < 9; i++) log.info("x".repeat(4_000));
    expect(written).toHaveLength(1);
  });

  test("whatever a text holds, its line stays one line of JSON", () => {
    const { log, written } = setup();
    const character = fc.integer({ min: 0, max: 0x2fff }).map((code) => String.fromCharCode(code));
    fc.assert(
      fc.property(fc.string({ unit: character }), (text) => {
        written.length = 0;
        log.info("x", { text });
        log.flush();
        expect(written[0]!.slice(0, -1)).not.toMatch(/[\p{Cc}\u2028\u2029]/u);
        JSON.parse(written[0]!);
      }),
    );
  });

  test("pretty lines are coloured on a terminal only, and not under NO_COLOR", () => {
    const lineOf = (options: Partial<LogOptions>) => {
      const { log, written } = setup({ format: "auto", ...options });
      log.warn("hello", { port: 1, words: "a b" });
      log.flush();
      return written.join("");
    };
    expect(lineOf({ format: "pretty" })).toBe('00:00:00.000 WARN  hello port=1 words="a b"\n');
    expect(lineOf({ terminal: true })).toContain("\x1b[33mWARN \x1b[0m");
    expect(lineOf({ terminal: true, env: { NO_COLOR: "1" } })).not.toContain("\x1b");
    expect(lineOf({ terminal: false })).toStartWith("{");
  });

  test("a pretty message cannot steer the terminal", () => {
    const { log, written } = setup({ format: "pretty" });
    log.info("a\u001b[2Jb\u009bc\r\nd");
    log.flush();
    expect(written[0]!.slice(0, -1)).not.toMatch(/\p{Cc}/u);
  });
});

describe("redaction", () => {
  test("fields named like secrets lose their value, at any depth", () => {
    const hidden = redact({
      token: "t",
      webhook_token: "t",
      client_secret: { a: 1 },
      Authorization: "Bearer x",
      password: "p",
      key: "k",
      "api-key": "k",
      apiKey: "k",
      list: [{ cookie: "c" }],
    });
    expect(JSON.stringify(hidden).match(/\[redacted\]/g)).toHaveLength(9);
  });

  test("names that only sound like it, and figures, stay", () => {
    const fields = { key_id: "k1", prompt_tokens: 12, token: null, monkey: "m", keys: ["a"] };
    expect(redact(fields)).toEqual(fields);
  });

  test("credentials inside a text are cut out", () => {
    const text = redact(
      "GET /hooks/1?token=abc&x=1 with Bearer abcdefgh and erk_0123456789abcdef to https://user:pass@host whsec_AAAABBBBCCCC",
    );
    expect(text).toBe(
      "GET /hooks/1?token=[redacted]&x=1 with Bearer [redacted] and [redacted] to https://user:[redacted]@host [redacted]",
    );
  });

  test("the token of an incoming webhook is a credential wherever it stands", () => {
    expect(redact("/webhooks/workflows/1/eht_0123456789abcdef")).toBe("/webhooks/workflows/1/[redacted]");
  });

  test("an error shows its message, code, stack and cause", () => {
    const error = Object.assign(new Error("outer", { cause: new Error("inner") }), { code: "E1" });
    expect(redact(error)).toMatchObject({
      name: "Error",
      message: "outer",
      code: "E1",
      cause: { message: "inner" },
    });
  });

  test("endless texts, endless depth and circles end", () => {
    const circle: Record<string, unknown> = {};
    circle["self"] = circle;
    expect(JSON.stringify(redact(circle)).length).toBeLessThan(200);
    expect((redact("x".repeat(1e6)) as string).length).toBeLessThan(9_000);
  });
});
