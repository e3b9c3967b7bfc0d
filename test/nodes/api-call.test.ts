import { describe, expect, test } from "bun:test";
import { createEgress } from "../../src/egress/egress.ts";
import { apiCall } from "../../src/nodes/api-call.ts";
import { NodeError } from "../../src/nodes/node.ts";
import { runWith, server } from "./setup.ts";

async function call(config: object, run = runWith()) {
  try {
    return (await apiCall.run(config as never, run)) as {
      output: Record<string, unknown>;
      external_calls?: number;
    };
  } finally {
    run.close();
  }
}

async function failure(config: object, run = runWith()): Promise<NodeError> {
  try {
    await call(config, run);
  } catch (error) {
    if (error instanceof NodeError) return error;
    throw error;
  }
  throw new Error("it did not fail");
}

describe("api_call", () => {
  test("sends JSON with its idempotency key and gives on status, headers and parsed body", async () => {
    using receiver = server(() =>
      Response.json({ ok: [1] }, { status: 201, headers: { "x-a": "b", "set-cookie": "s=1" } }),
    );
    const { output, external_calls } = await call({
      url: `${receiver.url}/things?a=1`,
      method: "POST",
      headers: { Authorization: "Bearer t", "X-Number": 5 },
      query: { b: "x y", c: 2, d: null },
      body: { name: "Ada" },
    });
    expect(receiver.got[0]).toMatchObject({
      method: "POST",
      body: '{"name":"Ada"}',
      headers: {
        "content-type": "application/json",
        authorization: "Bearer t",
        "x-number": "5",
        "idempotency-key": "execution/0",
      },
    });
    expect(receiver.got[0]?.url.search).toBe("?a=1&b=x+y&c=2");
    expect(output).toMatchObject({ status: 201, body: { ok: [1] }, headers: { "x-a": "b" } });
    expect(output["headers"]).not.toHaveProperty("set-cookie");
    expect(output["duration_ms"]).toBeNumber();
    expect(JSON.stringify(output)).not.toContain("Bearer t");
    expect(external_calls).toBe(1);
  });

  test("sends text as it is and gives on text that is not JSON", async () => {
    using receiver = server(
      () => new Response("{broken", { headers: { "content-type": "application/json" } }),
    );
    const { output } = await call({
      url: receiver.url,
      method: "PUT",
      body: "plain",
      headers: { "Content-Type": "text/csv" },
    });
    expect(receiver.got[0]).toMatchObject({ body: "plain", headers: { "content-type": "text/csv" } });
    expect(output["body"]).toBe("{broken");
  });

  test.each([
    [500, true],
    [503, true],
    [429, true],
    [404, false],
    [400, false],
  ])("fails on %d, to be tried again: %p", async (status, retryable) => {
    using receiver = server(() => new Response("secret detail", { status }));
    expect(await failure({ url: receiver.url })).toMatchObject({
      code: "HTTP_STATUS",
      message: `The server answered ${status}.`,
      retryable,
    });
  });

  test("gives on a bad status where it was asked to", async () => {
    using receiver = server(() => new Response("no", { status: 404 }));
    expect((await call({ url: receiver.url, fail_on_status: false })).output).toMatchObject({
      status: 404,
      body: "no",
    });
  });

  test("follows redirects only where it was asked to", async () => {
    using receiver = server((request) =>
      request.url.endsWith("/new")
        ? new Response("here")
        : new Response(null, { status: 302, headers: { location: "/new" } }),
    );
    expect((await call({ url: receiver.url })).output).toMatchObject({ status: 302 });
    expect((await call({ url: receiver.url, follow_redirects: true })).output).toMatchObject({
      status: 200,
      body: "here",
    });
  });

  test("tells a fault of the network from a target it may not reach", async () => {
    const closed = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
    const url = `http://127.0.0.1:${closed.port}/`;
    closed.stop(true);
    expect(await failure({ url })).toMatchObject({ code: "CONNECTION_REFUSED", retryable: true });
    expect(await failure({ url }, runWith({ egress: createEgress() }))).toMatchObject({
      code: "BLOCKED",
      retryable: false,
    });
    expect(await failure({ url: "ftp://example.com" })).toMatchObject({ code: "BAD_URL", retryable: false });
    expect(await failure({ url: "nonsense", query: { a: 1 } })).toMatchObject({
      code: "BAD_URL",
      retryable: false,
    });
  });

  test("gives up when its time is over or the run is cancelled", async () => {
    using receiver = server(() => new Promise<Response>(() => {}));
    expect(await failure({ url: receiver.url, timeout_seconds: 0.02 })).toMatchObject({
      code: "TIMEOUT",
      retryable: true,
    });
    expect(await failure({ url: receiver.url }, runWith({ signal: AbortSignal.abort() }))).toMatchObject({
      code: "ABORTED",
      retryable: false,
    });
  });

  test("takes no answer over 5 MiB", async () => {
    using receiver = server(() => new Response("x".repeat(5 * 1024 * 1024 + 1)));
    expect(await failure({ url: receiver.url })).toMatchObject({
      code: "ANSWER_TOO_LARGE",
      retryable: false,
    });
  });

  test.each([{ "x\n": "a" }, { "x-a": "secret\r\nx-b: 1" }, { "x-a": "secret\u0100" }])(
    "does not send a header that is none, nor repeat its value",
    async (headers) => {
      const error = await failure({ url: "http://127.0.0.1:1/", headers });
      expect(error).toMatchObject({ code: "BAD_HEADER", retryable: false });
      expect(error.message).not.toContain("secret");
    },
  );

  test("checks its configuration once it is rendered", async () => {
    expect(await failure({ url: 5 })).toMatchObject({ code: "INVALID_CONFIG", retryable: false });
    expect(await failure({ url: "http://x.example", verb: "GET" })).toMatchObject({
      code: "INVALID_CONFIG",
      message: "verb: expected no such property, received string",
    });
  });

  test("sends forms, files and bytes", async () => {
    using receiver = server(() => new Response("ok"));
    const { url } = receiver;
    await call({
      url,
      method: "POST",
      body_type: "form",
      body: { a: "x y", b: [1, 2], c: null, d: { e: 1 } },
    });
    expect(receiver.got[0]).toMatchObject({
      body: "a=x+y&b=1&b=2&d=%7B%22e%22%3A1%7D",
      headers: { "content-type": "application/x-www-form-urlencoded" },
    });
    await call({ url, method: "POST", body_type: "json", body: "text" });
    expect(receiver.got[1]).toMatchObject({
      body: '"text"',
      headers: { "content-type": "application/json" },
    });
    await call({ url, method: "POST", body_type: "text", body: { a: 1 } });
    expect(receiver.got[2]).toMatchObject({
      body: '{"a":1}',
      headers: { "content-type": "text/plain; charset=utf-8" },
    });
    await call({
      url,
      method: "PUT",
      body_type: "base64",
      body: "aGk=",
      headers: { "Content-Type": "image/x" },
    });
    expect(receiver.got[3]).toMatchObject({ body: "hi", headers: { "content-type": "image/x" } });
  });

  test("sends a multipart form that others can read, whatever its names", async () => {
    let form: FormData | undefined;
    const running = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      async fetch(request) {
        form = await request.formData();
        return new Response("ok");
      },
    });
    const body = {
      plain: "h\u00e9",
      'odd"name\r\nX: 1': "v",
      file: { filename: "a.txt", content: "line\r\n", media_type: "text/plain" },
      bytes: { filename: "b.bin", content_base64: "AAH/" },
    };
    await call({ url: `http://127.0.0.1:${running.port}/`, method: "POST", body_type: "multipart", body });
    running.stop(true);
    expect(form?.get("plain")).toBe("h\u00e9");
    expect([...form!.keys()]).toHaveLength(4);
    const [file, bytes] = [form?.get("file"), form?.get("bytes")] as unknown as File[];
    expect([file!.name, await file!.text()]).toEqual(["a.txt", "line\r\n"]);
    expect([bytes!.name, Buffer.from(await bytes!.arrayBuffer()).toString("hex")]).toEqual([
      "b.bin",
      "0001ff",
    ]);
  });

  test.each([
    [{ body_type: "form", body: [1] }],
    [{ body_type: "multipart", body: "x" }],
    [{ body_type: "base64", body: "\u00e9" }],
  ])("does not send %j", async (config) => {
    expect(await failure({ url: "http://127.0.0.1:1/", method: "POST", ...config })).toMatchObject({
      code: "INVALID_CONFIG",
    });
  });

  test("a query takes lists, one parameter each", async () => {
    using receiver = server(() => new Response("ok"));
    await call({ url: receiver.url, query: { a: [1, "b"], c: true } });
    expect(receiver.got[0]?.url.search).toBe("?a=1&a=b&c=true");
  });

  const png = Buffer.from("89504e470d0a1a0a0000ff", "hex");
  test.each([
    ["auto", "image/png", png, { body: png.toString("base64"), encoding: "base64", media_type: "image/png" }],
    ["auto", "x/unheard-of", png, { body: png.toString("base64"), encoding: "base64" }],
    ["auto", "", "text", { body: "text", encoding: "text" }],
    ["auto", "application/problem+json; charset=utf-8", "{}", { body: {}, encoding: "json" }],
    ["auto", "image/svg+xml", "<svg/>", { body: "<svg/>", encoding: "text" }],
    [
      "auto",
      "text/plain; charset=latin1",
      Buffer.from("h\u00e9", "latin1"),
      { body: "h\u00e9", encoding: "text" },
    ],
    ["json", "text/plain", "[1]", { body: [1], encoding: "json" }],
    ["text", "application/json", "[1]", { body: "[1]", encoding: "text" }],
    ["base64", "application/json", "[1]", { body: "WzFd", encoding: "base64" }],
  ])("as %s of %p", async (response_type, type, body, expected) => {
    using receiver = server(
      () => new Response(body, { headers: type === "" ? {} : { "content-type": type } }),
    );
    expect((await call({ url: receiver.url, response_type })).output).toMatchObject(expected);
  });

  test("fails where JSON was asked for and something else came", async () => {
    using receiver = server(() => new Response("<html>"));
    expect(await failure({ url: receiver.url, response_type: "json" })).toMatchObject({
      code: "NOT_JSON",
      retryable: false,
    });
  });
});
