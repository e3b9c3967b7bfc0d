import { describe, expect, test } from "bun:test";
import { createKey } from "../../scripts/lib/errand.ts";
import { world } from "./setup.ts";

const { errand, key, workspace } = await world();
const agents = `${errand.url}/api/agents?${workspace}`;
const authorization = `Bearer ${key.key}`;

type Refused = { error: { code: string; message: string; request_id: string; details?: { field: string } } };

async function send(url: string, init: RequestInit & { headers?: Record<string, string> }) {
  const response = await fetch(url, { ...init, headers: { authorization, ...init.headers } });
  const text = await response.text();
  expect(text).not.toContain("<");
  expect(text).not.toMatch(/\bat .*\.ts:\d+/);
  expect(response.status).not.toBe(500);
  return {
    status: response.status,
    headers: response.headers,
    body: text ? (JSON.parse(text) as Refused) : undefined,
  };
}

const post = (body: string | Uint8Array<ArrayBuffer>, type = "application/json") =>
  send(agents, { method: "POST", body, headers: { "content-type": type } });

describe("a body", () => {
  test.each([
    ["malformed JSON", '{"name":', 400, "INVALID_INPUT"],
    ["nothing", "", 400, "INVALID_INPUT"],
    ["a bare value", "5", 400, "INVALID_INPUT"],
    ["an array", "[]", 400, "INVALID_INPUT"],
    ["a wrong type", '{"name":5}', 400, "INVALID_INPUT"],
    ["an unknown field", '{"name":"a","colour":"red"}', 400, "INVALID_INPUT"],
    ["a field the server owns", '{"name":"a","project_id":"b"}', 400, "INVALID_INPUT"],
    ["an own __proto__", '{"name":"a","agent_metadata":{"__proto__":{"admin":true}}}', 400, "INVALID_INPUT"],
    ["a lone surrogate", '{"name":"\\ud800"}', 400, "INVALID_INPUT"],
    [
      "nesting past 64",
      `{"name":"a","agent_metadata":{"x":${"[".repeat(100)}${"]".repeat(100)}}}`,
      400,
      "INVALID_INPUT",
    ],
    ["50,000 levels", "[".repeat(50_000), 400, "INVALID_INPUT"],
    ["more than the limit", JSON.stringify({ name: "a".repeat(2 * 1024 * 1024) }), 413, "PAYLOAD_TOO_LARGE"],
  ] as const)("that is %s is refused", async (_what, body, status, code) => {
    const answer = await post(body);
    expect(answer.status).toBe(status);
    expect(answer.body?.error.code).toBe(code);
    expect(answer.body?.error.request_id).toBe(answer.headers.get("x-request-id")!);
  });

  test("that is not UTF-8 is refused", async () => {
    const answer = await post(new Uint8Array([0x7b, 0x22, 0x6e, 0x22, 0x3a, 0x22, 0xff, 0x22, 0x7d]));
    expect([answer.status, answer.body?.error.code]).toEqual([400, "INVALID_INPUT"]);
  });

  test.each(["text/plain", "application/jsonx", "xxxj", "application/xml"])(
    "of type %s is refused",
    async (type) => {
      const answer = await post('{"name":"a"}', type);
      expect([answer.status, answer.body?.error.code]).toEqual([415, "UNSUPPORTED_MEDIA_TYPE"]);
    },
  );

  test("with a fault names the field, and every fault", async () => {
    const answer = await post('{"name":5,"visibility":"secret","nonsense":1}');
    const faults = (answer.body?.error as { faults?: { field: string }[] } | undefined)?.faults?.map(
      (one) => one.field,
    );
    expect(faults?.toSorted()).toEqual(["name", "nonsense", "visibility"]);
    expect(answer.body?.error.details).toHaveProperty("expected");
  });
});

describe("an address", () => {
  test.each([
    ["GET", "/api/nope", 404, "NOT_FOUND"],
    ["GET", `/api/agents/not-an-id`, 404, "NOT_FOUND"],
    ["GET", `/api/agents/${crypto.randomUUID()}`, 404, "NOT_FOUND"],
    ["PATCH", "/api/agents", 405, "METHOD_NOT_ALLOWED"],
    ["DELETE", "/api/me", 405, "METHOD_NOT_ALLOWED"],
    ["GET", `/api/agents?workspace_id=${crypto.randomUUID()}`, 403, "FORBIDDEN"],
    ["GET", `/api/agents?${workspace}&project_id=other`, 403, "FORBIDDEN"],
    ["GET", `/api/agents?${workspace}&limit=0`, 400, "INVALID_INPUT"],
    ["GET", `/api/agents?${workspace}&limit=0x10`, 400, "INVALID_INPUT"],
    ["GET", "/api/agents", 400, "INVALID_INPUT"],
    ["GET", "/api//me", 400, "INVALID_INPUT"],
  ] as const)("%s %s answers as it should", async (method, path, status, code) => {
    const answer = await send(errand.url + path, { method });
    expect([answer.status, answer.body?.error.code]).toEqual([status, code]);
  });

  test("of a short Host reaches no route", async () => {
    const answer = await send(`${errand.url}/zzzz/api/me`, { headers: { host: "x" } });
    expect(answer.status).toBe(400);
  });
});

describe("credentials", () => {
  test.each([
    ["none", {}],
    ["another scheme", { authorization: `Basic ${btoa("a:b")}` }],
    ["a wrong key", { authorization: "Bearer erk_000000000000_wrong" }],
    ["no space", { authorization: `Bearer${key.key}` }],
    ["two", { authorization: `Bearer ${key.key}, Bearer ${key.key}` }],
  ])("that are %s are refused before anything is read", async (_what, headers) => {
    const response = await fetch(agents, {
      method: "POST",
      headers: { "content-type": "application/json", ...(headers as Record<string, string>) },
      body: "not json",
    });
    expect(response.status).toBe(401);
    expect(response.headers.get("www-authenticate")).toContain("Bearer");
    expect(await response.json()).toMatchObject({ error: { code: "UNAUTHORIZED" } });
  });

  test("of another project reach nothing of this one", async () => {
    const made = await errand.command("workspaces", "create", "Other", "--json");
    expect(made.code).toBe(0);
    const created = await errand.command(
      "keys",
      "create",
      "--workspace",
      (JSON.parse(made.stdout) as { id: string }).id,
      "--json",
    );
    expect(created.code).toBe(0);
    const foreign = JSON.parse(created.stdout) as { key: string };
    const agent = await errand.api<{ id: string }>("POST", `/api/agents?${workspace}`, { name: "mine" });
    const answer = await send(`${errand.url}/api/agents/${agent.body.id}`, {
      headers: { authorization: `Bearer ${foreign.key}` },
    });
    expect([answer.status, answer.body?.error.code]).toEqual([403, "FORBIDDEN"]);
  });

  test("made by the command line work at once, and stop working when they are revoked", async () => {
    const fresh = (await createKey(errand.data)) as { key: string; id?: string } & Awaited<
      ReturnType<typeof createKey>
    >;
    const me = () => fetch(`${errand.url}/api/me`, { headers: { authorization: `Bearer ${fresh.key}` } });
    const answer = await me();
    expect(answer.status).toBe(200);
    const { key_id } = (await answer.json()) as { key_id: string };
    expect((await errand.command("keys", "revoke", key_id)).code).toBe(0);
    expect((await me()).status).toBe(401);
  });
});
