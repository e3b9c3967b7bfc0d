import { afterAll, describe, expect, test } from "bun:test";
import { connect } from "node:net";
import fc from "fast-check";
import { inspectJson, MOST_DEPTH, parseJson } from "../../src/http/body.ts";
import { AppError } from "../../src/lib/errors.ts";
import { JSON_TYPE, KEY, setup } from "./world.ts";

const LIMIT = 64 * 1024;
const world = setup({ maxBodyBytes: LIMIT });
afterAll(() => world.close());
const { ask, post, raw } = world;

const codeOf = async (answer: Response) => {
  expect(answer.headers.get("content-type")).toStartWith("application/json");
  return ((await answer.json()) as { error: { code: string } }).error.code;
};
const head = (path: string, headers: string) =>
  `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer good\r\n${headers}\r\n`;

describe("media types", () => {
  test("JSON is taken in its exact form, with or without its one character set", async () => {
    for (const type of [
      "application/json",
      "application/json; charset=utf-8",
      "Application/JSON;charset=UTF-8",
      'application/json; charset="utf-8"',
    ]) {
      expect((await post("/things", '{"name":"a"}', { "content-type": type })).status).toBe(201);
    }
  });

  test("anything else is 415", async () => {
    for (const type of [
      "application/jsonx",
      "xxxxxxxxxxxxj",
      "text/json",
      "text/plain",
      "application/vnd.api+json",
      "application/x-www-form-urlencoded",
      "application/json; charset=utf-16",
      "application/json; profile=x",
      "application/json, application/json",
    ]) {
      const answer = await post("/things", '{"name":"a"}', { "content-type": type });
      expect([type, answer.status]).toEqual([type, 415]);
      expect(await codeOf(answer)).toBe("UNSUPPORTED_MEDIA_TYPE");
    }
    const untyped = await raw(`${head("/things", "Content-Length: 2\r\n")}{}`);
    expect(untyped.status).toBe(415);
  });

  test("a compressed body is 415, whatever is in it", async () => {
    for (const encoding of ["gzip", "br", "identity, gzip"]) {
      const answer = await post("/things", '{"name":"a"}', { "content-encoding": encoding });
      expect(await codeOf(answer)).toBe("UNSUPPORTED_MEDIA_TYPE");
    }
    expect((await post("/things", '{"name":"a"}', { "content-encoding": "identity" })).status).toBe(201);
  });

  test("a hook takes the types its route lists: forms as an object, others as text", async () => {
    const form = { "content-type": "application/x-www-form-urlencoded" };
    expect(await (await post("/hooks/form", "a=1&b=%C3%A9", form)).json()).toEqual({
      body: { a: "1", b: "é" },
    });
    expect((await post("/hooks/form", "x", { "content-type": "text/plain" })).status).toBe(415);
    const any = async (type: string, body: string) =>
      (await post("/hooks/any/p/trigger", body, { "content-type": type })).json();
    expect(await any("text/plain", "hello")).toMatchObject({ body: "hello", raw: "hello" });
    expect(await any("application/cloudevents+json", '{"a":1}')).toMatchObject({ body: { a: 1 } });
    const untyped = await raw(`${head("/hooks/any/p/trigger", "Content-Length: 2\r\n")}{}`);
    expect(JSON.parse(untyped.body)).toMatchObject({ body: "{}" });
  });

  test("a name given twice in a form has a list", async () => {
    const form = { "content-type": "application/x-www-form-urlencoded" };
    expect(await (await post("/hooks/form", "a=1&b=&a=2&a=3", form)).json()).toEqual({
      body: { a: ["1", "2", "3"], b: "" },
    });
    expect((await post("/hooks/form", "a=1&__proto__=2", form)).status).toBe(400);
  });

  test("multipart arrives as its fields, where the route takes it", async () => {
    const form = new FormData();
    form.append("a", "é");
    form.append("b", "1");
    form.append("b", "2");
    const send = (path: string) => ask(path, { method: "POST", body: form, headers: KEY });
    expect(await (await send("/hooks/form")).json()).toEqual({ body: { a: "é", b: ["1", "2"] } });
    expect((await send("/things")).status).toBe(415);
  });

  test("a file in a form is refused, and told of where any media type is taken", async () => {
    const form = new FormData();
    form.append("picture", new File([new Uint8Array([0xff, 0xd8])], "p.jpg", { type: "image/jpeg" }));
    const send = (path: string) => ask(path, { method: "POST", body: form, headers: KEY });
    const refused = await send("/hooks/form");
    expect([refused.status, await refused.json()]).toMatchObject([
      400,
      { error: { details: { field: "picture", expected: "a text field", received: "a file" } } },
    ]);
    expect(await (await send("/hooks/any/p/trigger")).json()).toMatchObject({
      body: { picture: { filename: "p.jpg", type: "image/jpeg", size: 2 } },
    });
  });

  test("a body that is not the multipart it says is 400", async () => {
    for (const type of [
      "multipart/form-data",
      "multipart/form-data; boundary=",
      "multipart/form-data; boundary=x",
      'multipart/form-data; boundary="',
    ]) {
      expect((await post("/hooks/form", "--y\r\nhello", { "content-type": type })).status).toBe(400);
    }
  });

  test("bytes that are no text are taken where any media type is, and kept as they are", async () => {
    const answer = await post("/hooks/any/p/trigger", new Uint8Array([0x61, 0xff, 0x00]), {
      "content-type": "application/octet-stream",
    });
    expect(await answer.json()).toMatchObject({ sent: [0x61, 0xff, 0x00] });
    const text = await post("/hooks/text", new Uint8Array([0xff]), { "content-type": "text/plain" });
    expect(text.status).toBe(400);
  });

  test("a form of a hundred thousand names is read in a moment", async () => {
    const other = setup({ maxBodyBytes: 2 * 1024 * 1024 });
    try {
      const body = Array.from({ length: 100_000 }, (_, i) => `n${i}=`).join("&");
      const begun = performance.now();
      const form = { "content-type": "application/x-www-form-urlencoded" };
      expect((await other.post("/hooks/form", body, form)).status).toBe(200);
      expect(performance.now() - begun).toBeLessThan(1_000);
    } finally {
      await other.close();
    }
  });
});

