import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { smtpServer } from "../mail/server.ts";
import { eventually, receiver, world } from "./setup.ts";

const CANARY = "canary-token-7f3a";
const mailbox = await smtpServer();
const { errand, workspace } = await world({
  env: { ERRAND_SMTP_URL: mailbox.url, ERRAND_LOG_LEVEL: "debug" },
});

test("a workflow reads a page with a named credential, sorts what it found and mails it; the credential stays unseen", async () => {
  const seen: string[] = [];
  const shop = receiver(({ headers }) => {
    seen.push(headers["authorization"] ?? "");
    return Response.json({
      you_sent: headers["authorization"],
      orders: [
        { id: 1, total: 20 },
        { id: 2, total: 30 },
      ],
    });
  });
  const api = errand.api<{ id: string }>;
  const made = await api("POST", `/api/connections?${workspace}`, {
    name: "shop",
    type: "bearer",
    config: { token: CANARY },
  });
  expect(made.status).toBe(201);
  const node = (node_type_name: string, name: string, input_config: object) => ({
    node_type_name,
    name,
    input_config,
  });
  const workflow = await api("POST", `/api/workflows?${workspace}`, {
    name: "Report",
    nodes: [
      node("api_call", "orders", { url: shop.url, connection: "shop" }),
      node("list_operations", "dear", {
        list: "{{ orders.body.orders }}",
        operations: [{ operation: "filter", where: { total: { gt: 25 } } }],
        summary: { sum: { function: "sum", field: "total" } },
      }),
      node("send_email", "mail", {
        to: "ada@example.org",
        subject: "{{ dear.count }} orders, {{ dear.summary.sum }}",
        text: "{% for order in dear.items %}#{{ order.id }}{% endfor %}",
      }),
    ],
  });
  expect(workflow.status).toBe(201);
  const run = await errand.api<{ id: string; execution_id: string }>(
    "POST",
    `/api/workflows/${workflow.body.id}/executions`,
    { input_data: {} },
  );
  const path = `/api/executions/${run.body.execution_id ?? run.body.id}`;
  const ended = await eventually(
    async () => (await errand.api<{ status: string; error: unknown }>("GET", path)).body,
    ({ status }) => status === "success" || status === "failed",
  );
  expect(ended).toMatchObject({ status: "success" });
  expect(seen).toEqual([`Bearer ${CANARY}`]);
  expect(mailbox.received[0]).toMatchObject({ from: "errand@127.0.0.1", to: ["ada@example.org"] });
  expect(mailbox.received[0]?.raw).toContain("Subject: 1 orders, 30");
  const shown = [
    ended,
    (await errand.api("GET", "/api/connections")).body,
    (await errand.api("PUT", `/api/connections/${made.body.id}`, { name: "other" })).body,
    (await errand.command("connections", "show", "other", "--json")).stdout,
    errand.output(),
  ];
  expect(JSON.stringify(shown)).not.toContain(CANARY);
  const files = readdirSync(errand.data, { recursive: true, withFileTypes: true }).filter((file) =>
    file.isFile(),
  );
  for (const file of files)
    expect(readFileSync(join(file.parentPath, file.name)).includes(CANARY)).toBe(false);
});

test("what is no connection is refused in words", async () => {
  const post = (body: object) =>
    errand.api<{ error: { code: string; faults?: { field: string }[] } }>(
      "POST",
      `/api/connections?${workspace}`,
      body,
    );
  const refused = await post({ name: "x", type: "bearer", config: {} });
  expect([refused.status, refused.body.error.faults?.[0]?.field]).toEqual([400, "config.token"]);
  expect((await post({ name: "../x", type: "bearer", config: { token: "t" } })).status).toBe(400);
  expect((await post({ name: "x", type: "magic", config: {} })).status).toBe(400);
  expect((await post({ name: "y", type: "bearer", config: { token: "t" }, secret: 1 })).status).toBe(400);
  expect((await errand.api("GET", "/api/connections/none")).status).toBe(404);
  expect((await errand.api("GET", "/api/connections?type=magic")).status).toBe(400);
  expect((await errand.api("GET", "/api/connections?workspace_id=other")).status).toBe(403);
});
