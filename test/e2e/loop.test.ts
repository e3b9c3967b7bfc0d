import { describe, expect, test } from "bun:test";
import { createHmac } from "node:crypto";
import { processDataStream } from "ai-v4";
import { Webhook } from "standardwebhooks";
import { type Delivered, eventually, receiver, world } from "./setup.ts";

const { errand, key, workspace } = await world();

const aWorkflow = async (nodes: object[], more: object = {}) =>
  (await errand.api<{ id: string }>("POST", `/api/workflows?${workspace}`, { name: "hello", nodes, ...more }))
    .body.id;

const greet = {
  node_type_name: "set_variables",
  name: "greet",
  input_config: { variables: { text: "Hello {{ name }}" } },
};

async function hookOf(type: "agents" | "workflows", id: string) {
  const made = await errand.api<{ token: string; url: string }>(
    "POST",
    `/api/${type}/${id}/webhook-tokens`,
    {},
  );
  expect(made.status).toBe(201);
  return { path: `/webhooks/${type}/${id}`, token: made.body.token, url: made.body.url };
}

describe("an agent", () => {
  test("streams to the ai 4 client, whose messages thread into one conversation", async () => {
    const agent = await errand.api<{ id: string }>("POST", `/api/agents?${workspace}`, {
      name: "Guide",
      system_prompt: "Be brief.",
    });
    expect(agent.status).toBe(201);
    const stream = () =>
      fetch(`${errand.url}/api/agents/${agent.body.id}/stream`, {
        method: "POST",
        headers: { authorization: `Bearer ${key.key}`, "content-type": "application/json" },
        body: JSON.stringify({ id: "chat-1", messages: [{ role: "user", content: "What can you do?" }] }),
      });
    const response = await stream();
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("text/plain; charset=utf-8");
    expect(response.headers.get("x-service-ai-data-stream")).toBe("v1");
    const seen = { text: "", starts: 0, steps: 0, finish: "" };
    await processDataStream({
      stream: response.body!,
      onTextPart(text) {
        seen.text += text;
      },
      onStartStepPart() {
        seen.starts++;
      },
      onFinishStepPart() {
        seen.steps++;
      },
      onFinishMessagePart({ finishReason }) {
        seen.finish = finishReason;
      },
    });
    expect(seen.text.length).toBeGreaterThan(10);
    expect(seen).toMatchObject({ starts: 1, steps: 1, finish: "stop" });
    await (await stream()).text();

    const conversations = await errand.api<{ id: string }[]>(
      "GET",
      `/api/agents/${agent.body.id}/conversations`,
    );
    expect(conversations.body).toHaveLength(1);
  });

  test("answers a webhook with a turn whose reply can be read", async () => {
    const agent = await errand.api<{ id: string }>("POST", `/api/agents?${workspace}`, { name: "Hooked" });
    const hook = await hookOf("agents", agent.body.id);
    const response = await fetch(`${errand.url}${hook.path}?token=${hook.token}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ message: "Hello", user_id: "u1" }),
    });
    expect(response.status).toBe(202);
    expect(await response.json()).toMatchObject({ success: true, status: "queued" });
    await eventually(
      () => errand.api<{ message_count: number }[]>("GET", `/api/agents/${agent.body.id}/conversations`),
      ({ body }) => body[0]?.message_count === 2,
    );
  });
});

describe("a workflow fired by webhook", () => {
  const target = receiver();
  let delivered: Delivered;
  let secret = "";

  test("runs, and its completion arrives signed", async () => {
    const id = await aWorkflow([greet], {
      input_schema: { properties: { name: { title: "Name", type: "string" } }, required: ["name"] },
      output_mapping: { greeting: "{{ greet.text }}" },
    });
    const subscription = await errand.api<{ id: string; secret: string }>("POST", "/api/v1/webhooks", {
      name: "done",
      url: target.url,
      events: ["workflow.execution.completed"],
      authentication: { type: "bearer", token: "let-me-in" },
    });
    expect(subscription.status).toBe(201);
    secret = subscription.body.secret;
    const hook = await hookOf("workflows", id);
    expect(hook.url).toContain(hook.path);

    const response = await fetch(`${errand.url}${hook.path}`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${hook.token}` },
      body: JSON.stringify({ input_data: { name: "Ada" }, trigger_source: "e2e" }),
    });
    expect(response.status).toBe(202);
    const accepted = (await response.json()) as { execution_id: string };
    expect(accepted).toMatchObject({ success: true, status: "queued" });

    delivered = await target.next();
    const envelope = JSON.parse(delivered.body);
    expect(envelope).toMatchObject({
      event: "workflow.execution.completed",
      webhook_id: subscription.body.id,
      data: {
        workflow_id: id,
        execution_id: accepted.execution_id,
        status: "success",
        input_data: { name: "Ada" },
        output_data: { greeting: "Hello Ada" },
        steps_completed: 1,
      },
    });
    expect(delivered.headers["authorization"]).toBe("Bearer let-me-in");

    const execution = await errand.api<{ status: string; steps: object[] }>(
      "GET",
      `/api/executions/${accepted.execution_id}`,
    );
    expect(execution.body).toMatchObject({
      status: "success",
      steps: [{ name: "greet", status: "success" }],
    });

    const logs = await eventually(
      () =>
        errand.api<{ logs: { status: string }[] }>("GET", `/api/v1/webhooks/${subscription.body.id}/logs`),
      ({ body }) => body.logs[0]?.status === "success",
    );
    expect(logs.body.logs[0]).toMatchObject({
      event: "workflow.execution.completed",
      response_code: 204,
      attempts: 1,
    });
  });

  test("is verified by the standardwebhooks library", () => {
    expect(new Webhook(secret).verify(delivered.body, delivered.headers)).toMatchObject({
      event: "workflow.execution.completed",
    });
    expect(() => new Webhook(secret).verify(`${delivered.body} `, delivered.headers)).toThrow();
  });

  test("is verified by a receiver that reads X-Service-Signature alone", () => {
    const digest = createHmac("sha256", secret).update(delivered.body).digest("hex");
    expect(delivered.headers["x-service-signature"]).toBe(`sha256=${digest}`);
  });
});

