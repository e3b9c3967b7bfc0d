import { describe, expect, test } from "bun:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import { world } from "./setup.ts";

const { errand } = await world();

type Operation = {
  "x-policy"?: string;
  operationId: string;
  tags: string[];
  responses: Record<string, { content?: Record<string, { schema?: object }> }>;
};
type Document = { openapi: string; paths: Record<string, Record<string, Operation>> };

const document = (await errand.api<Document>("GET", "/api/openapi.json")).body;
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
);

describe("the interface's own description", () => {
  test("is valid OpenAPI 3.1 with a name of its own for each operation", async () => {
    expect(document.openapi).toStartWith("3.1");
    expect(await new Validator().validate(document as never)).toMatchObject({ valid: true });
    const ids = operations.map(({ operation }) => operation.operationId);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test("says of every address what a good answer holds", () => {
    for (const { path, method, operation } of operations) {
      const good = Object.entries(operation.responses).filter(([status]) => status.startsWith("2"));
      const bad = good.filter(([status, { content = {} }]) =>
        status === "204" ? false : !Object.values(content).some(({ schema }) => schema !== undefined),
      );
      expect([method, path, good.length > 0, bad]).toEqual([method, path, true, []]);
    }
  });

  test.each([
    "/api/agents",
    "/api/agents/{id}/stream",
    "/api/agents/anonymous/{id}",
    "/api/me",
    "/api/models",
    "/api/chat/completions",
    "/api/responses",
    "/api/workflows",
    "/api/executions/{id}",
    "/webhooks/agents/{id}",
    "/webhooks/workflows/{id}",
    "/api/v1/webhooks",
    "/api/v1/events",
    "/api/v1/events/{id}",
  ])("names %s", (path) => {
    expect(document.paths).toHaveProperty([path]);
  });
});

describe("every address", () => {
  const fill = (path: string) => path.replace(/\{[^}]+\}/g, crypto.randomUUID());
  const ask = (method: string, path: string) =>
    fetch(errand.url + fill(path), {
      method,
      ...(method === "GET" ? {} : { headers: { "content-type": "application/json" }, body: "{}" }),
    });

  test("says who may call it", () => {
    expect(operations.length).toBeGreaterThan(40);
    for (const { path, method, operation } of operations) {
      expect([path, method, operation["x-policy"]]).toEqual([
        path,
        method,
        expect.stringMatching(/^(key|public|anonymous|hook)$/),
      ]);
    }
  });

  test("that needs a key refuses those without one, before it says anything else", async () => {
    for (const { path, method, operation } of operations) {
      if (operation["x-policy"] !== "key") continue;
      const response = await ask(method, path);
      expect([method, path, response.status]).toEqual([method, path, 401]);
      const code = operation.tags.includes("openai") ? "invalid_api_key" : "UNAUTHORIZED";
      expect(await response.json()).toMatchObject({ error: { code } });
    }
  });

  test("that changes anything needs a key, a webhook's token or a public agent", async () => {
    for (const { path, method, operation } of operations) {
      if (method === "GET" || operation["x-policy"] === "key") continue;
      const response = await ask(method, path);
      await response.text();
      const expected = operation["x-policy"] === "hook" ? [401] : [400, 404];
      expect([method, path, expected.includes(response.status)]).toEqual([method, path, true]);
    }
  });

  test("carries the same protective headers, whatever it answers", async () => {
    for (const { path, method } of operations) {
      const { headers } = await ask(method, path);
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("referrer-policy")).toBe("no-referrer");
      expect(headers.get("x-request-id")).toBeTruthy();
      expect(headers.get("access-control-allow-origin")).toBeNull();
    }
  });
});
