import { describe, expect, test } from "bun:test";
import { NOWHERE, world } from "./world.ts";

const NONE = { trigger_config: { auth_config: { type: "none" } } };

describe("a trigger", () => {
  test("is made with defaults, a path of its own and a ready address", async () => {
    const { anAgent, call } = world();
    const agent = await anAgent();
    const { status, body } = await call("POST", `/agents/${agent}/triggers`, NONE);
    const { path } = body.trigger_config;
    expect(status).toBe(201);
    expect(path).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4/);
    expect(body).toEqual({
      id: expect.any(String),
      agent_id: agent,
      workspace_id: "w",
      project_id: "p",
      name: "Webhook trigger",
      description: "",
      trigger_type: "webhook",
      trigger_config: { path, method: null, auth_config: { type: "none" }, response_code: 202 },
      task_config: { message: "{{ event.body }}", conversation_id: null },
      is_active: true,
      url: `https://errand.example/api/agents/webhook/${path}/trigger`,
      previous_secret_until: null,
      created_at: "2026-01-01T00:00:00.000Z",
      updated_at: null,
    });
    expect((await call("GET", `/agents/triggers/${body.id}`)).body).toEqual(body);
  });

  test("is listed with its agent's others, oldest first, in pages", async () => {
    const { aTrigger, call } = world();
    const first = await aTrigger({ more: { name: "a" } });
    for (const name of ["b", "c"]) await aTrigger({ agent: first.agent_id, more: { name } });
    await aTrigger({ more: { name: "elsewhere" } });
    const page = await call("GET", `/agents/${first.agent_id}/triggers?limit=2`);
    expect(page.body.map(({ name }: { name: string }) => name)).toEqual(["a", "b"]);
    expect(page.headers.get("x-total-count")).toBe("3");
    expect(page.headers.get("link")).toContain("offset=2");
    for (const query of ["limit=0", "limit=1001", "limit=x", "offset=-1"])
      expect((await call("GET", `/agents/${first.agent_id}/triggers?${query}`)).status).toBe(400);
  });

  test("is changed in the fields that are sent, also within its parts; null goes back to the default", async () => {
    const { aTrigger } = world();
    const { put, record } = await aTrigger({
      auth: { type: "hmac", header: "X-Sig", algorithm: "sha512", secret: "s3cret" },
      config: { method: "POST", response_code: 200 },
      task: { message: "got {{ event.method }}", conversation_id: "{{ event.body.id }}" },
      more: { name: "n", description: "d" },
    });
    const { body } = await put({
      name: "m",
      trigger_config: { response_code: 204 },
      task_config: { message: "x" },
    });
    expect(body).toEqual({
      ...record,
      name: "m",
      trigger_config: { ...record.trigger_config, response_code: 204 },
      task_config: { message: "x", conversation_id: "{{ event.body.id }}" },
      updated_at: "2026-01-01T00:00:00.000Z",
    });
    const cleared = await put({
      description: null,
      trigger_config: { response_code: null, method: null },
      task_config: { message: null, conversation_id: null },
    });
    expect(cleared.body).toMatchObject({
      name: "m",
      description: "",
      trigger_config: { response_code: 202, method: null, auth_config: { algorithm: "sha512" } },
      task_config: { message: "{{ event.body }}", conversation_id: null },
    });
    await put({ task_config: { message: "x" } });
    expect((await put({ task_config: null })).body.task_config.message).toBe("{{ event.body }}");
  });

  test("that was read can be sent back as it is, and keeps its secret", async () => {
    const { aTrigger } = world();
    const { put, record, fire } = await aTrigger({ auth: { type: "bearer", token: "open-sesame" } });
    const { name, description, trigger_type, trigger_config, task_config, is_active } = record;
    const same = await put({ name, description, trigger_type, trigger_config, task_config, is_active });
    expect(same.status).toBe(200);
    expect(same.body.trigger_config).toEqual(trigger_config);
    const headers = { authorization: "Bearer open-sesame" };
    expect((await fire({ body: "a", type: "text/plain", headers })).status).toBe(202);
    const moved = await put({ trigger_config: { path: crypto.randomUUID() } });
    expect(moved.body.error.details).toMatchObject({ field: "trigger_config.path", received: "another" });
  });

  test("merges changes that arrive at once", async () => {
    const { aTrigger, call } = world();
    const { id, put } = await aTrigger();
    await Promise.all([
      put({ name: "a" }),
      put({ description: "b" }),
      put({ is_active: false }),
      put({ trigger_config: { method: "PUT" } }),
    ]);
    expect((await call("GET", `/agents/triggers/${id}`)).body).toMatchObject({
      name: "a",
      description: "b",
      is_active: false,
      trigger_config: { method: "PUT" },
    });
  });

  test("is gone with its events when it is deleted, and with its agent", async () => {
    const { aTrigger, call, storage } = world();
    const { id, agent_id, fire } = await aTrigger();
    const other = await aTrigger({ agent: agent_id });
    await fire();
    expect((await call("DELETE", `/agents/triggers/${id}`)).status).toBe(204);
    expect((await call("DELETE", `/agents/triggers/${id}`)).status).toBe(404);
    expect((await fire()).status).toBe(401);
    expect(storage.reader.all("SELECT * FROM trigger_events")).toEqual([]);
    await call("DELETE", `/agents/${agent_id}`).catch(() => {});
    expect((await call("GET", `/agents/triggers/${other.id}`)).status).toBe(200);
  });

  test("is out of reach for another project, and not there where its id is none", async () => {
    const { aTrigger, call, anAgent } = world();
    const { id, agent_id } = await aTrigger();
    const event = crypto.randomUUID();
    const addresses: [string, string, object?][] = [
      ["GET", `/agents/triggers/${id}`],
      ["PUT", `/agents/triggers/${id}`, {}],
      ["DELETE", `/agents/triggers/${id}`],
      ["POST", `/agents/triggers/${id}/rotate-secret`, {}],
      ["GET", `/agents/${agent_id}/triggers`],
      ["POST", `/agents/${agent_id}/triggers`, NONE],
      ["GET", `/agents/${agent_id}/triggers/${id}/events`],
      ["POST", `/agents/${agent_id}/triggers/${id}/events/${event}/redeliver`],
    ];
    for (const [method, path, body] of addresses) {
      expect([path, (await call(method, path, body, "other")).status]).toEqual([path, 403]);
      expect([path, (await call(method, path, body, "wrong")).status]).toEqual([path, 401]);
      for (const odd of [NOWHERE, "x", "%00", "'--"]) {
        const at = path.replaceAll(id, odd).replaceAll(agent_id, odd);
        expect([at, [400, 404].includes((await call(method, at, body)).status)]).toEqual([at, true]);
      }
    }
    const second = await anAgent();
    expect((await call("GET", `/agents/${second}/triggers/${id}/events`)).status).toBe(404);
  });
});

