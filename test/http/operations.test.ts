import { describe, expect, test } from "bun:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import { Elysia } from "elysia";
import fc from "fast-check";
import { ListenError, listen } from "../../src/http/listen.ts";
import { createMetrics, processGauges } from "../../src/http/metrics.ts";
import { openapiDocument } from "../../src/http/openapi.ts";
import { policies } from "../../src/http/policy.ts";
import { type Route, Router } from "../../src/http/routes.ts";
import { JSON_TYPE, KEY, raw, setup } from "./world.ts";

const quiet = { debug() {}, info() {}, warn() {}, error() {} };

async function within(
  options: Parameters<typeof setup>[0],
  run: (world: ReturnType<typeof setup>) => Promise<void>,
) {
  const world = setup(options);
  try {
    await run(world);
  } finally {
    await world.close();
  }
}

describe("health", () => {
  test("ok is small and public", () =>
    within({ checks: [() => undefined, async () => undefined] }, async ({ ask }) => {
      const answer = await ask("/health");
      expect([answer.status, await answer.text()]).toEqual([200, '{"status":"ok"}']);
    }));

  test("the first complaint is the reason, and a check that breaks is one", () =>
    within({ checks: [() => undefined, () => "disk_full", () => "later"] }, async ({ ask }) => {
      const answer = await ask("/health");
      expect([answer.status, await answer.json()]).toEqual([
        503,
        { status: "degraded", reason: "disk_full" },
      ]);
    }).then(() =>
      within({ checks: [() => Promise.reject(new Error("secret"))] }, async ({ ask }) => {
        const answer = await ask("/health");
        expect([answer.status, await answer.json()]).toEqual([
          503,
          { status: "degraded", reason: "a health check failed" },
        ]);
      }),
    ));
});

