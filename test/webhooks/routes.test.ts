import { describe, expect, test } from "bun:test";
import { Elysia } from "elysia";
import { RequestContext, remember } from "../../src/http/context.ts";
import { egressIpRoutes, webhookRoutes } from "../../src/webhooks/routes.ts";
import { receiver, setup } from "./setup.ts";

/** The routes as the server mounts them, for one key. */
async function api() {
  const world = await setup();
  const app = new Elysia({ normalize: false })
    .state("authenticate", async (token: string) => (token === "k" ? world.caller : undefined))
    .group("/api/v1", (management) => management.use(webhookRoutes(world)))
    .use(egressIpRoutes({ egress_ips: ["192.0.2.7"] }));
  async function call(method: string, path: string, body?: unknown, key = "k") {
    const request = new Request(`http://localhost/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, ...(body ? { "content-type": "application/json" } : {}) },
      body: body ? JSON.stringify(body) : undefined,
    });
    remember(request, new RequestContext("r", 0, request, undefined, () => ""));
    const response = await app.handle(request);
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      body: text.startsWith("{") ? JSON.parse(text) : text,
    };
  }
  return { ...world, app, call };
}

describe("the management API", () => {
  test("creates, lists, reads, changes and deletes", async () => {
    const { call } = await api();
    const sent = {
      name: "n",
      url: "https://example.com/h",
      events: ["agent.*"],
      authentication: { type: "bearer", token: "t" },
    };
    const created = await call("POST", "/webhooks", sent);
    expect([created.status, created.body.secret]).toEqual([201, expect.stringMatching(/^whsec_/)]);
    const { secret: _, ...record } = created.body;
    const list = await call("GET", "/webhooks");
    expect([list.status, list.body]).toEqual([200, { webhooks: [record] }]);
    expect(list.headers.get("x-total-count")).toBe("1");
    const path = `/webhooks/${record.id}`;
    expect((await call("GET", path)).body).toEqual(record);
    expect((await call("PUT", path, { events: ["*"] })).body).toMatchObject({ events: ["*"], name: "n" });
    expect((await call("GET", `${path}/secret`)).body).toEqual({
      secret: created.body.secret,
      ...{ previous_secret: null, previous_secret_until: null },
    });
    const rotated = await call("POST", `${path}/secret/rotate?overlap_seconds=60`);
    expect(rotated.body).toMatchObject({ previous_secret: created.body.secret });
    expect((await call("POST", `${path}/pause`)).body.status).toBe("paused");
    expect((await call("POST", `${path}/resume`)).body.status).toBe("active");
    const deleted = await call("DELETE", path);
    expect([deleted.status, deleted.body]).toEqual([204, ""]);
  });

  test("tests, logs, measures, reads and redelivers", async () => {
    const { call, emit, idle, close } = await api();
    const { url, close: closeReceiver } = receiver();
    const { id } = (await call("POST", "/webhooks", { url, events: ["*"] })).body;
    const path = `/webhooks/${id}`;
    expect(
      (await call("POST", `${path}/test`, { event: "agent.message.sent", test_data: { a: 1 } })).body.success,
    ).toBe(true);
    const [delivery] = await emit();
    await idle();
    const { logs } = (await call("GET", `${path}/logs?limit=10&status=success`)).body;
    expect(logs).toHaveLength(1);
    expect(Object.keys(logs[0])).toEqual(
      expect.arrayContaining([
        "id",
        "timestamp",
        "event",
        "status",
        "response_code",
        "response_time_ms",
        "attempts",
        "payload_size",
      ]),
    );
    expect((await call("GET", `${path}/stats`)).body).toMatchObject({ total_deliveries: 1, success_rate: 1 });
    expect((await call("GET", `${path}/deliveries/${delivery!.id}`)).body.history).toHaveLength(1);
    expect((await call("POST", `${path}/deliveries/${delivery!.id}/redeliver`)).status).toBe(202);
    await idle();
    const replayed = await call("POST", `${path}/replay`, { since: "2020-01-01", status: "success" });
    expect([replayed.status, replayed.body]).toEqual([
      202,
      { webhook_id: id, replayed: 1, next_since: null },
    ]);
    await idle();
    expect((await call("GET", `${path}/logs`)).body.logs).toHaveLength(3);
    close();
    closeReceiver();
  });

  test("demands a key on every route but the source addresses", async () => {
    const { app, call } = await api();
    for (const { method, path } of app.routes) {
      if (path === "/egress-ips") continue;
      const answer = await call(
        method,
        path.replace("/api/v1", "").replaceAll(/:\w+/g, "x"),
        method === "PUT" || path.endsWith("/test") ? {} : undefined,
        "wrong",
      );
      expect([path, answer.status === 200 || answer.status === 201]).toEqual([path, false]);
    }
    const response = await app.handle(new Request("http://localhost/egress-ips"));
    expect(await response.json()).toEqual({ egress_ips: ["192.0.2.7"] });
  });
});
