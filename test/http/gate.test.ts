import { afterAll, describe, expect, test } from "bun:test";
import { Elysia } from "elysia";
import { createGate, type GateDeps } from "../../src/http/gate.ts";
import { createMetrics } from "../../src/http/metrics.ts";
import { policies } from "../../src/http/policy.ts";
import { conflict } from "../../src/lib/errors.ts";
import { CALLER, JSON_TYPE, KEY, setup } from "./world.ts";

const world = setup();
afterAll(() => world.close());
const { ask, post, raw } = world;

type Failure = {
  success?: false;
  error: { code: string; message: string; request_id: string; details?: object };
};
const failure = async (response: Response) => (await response.json()) as Failure;

const line = (target: string, host = "Host: localhost\r\n", method = "GET") =>
  `${method} ${target} HTTP/1.1\r\n${host}Authorization: Bearer good\r\n\r\n`;

describe("request ids", () => {
  test("an incoming id of good form is kept", async () => {
    const answer = await ask("/health", { headers: { "x-request-id": "abc-123_x.y~z" } });
    expect(answer.headers.get("x-request-id")).toBe("abc-123_x.y~z");
  });

  test("a missing, malformed or endless id is replaced", async () => {
    for (const given of ["", "a b", 'a"b', "x".repeat(129)]) {
      const answer = await ask("/health", { headers: { "x-request-id": given } });
      expect(answer.headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
    }
  });

  test("an error carries the same id in header and body", async () => {
    const answer = await ask("/nowhere", { headers: { "x-request-id": "mine" } });
    expect((await failure(answer)).error.request_id).toBe("mine");
  });
});

describe("hosts and paths", () => {
  test("a host below four characters is refused: it would shift the path Elysia reads", async () => {
    const answer = await raw(line("/zzzz/things/1", "Host: x\r\n"));
    expect(answer.status).toBe(400);
    expect(JSON.parse(answer.body).error.details.field).toBe("host");
  });

  test("two hosts, a host with a blank or a path, and none at all are refused", async () => {
    for (const host of [
      "Host: abcd\r\nHost: efgh\r\n",
      "Host: ab cd\r\n",
      "Host: abcd/x\r\n",
      "Host: a@bcd\r\n",
      "Host: [::1]:port\r\n",
      "Host: [::1\r\n",
      "Host: ab:cd:ef\r\n",
    ]) {
      expect((await raw(line("/health", host))).status).toBe(400);
    }
    expect((await raw("GET /health HTTP/1.0\r\n\r\n")).status).toBe(400);
  });

  test("names, addresses and ports are hosts", async () => {
    for (const host of ["localhost", "errand.example:7070", "[::1]:7070", "a_b.example"]) {
      expect((await raw(line("/health", `Host: ${host}\r\n`))).status).toBe(200);
    }
  });

  test("a list answers a host that is no URL's: its links are made of the path", async () => {
    const answer = await raw(line("/things?limit=2", "Host: 127.0.0.1:99999\r\n"));
    expect(answer.status).toBe(200);
  });

  test("a path that is not canonical is refused", async () => {
    for (const target of [
      "//things/1",
      "/things//1",
      "/things/a%2fb",
      "/things/a%2Fb",
      "/things/a%5cb",
      "/things/a%00b",
      "/things/a%0d%0ab",
      "/things/a%7fb",
      "/things/a%zzb",
      "/things/a%",
      "/things/%ff",
      "/things/a%2e%2eb",
      "/things/a#b",
    ]) {
      const answer = await raw(line(target));
      expect([target, answer.status]).toEqual([target, 400]);
      expect(JSON.parse(answer.body).error.code).toBe("INVALID_INPUT");
    }
  });

  test("dot segments are resolved before the policy is read, so they cannot step around it", async () => {
    for (const target of ["/health/../things/1", "/health/%2e%2e/things/1", "/health\\..\\things\\1"]) {
      const answer = await raw(`GET ${target} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
      expect(answer.status).toBe(401);
    }
  });

  test("letters beyond ASCII and harmless escapes pass", async () => {
    const answer = await raw(line("/things/%C3%A9%20x"));
    expect(JSON.parse(answer.body).id).toBe("é x");
  });

  test("a query may hold what a path may not", async () => {
    expect((await raw(line("/things/1?a=..%2f%00//"))).status).toBe(200);
  });

  test("a trailing slash equals none", async () => {
    expect((await ask("/things/1/", { headers: KEY })).status).toBe(200);
    expect((await ask("/things/", { headers: KEY })).status).toBe(200);
    expect((await ask("/things", { headers: KEY })).status).toBe(200);
  });
});

describe("methods", () => {
  test("an unknown address answers 404, before any question of rights", async () => {
    const answer = await ask("/nowhere");
    expect(answer.status).toBe(404);
    expect((await failure(answer)).error.code).toBe("NOT_FOUND");
  });

  test("a wrong method answers 405 and says which are right", async () => {
    const answer = await ask("/things/1", { method: "PATCH" });
    expect(answer.status).toBe(405);
    expect(answer.headers.get("allow")).toBe("DELETE, GET, HEAD");
    expect((await failure(answer)).error.code).toBe("METHOD_NOT_ALLOWED");
  });

  test("TRACE and CONNECT are refused even where any method is taken", async () => {
    for (const method of ["TRACE", "CONNECT"]) {
      const answer = await raw(line("/hooks/any/p/trigger", undefined, method));
      expect(answer.status).toBe(405);
      expect(answer.head).toContain("allow: ");
    }
  });

  test("a route of any method sees the method it was called with", async () => {
    for (const method of ["GET", "POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"]) {
      const answer = await raw(
        `${method} /hooks/any/p/trigger HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n`,
      );
      expect(JSON.parse(answer.body).method).toBe(method);
    }
  });

  test("HEAD answers as GET does, its length included, without a body", async () => {
    const answer = await raw(line("/things/1", undefined, "HEAD"));
    const whole = await (await ask("/things/1", { headers: KEY })).text();
    expect(answer.head).toContain(`content-length: ${whole.length}`);
    expect([answer.status, answer.body]).toEqual([200, ""]);
    expect((await ask("/things/1", { method: "HEAD" })).status).toBe(401);
    expect((await ask("/nowhere", { method: "HEAD" })).status).toBe(404);
  });

  test("OPTIONS lists the methods and allows no other origin", async () => {
    const answer = await ask("/things/1", { method: "OPTIONS", headers: { origin: "https://evil.example" } });
    expect([answer.status, answer.headers.get("allow")]).toEqual([204, "DELETE, GET, HEAD"]);
    expect(answer.headers.get("access-control-allow-origin")).toBeNull();
  });
});

describe("credentials", () => {
  test("a good key reaches the handler as its caller; the scheme may be of any case", async () => {
    for (const authorization of ["Bearer good", "bearer good", "BEARER good"]) {
      const answer = await ask("/things/1", { headers: { authorization } });
      expect(await answer.json()).toEqual({ id: "1", caller: CALLER });
    }
  });

  test("anything but one bearer token is refused with the challenge", async () => {
    for (const authorization of [
      undefined,
      "",
      "good",
      "Bearer",
      "Bearergood",
      "BearerXgood",
      "Bearer  good",
      "Bearer good good",
      "Bearer good,Bearer good",
      "Basic Z29vZDo=",
      "Bearer bad",
      `Bearer ${"x".repeat(600)}`,
    ]) {
      const answer = await ask("/things/1", {
        headers: authorization === undefined ? {} : { authorization },
      });
      expect([authorization, answer.status]).toEqual([authorization, 401]);
      expect(answer.headers.get("www-authenticate")).toStartWith("Bearer");
    }
  });

  test("two Authorization headers are refused", async () => {
    const answer = await raw(
      "GET /things/1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer good\r\nAuthorization: Bearer good\r\n\r\n",
    );
    expect(answer.status).toBe(401);
  });

  test("a key in the query is no key", async () => {
    for (const name of ["access_token", "token", "bearer", ""]) {
      expect((await ask(`/things/1?${name}=good`)).status).toBe(401);
    }
  });

  test("a caller without a key learns nothing from validation", async () => {
    for (const body of ["{", "{}", '{"__proto__":1}', "x".repeat(100_000)]) {
      expect((await ask("/things", { method: "POST", body, headers: JSON_TYPE })).status).toBe(401);
    }
  });

  test("a request that reached the app without the gate meets the same door", async () => {
    const direct = (headers: Record<string, string>, query = "") =>
      world.app.handle(new Request(`http://localhost/things/1${query}`, { headers }));
    expect((await direct({})).status).toBe(401);
    expect((await direct({ authorization: "BearerXgood" })).status).toBe(401);
    expect((await direct({}, "?access_token=good")).status).toBe(401);
    expect((await direct({}, "?=good")).status).toBe(401);
    expect(await (await direct(KEY)).json()).toEqual({ id: "1", caller: CALLER });
  });
});

describe("answers", () => {
  test("every answer carries the security headers and names no server", async () => {
    for (const path of ["/health", "/nowhere", "/things/1", "/things/broken", "/openapi.json"]) {
      const { headers } = await ask(path);
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("referrer-policy")).toBe("no-referrer");
      expect(headers.get("cache-control")).toBe("no-store");
      expect(headers.get("server")).toBeNull();
      expect(headers.get("x-powered-by")).toBeNull();
      expect(headers.get("content-type")).not.toContain("html");
    }
  });

  test("a handler's own cache-control stands", async () => {
    expect((await ask("/things/late")).headers.get("cache-control")).toBe("max-age=60");
  });

  test("a bug answers 500 without a word of it, and is logged whole under the same id", async () => {
    const answer = await ask("/things/broken");
    expect(answer.status).toBe(500);
    const { error } = await failure(answer);
    expect(error).toEqual({
      code: "INTERNAL",
      message: "Internal server error.",
      request_id: error.request_id,
    });
    expect(world.logged()).toContain("a secret path: /etc/errand");
    expect(world.logged()).toContain(error.request_id);
    expect(world.logged()).not.toContain("erk_abcdefgh12345678");
  });

  test("an error of a hook says success false first", async () => {
    const text = await (await ask("/hooks/conflict")).text();
    expect(text).toStartWith('{"success":false,"error":{"code":"CONFLICT","message":"Already started."');
  });

  test("a wrong method on a hook's address says so too", async () => {
    const answer = await ask("/hooks/1", { method: "PUT" });
    expect([answer.status, (await failure(answer)).success]).toEqual([405, false]);
  });

  test("a body that does not fit names every field", async () => {
    const answer = await post("/things", '{"size":"big","extra":1}');
    expect(answer.status).toBe(400);
    const { error } = (await answer.json()) as { error: { details: object; faults: object[] } };
    expect(error.details).toEqual(error.faults[0]!);
    expect(error.faults).toContainEqual({ field: "name", expected: "a value", received: "nothing" });
    expect(error.faults).toContainEqual({ field: "size", expected: "integer", received: "string" });
    expect(error.faults).toContainEqual({ field: "extra", expected: "no such property", received: "number" });
  });

  test("a query that does not fit is refused the same way", async () => {
    const answer = await ask("/things?limit=0x10", { headers: KEY });
    expect((await failure(answer)).error.details).toEqual({
      field: "limit",
      expected: "integer",
      received: "string",
    });
  });

  test("a list tells its size and its neighbours", async () => {
    const { headers } = await ask("/things?limit=2&offset=2&search=a%22%3E", { headers: KEY });
    expect(headers.get("x-total-count")).toBe("7");
    const link = (rel: string, offset: number) =>
      `</things?limit=2&offset=${offset}&search=a%22%3E>; rel="${rel}"`;
    expect(headers.get("link")).toBe(
      [link("first", 0), link("prev", 0), link("next", 4), link("last", 6)].join(", "),
    );
  });

  test("201, 202 and 204 come from the answers' helpers", async () => {
    expect((await post("/things", '{"name":"a"}')).status).toBe(201);
    const started = await post("/hooks/1", '{"name":"a"}');
    expect([started.status, started.headers.get("idempotent-replay")]).toEqual([202, "true"]);
    const gone = await ask("/things/1", { method: "DELETE", headers: KEY });
    expect([gone.status, await gone.text()]).toEqual([204, ""]);
  });
});

describe("the webhooks' own address space", () => {
  test("says success false in every error, whatever stopped the request", async () => {
    const failures = [
      await raw(line("/webhooks/nowhere")),
      await raw(line("/webhooks/agents/1", "Host: x\r\n", "POST")),
      await raw(line("/webhooks/a%2fb")),
      await raw(line("/webhooks")),
    ].map(({ status, body }) => [status, JSON.parse(body).success]);
    expect(failures).toEqual([
      [404, false],
      [400, false],
      [400, false],
      [404, false],
    ]);
    expect((await failure(await ask("/nowhere"))).success).toBeUndefined();
  });
});

describe("states", () => {
  test("while draining all but health is 503 with Retry-After", async () => {
    const other = setup();
    try {
      other.setState("draining");
      const answer = await other.ask("/things/1", { headers: KEY });
      expect([answer.status, (await failure(answer)).error.code]).toEqual([503, "UNAVAILABLE"]);
      expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
      expect((await other.ask("/health")).status).toBe(200);
    } finally {
      await other.close();
    }
  });
});

describe("policies", () => {
  const gateOf = (app: Parameters<typeof createGate>[0]["app"]) =>
    createGate({
      app,
      authenticate: () => undefined,
      log: { debug() {}, info() {}, warn() {}, error() {} },
      metrics: createMetrics(),
      maxBodyBytes: 1,
    });

  test("an app with a route that states no policy does not start", () => {
    const app = new Elysia().use(policies).get("/open", () => "x");
    expect(() => gateOf(app)).toThrow("GET /open declares no policy");
  });

  test("every route of the test app states one", () => {
    expect(() => gateOf(world.app)).not.toThrow();
    for (const { hooks } of world.app.routes) {
      expect(["key", "public", "anonymous", "hook"]).toContain(
        (hooks.detail as Record<string, string>)["x-policy"]!,
      );
    }
  });
});

describe("a route that answers the gate itself", () => {
  const direct: GateDeps["direct"] = {
    "POST /hooks/:id": async (id, _request, { body }) => {
      if (id === "refuses") throw conflict("Not now.");
      if (id === "whole") return new Response("as it is", { status: 299 });
      return { status: 202, body: { id, body }, replayed: id === "again" };
    },
  };

  test("gets the last part of the path and the body the gate has read, and is dressed as every answer", async () => {
    const other = setup({ direct });
    try {
      const answer = await other.post("/hooks/a%20b/", '{"name":"x"}');
      expect([answer.status, await answer.json()]).toEqual([202, { id: "a b", body: { name: "x" } }]);
      expect(answer.headers.get("content-type")).toBe("application/json");
      expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
      expect(answer.headers.get("x-request-id")).toBeTruthy();
      expect(answer.headers.get("idempotent-replay")).toBeNull();
      const again = await other.post("/hooks/again", "{}");
      expect(again.headers.get("idempotent-replay")).toBe("true");
      const whole = await other.post("/hooks/whole", "{}");
      expect([whole.status, await whole.text()]).toEqual([299, "as it is"]);
      expect(whole.headers.get("x-content-type-options")).toBe("nosniff");
    } finally {
      await other.close();
    }
  });

  test("tells each of many that ask at once the name of its own request", async () => {
    const other = setup({ direct });
    try {
      const names = Array.from({ length: 20 }, (_, n) => `request-${n}`);
      const ask = (name: string) => other.post("/hooks/a", "{}", { "x-request-id": name });
      const answers = await Promise.all(names.map(ask));
      expect(answers.map(({ headers }) => headers.get("x-request-id"))).toEqual(names);
    } finally {
      await other.close();
    }
  });

  test("is refused and fails as every other", async () => {
    const other = setup({ direct });
    try {
      expect((await other.post("/hooks/a", "{")).status).toBe(400);
      const refused = await other.post("/hooks/refuses", "{}");
      expect([refused.status, (await failure(refused)).error.code]).toEqual([409, "CONFLICT"]);
      expect((await other.ask("/hooks/a", { method: "PUT" })).status).toBe(405);
    } finally {
      await other.close();
    }
  });
});