describe("sizes", () => {
  test("a body of exactly the limit passes, one byte more is 413 with a JSON body", async () => {
    const body = (size: number) => JSON.stringify({ name: "x".repeat(size - 11) });
    expect((await post("/things", body(LIMIT))).status).toBe(201);
    expect(await codeOf(await post("/things", body(LIMIT + 1)))).toBe("PAYLOAD_TOO_LARGE");
  });

  test("a huge declared body is refused before a byte of it is sent", async () => {
    const answer = await raw(
      head("/things", "Content-Type: application/json\r\nContent-Length: 99999999999\r\n"),
    );
    expect([answer.status, JSON.parse(answer.body).error.code]).toEqual([413, "PAYLOAD_TOO_LARGE"]);
    expect(answer.head).toContain("connection: close");
  });

  test("a body without a declared size is refused as soon as it is too large, and the connection ends", async () => {
    const text = await new Promise<string>((resolve) => {
      const socket = connect(world.server.port, "127.0.0.1");
      let answer = "";
      socket.on("data", (data) => {
        answer += data;
      });
      socket.on("error", () => {});
      socket.on("close", () => resolve(answer));
      socket.write(head("/things", "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"));
      const chunk = `4000\r\n${"x".repeat(0x4000)}\r\n`;
      for (let i = 0; i < 6; i++) socket.write(chunk);
    });
    expect(text).toStartWith("HTTP/1.1 413");
    expect(text).toContain('"code":"PAYLOAD_TOO_LARGE"');
  });

  test("a body that arrives in pieces is put together", async () => {
    const chunk = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
    const sent = `${head("/things", "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n")}${chunk('{"name"')}${chunk(':"aé"}')}0\r\n\r\n`;
    const answer = await raw(sent);
    expect([answer.status, answer.body]).toEqual([201, '{"name":"aé"}']);
  });

  test("an empty body is refused where one is needed and passes where none is", async () => {
    expect(await codeOf(await post("/things", ""))).toBe("INVALID_INPUT");
    const chunked = await raw(
      `${head("/things", "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n")}0\r\n\r\n`,
    );
    expect(chunked.status).toBe(400);
    expect((await ask("/things/1/start", { method: "POST", headers: KEY })).status).toBe(200);
    expect((await ask("/things/1/start", { method: "POST", headers: { ...KEY, ...JSON_TYPE } })).status).toBe(
      200,
    );
  });
});