describe("what a trigger is made of", () => {
  test("is refused with the field named", async () => {
    const { anAgent, call, storage } = world();
    const agent = await anAgent();
    const auth = (auth_config: unknown) => ({ trigger_config: { auth_config } });
    const AUTH = "trigger_config.auth_config";
    const cases: [unknown, string][] = [
      [{}, "trigger_config"],
      [{ trigger_config: {} }, AUTH],
      [auth(null), AUTH],
      [auth("none"), AUTH],
      [auth([]), AUTH],
      [auth({}), `${AUTH}.type`],
      [auth({ type: "magic" }), `${AUTH}.type`],
      [auth({ type: ["none"] }), `${AUTH}.type`],
      [auth({ type: "none", token: "x" }), `${AUTH}.token`],
      [auth({ type: "bearer", token: "" }), `${AUTH}.token`],
      [auth({ type: "bearer", token: ["x"] }), `${AUTH}.token`],
      [auth({ type: "bearer", token: 7 }), `${AUTH}.token`],
      [auth({ type: "bearer", token: "two words" }), `${AUTH}.token`],
      [auth({ type: "bearer", token: "x".repeat(513) }), `${AUTH}.token`],
      [auth({ type: "basic", password: "x" }), `${AUTH}.username`],
      [auth({ type: "basic", username: "a:b", password: "x" }), `${AUTH}.username`],
      [auth({ type: "header", value: "x" }), `${AUTH}.name`],
      [auth({ type: "header", name: "Content-Length", value: "x" }), `${AUTH}.name`],
      [auth({ type: "header", name: "a b", value: "x" }), `${AUTH}.name`],
      [auth({ type: "header", name: "x", value: " x" }), `${AUTH}.value`],
      [auth({ type: "hmac", algorithm: "md5" }), `${AUTH}.algorithm`],
      [auth({ type: "hmac", tolerance_seconds: 0 }), `${AUTH}.tolerance_seconds`],
      [auth({ type: "hmac", secret: "" }), `${AUTH}.secret`],
      [auth({ type: "stripe" }), `${AUTH}.secret`],
      [auth({ type: "slack", secret: null }), `${AUTH}.secret`],
      [auth({ type: "shopify", secret: {} }), `${AUTH}.secret`],
      [auth({ type: "standard_webhooks", secret: "whsec_?" }), `${AUTH}.secret`],
      [auth({ type: "standard_webhooks", secret: "whsec_" }), `${AUTH}.secret`],
      [{ ...NONE, name: "" }, "name"],
      [{ ...NONE, is_active: "yes" }, "is_active"],
      [{ ...NONE, trigger_type: "cron" }, "trigger_type"],
      [{ ...NONE, project_id: "q" }, "project_id"],
      [{ trigger_config: { ...NONE.trigger_config, path: crypto.randomUUID() } }, "trigger_config.path"],
      [{ trigger_config: { ...NONE.trigger_config, response_code: 302 } }, "trigger_config.response_code"],
      [{ trigger_config: { ...NONE.trigger_config, response_code: 199 } }, "trigger_config.response_code"],
      [{ ...NONE, task_config: { message: "" } }, "task_config.message"],
      [{ ...NONE, task_config: { message: "{{ event.body" } }, "task_config.message"],
      [{ ...NONE, task_config: { message: "{{ body }}" } }, "task_config.message"],
      [{ ...NONE, task_config: { message: "{{ event.boddy.x }}" } }, "task_config.message"],
      [{ ...NONE, task_config: { message: "{% include 'x' %}" } }, "task_config.message"],
      [{ ...NONE, task_config: { message: "x", conversation_id: "{{ x }}" } }, "task_config.conversation_id"],
    ];
    for (const [body, field] of cases) {
      const answer = await call("POST", `/agents/${agent}/triggers`, body);
      const fields = (answer.body.error.faults ?? []).map((fault: { field: string }) => fault.field);
      expect([body, answer.status, answer.body.error.code]).toEqual([body, 400, "INVALID_INPUT"]);
      expect([body, fields]).toEqual([body, expect.arrayContaining([field])]);
    }
    expect(storage.reader.all("SELECT * FROM triggers")).toEqual([]);
  });
});

