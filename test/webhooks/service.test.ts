import { describe, expect, test } from "bun:test";
import { AppError } from "../../src/lib/errors.ts";
import { newId } from "../../src/lib/ids.ts";
import { CreateWebhook, UpdateWebhook, webhookFaults } from "../../src/webhooks/schema.ts";
import { verifyDelivery } from "../../src/webhooks/signature.ts";
import { setup } from "./setup.ts";

const url = "https://example.com/hook";

async function refusal(promise: Promise<unknown>): Promise<AppError> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof AppError) return error;
    throw error;
  }
  throw new Error("was not refused");
}

describe("a webhook record", () => {
  test("is created active, with its secret shown once and no credential", async () => {
    const { webhooks, caller, subscribe } = await setup();
    const { secret, ...record } = await subscribe({
      ...{ url, name: "Billing", events: ["workflow.execution.completed"] },
      ...{ authentication: { type: "bearer", token: "t0k" }, headers: { "X-Team": "blue" } },
    });
    expect(secret).toStartWith("whsec_");
    expect(record).toMatchObject({
      ...{ name: "Billing", url, events: ["workflow.execution.completed"], status: "active" },
      ...{ authentication: { type: "bearer" }, header_names: ["X-Team"], last_delivery: null },
      ...{ workspace_id: caller.workspace_id, project_id: caller.project_id },
      delivery_stats: { total_deliveries: 0, successful_deliveries: 0, failed_deliveries: 0 },
    });
    expect(await webhooks.get(caller, record.id)).toEqual(record);
    expect((await webhooks.list(caller, { limit: 100, offset: 0 })).items).toEqual([record]);
    expect(JSON.stringify(record)).not.toContain("t0k");
    expect(await webhooks.secret(caller, record.id)).toMatchObject({ secret, previous_secret: null });
  });

  test("keeps no secret readable in the database", async () => {
    const { storage, subscribe } = await setup();
    const { secret } = await subscribe({
      ...{
        url,
        authentication: { type: "basic", username: "a-long-user-name", password: "a-long-password" },
      },
      headers: { "X-Key-Name": "a-hidden-value" },
    });
    const stored = JSON.stringify(storage.reader.all("SELECT * FROM subscriptions"));
    for (const text of [
      secret,
      secret.slice(6),
      "a-long-user-name",
      "a-long-password",
      "a-hidden-value",
      "X-Key-Name",
    ])
      expect(stored).not.toContain(text);
  });

  test("is named after its host when no name is given", async () => {
    const { subscribe } = await setup();
    expect((await subscribe({ url: "https://example.com:8443/x" })).name).toBe("example.com:8443");
  });

  test("is named after as much of a long host as a name may have", async () => {
    const { subscribe } = await setup();
    const host = Array.from({ length: 4 }, () => "a".repeat(60)).join(".");
    const { name } = await subscribe({ url: `https://${host}/x` });
    expect([name.length, host.startsWith(name)]).toEqual([200, true]);
  });

  test("has each header once, whichever of its fields sets it", async () => {
    const { webhooks, caller, subscribe } = await setup();
    const fieldsOf = async (promise: Promise<unknown>) =>
      (await refusal(promise)).extra.faults?.map(({ field }) => field);
    const bearer = { authentication: { type: "bearer" as const, token: "t" } };
    expect(await fieldsOf(subscribe({ url, headers: { "X-A": "1", "x-a": "2" } }))).toEqual(["headers.x-a"]);
    expect(await fieldsOf(subscribe({ url, ...bearer, headers: { authorization: "x" } }))).toEqual([
      "headers.authorization",
    ]);
    const named = { authentication: { type: "header" as const, name: "X-Key", value: "k" } };
    expect(await fieldsOf(subscribe({ url, ...named, headers: { "x-key": "x" } }))).toEqual([
      "headers.x-key",
    ]);

    const { id } = await subscribe({ url, headers: { Authorization: "Own scheme" } });
    expect(await fieldsOf(webhooks.update(caller, id, bearer))).toEqual(["headers.Authorization"]);
    await webhooks.update(caller, id, { ...bearer, headers: null });
    const again = { headers: { Authorization: "Own scheme" } };
    expect(await fieldsOf(webhooks.update(caller, id, again))).toEqual(["headers.Authorization"]);
    expect((await webhooks.update(caller, id, { ...again, authentication: null })).header_names).toEqual([
      "Authorization",
    ]);
  });

  test("is changed field by field; null clears what is optional", async () => {
    const { webhooks, caller, subscribe } = await setup();
    const { id, secret } = await subscribe({
      ...{ url, conditions: { score: { lt: 2 } }, retry_policy: { max_retries: 2 } },
      ...{ authentication: { type: "bearer", token: "t" }, filters: { include_fields: ["a"] } },
    });
    const changed = await webhooks.update(caller, id, {
      url: `${url}/2`,
      conditions: null,
      authentication: null,
    });
    expect(changed).toMatchObject({
      ...{ url: `${url}/2`, conditions: null, authentication: { type: "none" } },
      ...{ retry_policy: { max_retries: 2 }, filters: { include_fields: ["a"] }, events: ["*"] },
    });
    expect(await webhooks.secret(caller, id)).toMatchObject({ secret });
  });

  test("is paused and resumed; a second pause keeps the first reason", async () => {
    const { webhooks, caller, subscribe } = await setup();
    const { id } = await subscribe({ url });
    const paused = await webhooks.pause(caller, id);
    expect(paused.status).toBe("paused");
    expect(await webhooks.pause(caller, id)).toEqual(paused);
    expect(await webhooks.resume(caller, id)).toMatchObject({ status: "active", status_reason: null });
  });

  test("is gone after its deletion", async () => {
    const { webhooks, caller, subscribe } = await setup();
    const { id } = await subscribe({ url });
    await webhooks.remove(caller, id);
    expect((await refusal(webhooks.get(caller, id))).code).toBe("not_found");
    expect((await refusal(webhooks.remove(caller, id))).code).toBe("not_found");
  });

  test("lists go by project, in pages", async () => {
    const { webhooks, caller, subscribe } = await setup();
    for (const name of ["a", "b", "c"]) await subscribe({ url, name });
    await subscribe({ url, name: "other" }, { ...caller, project_id: newId() });
    const page = await webhooks.list(caller, { limit: 2, offset: 1 });
    expect([page.items.map(({ name }) => name), page.total]).toEqual([["b", "c"], 3]);
  });
});