describe("an incoming webhook", () => {
  test("takes the token by query, bearer or basic, and refuses every other", async () => {
    const id = await aWorkflow([greet]);
    const { path, token } = await hookOf("workflows", id);
    const fire = async (query: string, authorization?: string) =>
      (
        await fetch(`${errand.url}${path}${query}`, {
          method: "POST",
          headers: { "content-type": "application/json", ...(authorization ? { authorization } : {}) },
          body: JSON.stringify({ input_data: { name: "x" } }),
        })
      ).status;
    expect(await fire(`?token=${token}`)).toBe(202);
    expect(await fire("", `Bearer ${token}`)).toBe(202);
    expect(await fire("", `Basic ${btoa(`any:${token}`)}`)).toBe(202);
    expect(await fire("")).toBe(401);
    expect(await fire("?token=wrong")).toBe(401);
    expect(await fire(`?token=${token}`, "Bearer wrong")).toBe(401);
  });

  test("names the fault of a body that does not fit", async () => {
    const agent = await errand.api<{ id: string }>("POST", `/api/agents?${workspace}`, { name: "A" });
    const { path, token } = await hookOf("agents", agent.body.id);
    const response = await fetch(`${errand.url}${path}?token=${token}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ user_id: "u" }),
    });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      success: false,
      error: { code: "INVALID_INPUT", details: { field: "message", received: "nothing" } },
    });
  });

  test("repeats its first answer for a repeated Idempotency-Key", async () => {
    const id = await aWorkflow([greet]);
    const { path, token } = await hookOf("workflows", id);
    const fire = (body: object) =>
      fetch(`${errand.url}${path}?token=${token}`, {
        method: "POST",
        headers: { "content-type": "application/json", "idempotency-key": "once" },
        body: JSON.stringify(body),
      });
    const first = await fire({ input_data: { name: "x" } });
    const again = await fire({ input_data: { name: "x" } });
    expect(await again.json()).toEqual(await first.json());
    expect(again.headers.get("idempotent-replay")).toBe("true");
    expect((await fire({ input_data: { name: "y" } })).status).toBe(409);
    const list = await errand.api<object[]>("GET", `/api/workflows/${id}/executions`);
    expect(list.body).toHaveLength(1);
  });
});

describe("a delivery", () => {
  test("that fails is due again one minute later and says so in the log", async () => {
    const failing = receiver(() => new Response("no", { status: 500 }));
    const subscription = await errand.api<{ id: string }>("POST", "/api/v1/webhooks", {
      name: "failing",
      url: failing.url,
      events: ["workflow.execution.completed"],
    });
    const id = await aWorkflow([greet]);
    await errand.api("POST", `/api/workflows/${id}/executions`, { input_data: { name: "x" } });
    await failing.next();
    const logs = await eventually(
      () =>
        errand.api<{ logs: { attempts: number; response_code: number; next_attempt_at: string }[] }>(
          "GET",
          `/api/v1/webhooks/${subscription.body.id}/logs`,
        ),
      ({ body }) => body.logs[0]?.attempts === 1,
    );
    const entry = logs.body.logs[0]!;
    expect(entry.response_code).toBe(500);
    const wait = Date.parse(entry.next_attempt_at) - Date.now();
    expect(wait).toBeGreaterThan(55_000);
    expect(wait).toBeLessThan(67_000);
    await errand.api("DELETE", `/api/v1/webhooks/${subscription.body.id}`);
  });
});