describe("metrics", () => {
  test("requests are counted by method, route template and class of status", () =>
    within({}, async ({ ask }) => {
      await ask("/things/1", { headers: KEY });
      await ask("/things/2", { headers: KEY });
      await ask("/things/3");
      await ask("/secret-looking-path");
      const page = await (await ask("/metrics")).text();
      const name = "errand_http_requests_total";
      expect(page).toContain(`# TYPE ${name} counter`);
      expect(page).toContain(`${name}{method="GET",route="/things/:id",status="2xx"} 2`);
      expect(page).toContain(`${name}{method="GET",route="/things/:id",status="4xx"} 1`);
      expect(page).toContain(`${name}{method="GET",route="unmatched",status="4xx"} 1`);
      expect(page).not.toContain("secret-looking");
      expect(page).toContain(
        'errand_http_request_duration_seconds_count{method="GET",route="/things/:id"} 3',
      );
    }));

  test("a histogram counts each request in its bucket and all wider ones", async () => {
    const metrics = createMetrics("x");
    for (const seconds of [0.0005, 0.02, 100]) metrics.observe(undefined, "GET", 200, seconds);
    const page = await metrics.render();
    const bucket = (bound: string) =>
      Number(new RegExp(`_bucket\\{[^}]*le="${bound.replace("+", "\\+")}"\\} (\\d+)`).exec(page)?.[1]);
    expect(["0.001", "0.01", "0.025", "30", "+Inf"].map(bucket)).toEqual([1, 1, 2, 2, 3]);
  });

  test("methods nobody knows share one label", async () => {
    const metrics = createMetrics();
    for (let i = 0; i < 50; i++) metrics.observe(undefined, `M${i}`, 405, 0);
    expect((await metrics.render()).match(/requests_total\{/g)).toHaveLength(1);
  });

  test("gauges are read when asked; one that breaks or is absent costs the page nothing", async () => {
    const metrics = createMetrics();
    metrics.gauge("jobs", "Jobs.", () => [{ labels: { lane: 'a"b' }, value: 3 }]);
    metrics.gauge("absent", "Absent.", () => undefined);
    metrics.gauge("broken", "Broken.", () => {
      throw new Error("no");
    });
    processGauges(metrics, 0, () => 5_000);
    const page = await metrics.render();
    expect(page).toContain('errand_jobs{lane="a\\"b"} 3');
    expect(page).toContain("errand_process_uptime_seconds 5");
    expect(page).toMatch(/errand_process_resident_memory_bytes \d+/);
    expect(page).not.toMatch(/absent|broken/);
    for (const line of page.trimEnd().split("\n"))
      expect(line).toMatch(/^(# (HELP|TYPE) \w+ .+|\w+(\{.*\})? [\d.e+-]+)$/);
  });

  test("the page needs a key where it is told so", () =>
    within({ metricsPolicy: "key" }, async ({ ask }) => {
      expect((await ask("/metrics")).status).toBe(401);
      const answer = await ask("/metrics", { headers: KEY });
      expect(answer.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
    }));
});

describe("access log", () => {
  test("one line an answer, without query, body, key or the path of a secret address", () =>
    within({ accessLog: true }, async ({ ask, post, logged }) => {
      await ask("/things/1?token=hidden-query", { headers: { ...KEY, "x-request-id": "r1" } });
      await post("/things", '{"name":"hidden-body"}');
      await ask("/hooks/any/hidden-path/trigger", { method: "POST", body: '"x"', headers: JSON_TYPE });
      await ask("/nowhere", { headers: { authorization: "Bearer hidden-token" } });
      const lines = logged().trimEnd().split("\n");
      expect(lines).toHaveLength(4);
      expect(JSON.parse(lines[0]!)).toEqual({
        time: "2026-01-01T00:00:00.000Z",
        level: "info",
        message: "request",
        request_id: "r1",
        method: "GET",
        path: "/things/1",
        route: "/things/:id",
        status: 200,
        ms: expect.any(Number),
        ip: "127.0.0.1",
        bytes: 0,
        key_id: "k1",
      });
      expect(JSON.parse(lines[1]!)).toMatchObject({ status: 201, bytes: 22 });
      expect(JSON.parse(lines[2]!).path).toBe("/hooks/any/:path/trigger");
      expect(lines.join("")).not.toMatch(/hidden|good/);
    }));
});

describe("openapi", () => {
  test("names the address that is known when it is first asked for", () => {
    let address = "http://localhost:0";
    const app = new Elysia().use(policies).get("/", () => "", { policy: "public" });
    const document = openapiDocument(() => app, { title: "t", version: "1", url: () => address });
    address = "http://localhost:7070";
    expect(document().servers).toEqual([{ url: address }]);
  });

  test("the document is valid OpenAPI 3.1", () =>
    within({}, async ({ ask }) => {
      const document = (await (await ask("/openapi.json")).json()) as Record<string, unknown>;
      const result = await new Validator().validate(structuredClone(document));
      expect(result).toMatchObject({ valid: true });
      expect(document["openapi"]).toBe("3.1.1");
    }));

  test("every route is in it, with its credentials, parameters, body and refusals", () =>
    within({}, async ({ app, openapi }) => {
      const { paths } = openapi();
      for (const { method, path } of app.routes) {
        const named = (path === "/" ? path : path.replace(/\/$/, "")).replace(/:(\w+)/g, "{$1}");
        expect([named, Object.keys(paths[named] ?? {})]).toEqual([
          named,
          expect.arrayContaining([method === "ALL" ? "post" : method.toLowerCase()]),
        ]);
      }
      const create = paths["/things"]!["post"]!;
      expect(create.requestBody?.content["application/json"]?.schema).toMatchObject({ required: ["name"] });
      expect(Object.keys(create.responses ?? {})).toEqual(
        expect.arrayContaining(["400", "401", "413", "415"]),
      );
      expect(paths["/things"]!.get!.parameters).toMatchObject([
        { name: "limit", in: "query", required: false },
        { name: "offset", in: "query", required: false },
      ]);
      expect(paths["/things/{id}"]!["get"]!.parameters).toMatchObject([
        { name: "id", in: "path", required: true },
      ]);
      expect(paths["/hooks/text"]!["post"]!.parameters).toMatchObject([{ name: "wait", in: "query" }]);
      expect(paths["/hooks/{id}"]!["post"]!.security).toHaveLength(3);
      expect(paths["/health"]!["get"]!.security).toEqual([]);
    }));

  test("operation ids are all different", () =>
    within({}, async ({ openapi }) => {
      const ids = Object.values(openapi().paths).flatMap((path) =>
        Object.values(path).map((one) => one.operationId),
      );
      expect(new Set(ids).size).toBe(ids.length);
      expect(ids).toContain("getThingsById");
    }));

  test("the document is made once", () =>
    within({}, async ({ openapi }) => expect(openapi()).toBe(openapi())));
});

describe("listening", () => {
  test("a port in use is a typed error", () =>
    within({}, async ({ server }) => {
      const again = () =>
        listen({ gate: async () => new Response(), hostname: "127.0.0.1", port: server.port, log: quiet });
      expect(again).toThrow(ListenError);
      expect(again).toThrow(`cannot listen on 127.0.0.1:${server.port}: the port is in use`);
    }));

  test("an address this machine does not have is a typed error", () => {
    const listening = () =>
      listen({ gate: async () => new Response(), hostname: "192.0.2.1", port: 0, log: quiet });
    expect(listening).toThrow(ListenError);
  });

  test("what escapes the gate is answered as JSON, never as a page", async () => {
    const gate = () => Promise.reject(new Error("<b>secret</b>"));
    const server = listen({ gate, hostname: "127.0.0.1", port: 0, log: quiet });
    const answer = await raw(server.port, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await server.stop(true);
    expect([answer.status, JSON.parse(answer.body).error.code]).toEqual([500, "INTERNAL"]);
    expect(answer.body).not.toContain("secret");
  });
});

describe("router", () => {
  const route = (method: string, template: string): Route => ({
    method,
    template,
    policy: "public",
    takesBody: false,
    media: [],
    exempt: false,
    secretPath: false,
    maxBody: 0,
  });
  const routes = [
    route("GET", "/agents"),
    route("GET", "/agents/:id"),
    route("GET", "/agents/anonymous/:id"),
    route("POST", "/agents/:id/stream"),
    route("GET", "/agents/:id/triggers/:trigger_id"),
    route("ALL", "/agents/webhook/:path/trigger"),
    route("GET", "/files/*"),
  ];
  const router = new Router(routes);
  const found = (method: string, path: string) => router.match(method, path).route?.template;

  test("fixed segments go before parameters, and a dead end is walked back", () => {
    expect(found("GET", "/agents/1")).toBe("/agents/:id");
    expect(found("GET", "/agents/anonymous")).toBe("/agents/:id");
    expect(found("GET", "/agents/anonymous/1")).toBe("/agents/anonymous/:id");
    expect(found("POST", "/agents/anonymous/stream")).toBe("/agents/:id/stream");
    expect(found("GET", "/agents/anonymous/triggers/1")).toBe("/agents/:id/triggers/:trigger_id");
    expect(found("DELETE", "/agents/webhook/x/trigger")).toBe("/agents/webhook/:path/trigger");
    expect(found("GET", "/files/a/b/c")).toBe("/files/*");
    expect(found("GET", "/agents/1/2")).toBeUndefined();
    expect(found("GET", "/")).toBeUndefined();
  });

  test("it finds what Elysia finds, on any path", () => {
    const app = new Elysia();
    for (const { method, template } of routes) app.route(method, template, () => template);
    const part = fc.constantFrom(
      "agents",
      "anonymous",
      "webhook",
      "triggers",
      "trigger",
      "stream",
      "files",
      "1",
    );
    return fc.assert(
      fc.asyncProperty(
        fc.constantFrom("GET", "POST", "PUT"),
        fc.array(part, { maxLength: 5 }),
        async (method, parts) => {
          const path = `/${parts.join("/")}`;
          const answer = await app.handle(new Request(`http://localhost${path}`, { method }));
          expect([path, found(method, path)]).toEqual([
            path,
            answer.status === 404 ? undefined : await answer.text(),
          ]);
        },
      ),
      { numRuns: 500 },
    );
  });

  test("optional parameters stop the start", () => {
    expect(() => new Router([route("GET", "/a/:id?")])).toThrow("optional");
  });
});