describe("a secret", () => {
  const given = {
    bearer: { token: "bearer-secret-1" },
    basic: { username: "ada", password: "basic-secret-2" },
    header: { name: "X-Key", value: "header-secret-3" },
    hmac: { secret: "hmac-secret-4" },
    standard_webhooks: { secret: `whsec_${Buffer.from("standard-secret-5").toString("base64")}` },
    github: { secret: "github-secret-6" },
    stripe: { secret: "whsec_stripe-secret-7" },
    slack: { secret: "slack-secret-8" },
    shopify: { secret: "shopify-secret-9" },
  };

  test("that is given is in no answer, no log and not in the database", async () => {
    const { aTrigger, call, storage, logged } = world();
    for (const [type, config] of Object.entries(given)) {
      const secret = Object.values(config).at(-1)!;
      const seen: string[] = [];
      const trigger = await aTrigger({ auth: { type, ...config } });
      seen.push(JSON.stringify(trigger.record));
      for (const body of [{ trigger_config: { auth_config: { type, ...config } } }, { name: "x" }])
        seen.push(JSON.stringify((await trigger.put(body)).body));
      const overlong = { trigger_config: { auth_config: { type, ...config, more: secret } } };
      seen.push((await trigger.put(overlong)).text);
      seen.push((await call("POST", `/agents/triggers/${trigger.id}/rotate-secret`, { secret })).text);
      seen.push((await call("GET", `/agents/${trigger.agent_id}/triggers`)).text);
      for (const table of ["triggers", "trigger_events"])
        seen.push(JSON.stringify(storage.reader.all(`SELECT * FROM ${table}`)));
      seen.push(logged());
      expect([type, seen.filter((text) => text.includes(secret))]).toEqual([type, []]);
    }
  });

  test("that is not given is made and shown once, where its sender does not issue it", async () => {
    const { aTrigger, call } = world();
    for (const [type, more] of Object.entries({
      bearer: {},
      basic: { username: "ada" },
      header: { name: "X-Key" },
      hmac: {},
      github: {},
      standard_webhooks: {},
    })) {
      const { id, secret } = await aTrigger({ auth: { type, ...more } });
      expect(secret.length).toBeGreaterThan(30);
      expect((await call("GET", `/agents/triggers/${id}`)).text).not.toContain(secret);
    }
  });

  test("does not go over to another type", async () => {
    const { aTrigger } = world();
    const { put } = await aTrigger({ auth: { type: "github", secret: "github-secret" } });
    const moved = await put({ trigger_config: { auth_config: { type: "stripe" } } });
    expect(moved.body.error.details.field).toBe("trigger_config.auth_config.secret");
    const open = await put({ trigger_config: { auth_config: { type: "none" } } });
    expect(open.body.trigger_config.auth_config).toEqual({ type: "none" });
  });
});