describe("scope", () => {
  test("every verb refuses another project's webhook, and knows no unknown one", async () => {
    const { webhooks, deliveries, replays, testSend, dryRun, alerts, caller, subscribe, emit } =
      await setup();
    const { id } = await subscribe({ url: "http://127.0.0.1:1/" });
    const [delivery] = await emit();
    const other = { ...caller, project_id: newId() };
    const verbs = (id: string) => [
      () => webhooks.get(other, id),
      () => webhooks.update(other, id, { name: "x" }),
      () => webhooks.remove(other, id),
      () => webhooks.secret(other, id),
      () => webhooks.pause(other, id),
      () => webhooks.resume(other, id),
      () => testSend(other, id, {}),
      () => dryRun(other, id, {}),
      () => alerts.list(other, id),
      () => deliveries.logs(other, id, { limit: 1, offset: 0 }),
      () => deliveries.stats(other, id, { hours: 1 }),
      () => deliveries.get(other, id, delivery!.id),
      () => replays.redeliver(other, id, delivery!.id),
      () => replays.replay(other, id, { since: "2020-01-01" }),
    ];
    for (const verb of verbs(id)) expect((await refusal(verb())).code).toBe("forbidden");
    for (const verb of verbs(newId())) expect((await refusal(verb())).code).toBe("not_found");
    for (const verb of verbs("nonsense")) expect((await refusal(verb())).code).toBe("not_found");
  });

  test("a delivery is found only under its own webhook", async () => {
    const { deliveries, replays, caller, subscribe, emit } = await setup();
    const one = await subscribe({ url: "http://127.0.0.1:1/", events: ["workflow.*"] });
    const two = await subscribe({ url, events: ["agent.*"] });
    const [delivery] = await emit();
    expect(await deliveries.get(caller, one.id, delivery!.id)).toMatchObject({ id: delivery!.id });
    expect((await refusal(deliveries.get(caller, two.id, delivery!.id))).code).toBe("not_found");
    expect((await refusal(replays.redeliver(caller, two.id, delivery!.id))).code).toBe("not_found");
  });
});