describe("JSON", () => {
  const refused = async (body: BodyInit) => codeOf(await post("/hooks/any/p/trigger", body));

  test("text that is no JSON is refused without a foreign message", async () => {
    const answer = await post("/things", "{nope");
    const text = await answer.text();
    expect(answer.status).toBe(400);
    expect(JSON.parse(text).error).toMatchObject({
      code: "INVALID_INPUT",
      message: "The body is not valid JSON.",
      details: { field: "", expected: "JSON", received: "text that is not JSON" },
    });
  });

  test("bytes that are not UTF-8, and a byte order mark, are refused", async () => {
    expect(await refused(new Uint8Array([0x22, 0xff, 0xfe, 0x22]))).toBe("INVALID_INPUT");
    expect(await refused(new Uint8Array([0x22, 0xed, 0xa0, 0x80, 0x22]))).toBe("INVALID_INPUT");
    expect(await refused(new Uint8Array([0xef, 0xbb, 0xbf, 0x7b, 0x7d]))).toBe("INVALID_INPUT");
  });

  test("64 levels pass, 65 do not, and a bracket in a text is no level", async () => {
    const nested = (levels: number) => "[".repeat(levels) + "]".repeat(levels);
    expect((await post("/hooks/any/p/trigger", nested(MOST_DEPTH))).status).toBe(200);
    expect(await refused(nested(MOST_DEPTH + 1))).toBe("INVALID_INPUT");
    expect(await refused(nested(20_000))).toBe("INVALID_INPUT");
    expect((await post("/hooks/any/p/trigger", `["${"[".repeat(500)}\\"[[["]`)).status).toBe(200);
  });

  test("__proto__ is refused as a name, however spelt, and passes as a value", async () => {
    expect(await refused('{"a":[{"__proto__":{"admin":true}}]}')).toBe("INVALID_INPUT");
    expect(await refused('{"\\u005f_proto__":1}')).toBe("INVALID_INPUT");
    expect((await post("/hooks/any/p/trigger", '{"a":"__proto__"}')).status).toBe(200);
  });

  test("half a surrogate pair is refused, a whole one passes", async () => {
    expect(await refused('{"a":"\\ud800"}')).toBe("INVALID_INPUT");
    expect(await refused('{"\\udc00":1}')).toBe("INVALID_INPUT");
    expect((await post("/hooks/any/p/trigger", '{"a":"\\ud83d\\ude00"}')).status).toBe(200);
  });

  test("a number past what a double holds is refused, a small exponent is not", async () => {
    expect(await refused('{"a":1e999}')).toBe("INVALID_INPUT");
    expect(await refused(`[-${"9".repeat(400)}]`)).toBe("INVALID_INPUT");
    expect((await post("/hooks/any/p/trigger", '{"a":1e30}')).status).toBe(200);
  });

  test("the raw text stays as it was sent", async () => {
    const sent = '{ "b" :1,\n"a":"é" }';
    const answer = await post("/things/1/start", sent);
    expect(await answer.json()).toEqual({ raw: sent });
  });

  test("any JSON a client may write comes back as it was", () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 8 }), (text) => {
        if (text.includes("__proto__")) return;
        const bytes = Buffer.from(text);
        expect(parseJson(bytes, text)).toEqual(JSON.parse(text));
      }),
    );
  });

  test("any text at all is parsed or refused, never anything else", () => {
    const piece = fc.constantFrom(
      "{",
      "}",
      "[",
      "]",
      '"',
      "\\",
      "u",
      "d800",
      ":",
      ",",
      "1",
      "e9",
      "-",
      "a",
      "__proto__",
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
        const text = pieces.join("");
        try {
          parseJson(Buffer.from(text), text);
        } catch (error) {
          expect(error).toBeInstanceOf(AppError);
        }
      }),
      { numRuns: 500 },
    );
  });

  test("the depth that is counted is the depth of the value", () => {
    const depthOf = (value: unknown): number =>
      typeof value === "object" && value !== null ? 1 + Math.max(0, ...Object.values(value).map(depthOf)) : 0;
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 10 }), (value) => {
        const text = JSON.stringify(value);
        expect(inspectJson(Buffer.from(text)).depth).toBe(depthOf(JSON.parse(text)));
      }),
    );
  });
});

describe("long texts", () => {
  const piece = fc.constantFrom("a", "\\", '"', "\\u00e9", "{[", "\ud83d\ude00", "a".repeat(1_500));
  test("are skipped without losing count of what stands in and behind them", () => {
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), fc.nat(5), (pieces, depth) => {
        const text = `{"a":${JSON.stringify(pieces.join(""))},"b":${"[".repeat(depth)}${"]".repeat(depth)}}`;
        const value = depth === 0 ? text.replace(',"b":', "") : text;
        expect(inspectJson(Buffer.from(value)).depth).toBe(depth + 1);
      }),
    );
  });

  test("with an escape far inside are found odd", () => {
    const long = "a".repeat(5_000);
    expect(inspectJson(Buffer.from(`["${long}\\ud800"]`)).odd).toBe(true);
    expect(inspectJson(Buffer.from(`["${long}\\\\ud800"]`)).odd).toBe(false);
    expect(inspectJson(Buffer.from(`["${long}\\"${long}\\ud800"]`)).odd).toBe(true);
    expect(inspectJson(Buffer.from(`["${long}`)).depth).toBe(1);
  });

  test("of many escapes and many megabytes cost what they are long", () => {
    const bytes = Buffer.from(JSON.stringify([`${"a".repeat(2_000)}\\"`.repeat(5_000)]));
    const begun = performance.now();
    expect(inspectJson(bytes).depth).toBe(1);
    expect(performance.now() - begun).toBeLessThan(1_000);
  });
});
