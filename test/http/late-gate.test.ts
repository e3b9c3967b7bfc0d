import { describe, expect, test } from "bun:test";
import { createLateGate } from "../../src/http/late-gate.ts";
import { createMetrics } from "../../src/http/metrics.ts";
import { notYet } from "../../src/http/not-yet.ts";

const quiet = { debug() {}, info() {}, warn() {}, error() {}, flush() {} };
const ask = (path: string, method = "GET") =>
  new Request(`http://localhost${path}`, { method, headers: { host: "localhost" } });

function setup(policy: string | undefined = "public") {
  let made = 0;
  const routes = async () => {
    made++;
    const hooks = { detail: { "x-policy": policy } };
    return {
      app: {
        routes: ["/thing", "/health"].map((path) => ({ method: "GET", path, hooks })),
        fetch: () => new Response("the app's"),
      },
    };
  };
  const faults: string[] = [];
  const metrics = createMetrics();
  const late = createLateGate({
    common: {
      authenticate: async () => undefined,
      log: quiet,
      metrics,
      maxBodyBytes: 1_000,
    },
    checks: [() => faults[0]],
    routes,
  });
  return { ...late, faults, metrics, made: () => made };
}

describe("before there are routes", () => {
  test("/health is answered, and none are made for it", async () => {
    const { gate, faults, made } = setup();
    const answer = await gate(ask("/health"));
    expect(answer.status).toBe(200);
    expect(answer.headers.get("x-request-id")).toBeTruthy();
    expect(await answer.json()).toEqual({ status: "ok" });
    expect((await gate(ask("/health", "HEAD"))).status).toBe(200);
    expect((await gate(ask("/health", "POST"))).status).toBe(405);
    faults.push("storage refuses writes");
    const bad = await gate(ask("/health"));
    expect(bad.status).toBe(503);
    expect(await bad.json()).toEqual({ status: "degraded", reason: "storage refuses writes" });
    expect(made()).toBe(0);
  });

  test("whoever wants one waits for them, and they are made once", async () => {
    const { gate, complete, made } = setup();
    const answers = await Promise.all([gate(ask("/thing")), gate(ask("/nothing")), gate(ask("/thing"))]);
    expect(answers.map(({ status }) => status)).toEqual([200, 404, 200]);
    await complete();
    expect(await (await gate(ask("/thing"))).text()).toBe("the app's");
    expect(made()).toBe(1);
  });

  test("what was asked of /health before and after is counted in one series", async () => {
    const { gate, complete, metrics } = setup();
    await gate(ask("/health"));
    await complete();
    await gate(ask("/health"));
    const counted = (await metrics.render())
      .split("\n")
      .filter((line) => line.startsWith('errand_http_requests_total{method="GET",route="/health"'));
    expect(counted).toEqual(['errand_http_requests_total{method="GET",route="/health",status="2xx"} 2']);
  });

  test("a route without a policy ends it", async () => {
    const { gate, complete } = setup("nobody's");
    await expect(complete()).rejects.toThrow("declares no policy");
    await expect(gate(ask("/thing"))).rejects.toThrow("declares no policy");
  });
});

describe("before there are services", () => {
  test("everybody is asked to come again, and a probe hears that it starts", async () => {
    const gate = notYet(quiet);
    const answer = await gate(ask("/api/agents"));
    expect(answer.status).toBe(503);
    expect(answer.headers.get("retry-after")).toBe("1");
    expect(await answer.json()).toMatchObject({
      error: { code: "UNAVAILABLE", message: "The service is starting." },
    });
    const probed = await gate(ask("/health"));
    expect(probed.status).toBe(503);
    expect(await probed.json()).toEqual({ status: "degraded", reason: "starting" });
  });

  test("a migration says which step it is at", async () => {
    const gate = notYet(quiet, { at: 2, of: 5 });
    expect((await gate(ask("/api/agents"))).headers.get("retry-after")).toBe("5");
    const probed = await gate(ask("/health"));
    expect(probed.headers.get("retry-after")).toBe("5");
    expect(await probed.json()).toEqual({
      status: "degraded",
      reason: "migrating the database, step 2 of 5",
    });
  });
});