describe("bad input is refused with the field named", () => {
  const faults: [string, object, string][] = [
    ["an unknown field", { secret: "mine" }, "secret"],
    ["an unknown event", { events: ["workflow.execution.paused"] }, "events.0"],
    ["no events", { events: [] }, "events"],
    ["an empty name", { name: "" }, "name"],
    ["null for a name", { name: null }, "name"],
    ["max_retries out of range", { retry_policy: { max_retries: 7 } }, "retry_policy.max_retries"],
    ["an unknown retry setting", { retry_policy: { delay: 1 } }, "retry_policy.delay"],
    ["an unknown authentication", { authentication: { type: "oauth" } }, "authentication.type"],
    ["bearer without a token", { authentication: { type: "bearer" } }, "authentication.token"],
    [
      "basic with a token",
      { authentication: { type: "basic", username: "a", password: "b", token: "c" } },
      "authentication.token",
    ],
    [
      "a user name with a colon",
      { authentication: { type: "basic", username: "a:b", password: "c" } },
      "authentication.username",
    ],
    [
      "a reserved header for a credential",
      { authentication: { type: "header", name: "Host", value: "x" } },
      "authentication.name",
    ],
    [
      "a line break in a token",
      { authentication: { type: "bearer", token: "a\r\nb" } },
      "authentication.token",
    ],
    ["a reserved header", { headers: { "X-Service-Signature": "x" } }, "headers.X-Service-Signature"],
    ["a framing header", { headers: { "Transfer-Encoding": "chunked" } }, "headers.Transfer-Encoding"],
    ["a webhook- header", { headers: { "webhook-id": "x" } }, "headers.webhook-id"],
    ["a header name with a space", { headers: { "X A": "x" } }, "headers.X A"],
    ["a line break in a header", { headers: { "X-A": "a\nX-B: c" } }, "headers.X-A"],
    ["an unknown operator", { conditions: { score: { near: 3 } } }, "conditions.score.near"],
    ["an empty path", { filters: { include_fields: ["a..b"] } }, "filters.include_fields.0"],
    [
      "a batch of none",
      { batch_settings: { max_events: 0, max_wait_seconds: 1 } },
      "batch_settings.max_events",
    ],
  ];
  for (const [name, body, field] of faults) {
    test(name, () => {
      const found = [...UpdateWebhook.faults(body)];
      if (found.length === 0) found.push(...webhookFaults(body));
      expect(found.map((fault) => fault.field).join(" ")).toContain(
        field.startsWith("authentication.type") ? "authentication" : field,
      );
      expect(JSON.stringify(found)).not.toContain("a\\r\\nb");
    });
  }

  test("a create without url or events", () => {
    expect(CreateWebhook.faults({ events: ["*"] }).map(({ field }) => field)).toEqual(["url"]);
    expect(CreateWebhook.faults({ url }).map(({ field }) => field)).toEqual(["events"]);
    expect(CreateWebhook.faults({ url, events: ["*"] })).toEqual([]);
  });

  test("tells what is wrong inside an optional field, and not that it is no null either", () => {
    const batch_settings = { max_events: 0, max_wait_seconds: 5 };
    expect(CreateWebhook.faults({ url, events: ["*", "*"], batch_settings })).toEqual([
      { field: "events", expected: "each item once", received: "array of 2" },
      { field: "batch_settings.max_events", expected: "1 or more", received: "number" },
    ]);
    expect(CreateWebhook.faults({ url, events: ["*"], batch_settings: 5 })).toMatchObject([
      { field: "batch_settings", expected: "object or null" },
    ]);
  });

  test("a URL that is not public or not http", async () => {
    const { webhooks, caller } = await setup({ allow: [] });
    for (const url of [
      "http://127.0.0.1/",
      "http://169.254.169.254/",
      "ftp://example.com",
      "example.com",
      "http://a:b@c.com",
    ]) {
      const error = await refusal(webhooks.create(caller, { url, events: ["*"] }));
      expect([error.code, error.extra.faults?.[0]?.field]).toEqual(["invalid_input", "url"]);
    }
  });
});

test("what a receiver is told to check is what is sent", async () => {
  const { testSend, caller, subscribe } = await setup();
  const { id, secret } = await subscribe({ url: "http://127.0.0.1:1/" });
  const { sent } = await testSend(caller, id, { event: "workflow.step.completed" });
  const headers = Object.fromEntries(
    Object.entries(sent.headers).map(([name, value]) => [name.toLowerCase(), value]),
  );
  expect(verifyDelivery(secret, headers, sent.body, Date.UTC(2026, 0, 1))).toBe(true);
});

describe("a body with many mistakes", () => {
  test("is answered with all of them, of shape and of sense", async () => {
    const { webhooks, caller } = await setup();
    const body = {
      url: "http://10.0.0.1/",
      events: ["workflow.exploded"],
      concurrency: 0,
      rate_limit_per_second: 1.5,
      ordered: "yes",
      authentication: { type: "bearer" },
      headers: { Host: "x", "X-A": "a\nb" },
      conditions: { score: { near: 3 } },
      surprise: 1,
    } as never;
    const fields = ((await refusal(webhooks.create(caller, body))).extra.faults ?? []).map(
      ({ field }) => field,
    );
    for (const field of [
      ...["url", "events.0", "concurrency", "rate_limit_per_second", "ordered", "authentication.token"],
      ...["headers.Host", "headers.X-A", "conditions.score.near", "surprise"],
    ]) {
      expect(fields).toContain(field);
    }
  });

  test("is refused whatever it is", async () => {
    const { webhooks, caller, subscribe } = await setup();
    const { id } = await subscribe({ url });
    const bodies = [null, [], "x", 7, { url: null }, { url: {}, headers: [] }, { events: { 0: "*" } }];
    for (const body of bodies as never[]) {
      expect((await refusal(webhooks.create(caller, body))).code).toBe("invalid_input");
      expect((await refusal(webhooks.update(caller, id, body))).code).toBe("invalid_input");
    }
  });
});
