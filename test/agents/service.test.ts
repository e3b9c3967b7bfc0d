import { describe, expect, test } from "bun:test";
import { DEFAULT_SETTINGS } from "../../src/agents/schema.ts";
import { CALLER, NOWHERE, OTHER, world } from "./world.ts";

const path = "/agents?workspace_id=w";
const WHOLE = {
  name: "Guide",
  system_prompt: "Be brief.",
  description: "Guides people",
  visibility: "public",
  model: "openai/gpt-4.1",
  model_config: { temperature: 0.5, max_tokens: 100, reasoning_effort: "low", fallback_models: ["a/b"] },
  mcp_servers: [{ url: "https://mcp.example" }],
  response_format: { type: "json_object" as const },
  auto_generate_title: false,
  welcome_message: "Hello",
  suggested_messages: [{ title: "Hi", label: "Say hi", action: "hi" }],
  suggest_replies: true,
  agent_metadata: { team: "support" },
  recursion_limit: 5,
  attachment_config: { images: true },
};

describe("an agent", () => {
  test("needs a name alone; the rest has defaults", async () => {
    const { call } = world();
    const made = await call("POST", path, { name: "Guide" });
    expect(made.status).toBe(201);
    expect(made.body).toEqual({
      ...DEFAULT_SETTINGS,
      id: made.body.id,
      workspace_id: "w",
      project_id: "p",
      name: "Guide",
      description: "",
      visibility: "private",
      created_at: "2026-01-01T00:00:00.000Z",
      updated_at: null,
    });
    expect((await call("GET", `/agents/${made.body.id}`)).body).toEqual(made.body);
  });

  test("keeps every field it is given", async () => {
    const { call } = world();
    const made = await call("POST", path, WHOLE);
    expect(made.body).toMatchObject(WHOLE);
    expect((await call("GET", `/agents/${made.body.id}`)).body).toMatchObject(WHOLE);
  });

  test.each<[string, object, string]>([
    ["no name", {}, "name"],
    ["an empty name", { name: "" }, "name"],
    ["an unknown field", { name: "A", nmae: "B" }, "nmae"],
    ["a field that is the service's", { name: "A", id: NOWHERE }, "id"],
    ["an owner", { name: "A", project_id: "q" }, "project_id"],
    ["a timestamp", { name: "A", created_at: "2026-01-01T00:00:00.000Z" }, "created_at"],
    ["a model without provider", { name: "A", model: "gpt" }, "model"],
    [
      "a fifth suggestion",
      { name: "A", suggested_messages: Array(5).fill({ title: "t", action: "a" }) },
      "suggested_messages",
    ],
    ["a misspelt tool", { name: "A", tools: [{ workflow: "x" }] }, "tools.0"],
    ["a visibility that there is not", { name: "A", visibility: "secret" }, "visibility"],
  ])("with %s is refused and names it", async (_what, body, field) => {
    const { call, rows } = world();
    const { status, body: answer } = await call("POST", path, body);
    expect(status).toBe(400);
    expect(answer.error.code).toBe("INVALID_INPUT");
    expect(answer.error.details.field).toStartWith(field);
    expect(rows("agents")).toEqual([]);
  });

  test("is updated by what is sent alone; null puts a field back", async () => {
    const { call, clock } = world();
    const { id } = (await call("POST", path, WHOLE)).body;
    await clock.advance(5_000);
    const changed = await call("PUT", `/agents/${id}`, {
      name: "Helper",
      model_config: { temperature: 1 },
      system_prompt: null,
      description: null,
      suggested_messages: null,
    });
    expect(changed.status).toBe(200);
    expect(changed.body).toEqual({
      ...(await call("GET", `/agents/${id}`)).body,
      ...WHOLE,
      name: "Helper",
      model_config: { temperature: 1 },
      system_prompt: null,
      description: "",
      suggested_messages: [],
      updated_at: "2026-01-01T00:00:05.000Z",
    });
  });

  test("keeps both of two changes of the same moment to different fields", async () => {
    const { call, anAgent } = world();
    const at = `/agents/${await anAgent()}`;
    await Promise.all([call("PUT", at, { name: "New" }), call("PUT", at, { system_prompt: "Be brief." })]);
    expect((await call("GET", at)).body).toMatchObject({ name: "New", system_prompt: "Be brief." });
  });

  test("has the default again of every field that null is sent for", async () => {
    const { call, anAgent } = world();
    const id = await anAgent(WHOLE as never);
    const nothing = Object.fromEntries(
      [...Object.keys(DEFAULT_SETTINGS), "visibility"].map((f) => [f, null]),
    );
    const { status, body } = await call("PUT", `/agents/${id}`, nothing);
    expect(status).toBe(200);
    expect(body).toMatchObject({ ...DEFAULT_SETTINGS, visibility: "private", name: "Guide" });
    expect((await call("POST", path, { name: "New", ...nothing })).body).toMatchObject(DEFAULT_SETTINGS);
  });

  test("keeps its name when null is sent for it", async () => {
    const { call, anAgent } = world();
    expect((await call("PUT", `/agents/${await anAgent()}`, { name: null })).status).toBe(400);
  });

  test("that is deleted is gone for reading, talking and the list", async () => {
    const { call, anAgent } = world();
    const id = await anAgent();
    const gone = await call("DELETE", `/agents/${id}`);
    expect([gone.status, gone.body]).toEqual([204, undefined]);
    expect((await call("GET", `/agents/${id}`)).status).toBe(404);
    expect((await call("DELETE", `/agents/${id}`)).status).toBe(404);
    const body = { messages: [{ role: "user", content: "Hi" }] };
    expect((await call("POST", `/agents/${id}/stream`, body)).status).toBe(404);
    expect((await call("GET", path)).body).toEqual([]);
  });
});

describe("a list", () => {
  test("is an array, newest first, with its size and neighbours in headers", async () => {
    const { call, anAgent } = world();
    for (const name of ["a", "b", "c"]) await anAgent({ name });
    const { status, headers, body } = await call("GET", `${path}&limit=2&offset=1`);
    expect(status).toBe(200);
    expect(body.map(({ name }: { name: string }) => name)).toEqual(["b", "a"]);
    expect(headers.get("x-total-count")).toBe("3");
    expect(headers.get("link")).toContain('rel="prev"');
  });

  test("finds part of a name or description, whatever the case; % and _ mean themselves", async () => {
    const { call, anAgent } = world();
    await anAgent({ name: "Billing" });
    await anAgent({ name: "Sales", description: "asks about BILLS, 100% of them" });
    await anAgent({ name: "Support" });
    const found = async (part: string) => {
      const list = await call("GET", `${path}&search_query=${encodeURIComponent(part)}`);
      return list.body.map(({ name }: { name: string }) => name);
    };
    expect(await found("bill")).toEqual(["Sales", "Billing"]);
    expect(await found("100%")).toEqual(["Sales"]);
    expect(await found("_")).toEqual([]);
  });

  test("shows the key's project alone", async () => {
    const { call, anAgent } = world();
    await anAgent({ name: "theirs" }, OTHER);
    expect((await call("GET", path)).body).toEqual([]);
  });

  test.each(["limit=0", "limit=1001", "offset=-1", "limit=ten"])("refuses %s", async (query) => {
    expect((await world().call("GET", `${path}&${query}`)).status).toBe(400);
  });
});

describe("scope", () => {
  test("a workspace or project that is not the key's is refused before anything is looked up", async () => {
    const { call, rows } = world();
    expect((await call("GET", "/agents?workspace_id=x")).status).toBe(403);
    expect((await call("GET", `${path}&project_id=q`)).status).toBe(403);
    expect((await call("POST", "/agents?workspace_id=x", { name: "A" })).status).toBe(403);
    expect((await call("POST", "/agents", { name: "A" })).status).toBe(400);
    expect(rows("agents")).toEqual([]);
  });

  test.each(["GET", "PUT", "DELETE"])(
    "%s tells a foreign agent from one that there is not",
    async (method) => {
      const { call, anAgent } = world();
      const foreign = await anAgent({}, OTHER);
      const body = method === "PUT" ? { name: "mine" } : undefined;
      const statuses = [];
      for (const id of [foreign, NOWHERE, "no-uuid"]) {
        statuses.push((await call(method, `/agents/${id}`, body)).status);
      }
      expect(statuses).toEqual([403, 404, 404]);
    },
  );

  test("what an agent refers to must be there and of its project, when made and when changed", async () => {
    const { call, anAgent, workflows } = world();
    const flow = async (caller: typeof CALLER) =>
      (await workflows.create(caller, { workspace_id: "w" }, { name: "f", nodes: [] } as never)).id;
    const [mine, theirs, sub, foreign] = [
      await flow(CALLER),
      await flow(OTHER),
      await anAgent(),
      await anAgent({}, OTHER),
    ];
    const id = await anAgent({ tools: [{ workflow_id: mine }], sub_agents: [{ agent_id: sub }] });
    const tries: [object, number][] = [
      [{ tools: [{ workflow_id: mine }, { workflow_id: theirs }] }, 403],
      [{ tools: [{ workflow_id: NOWHERE }] }, 404],
      [{ sub_agents: [{ agent_id: foreign }] }, 403],
      [{ sub_agents: [{ agent_id: "no-uuid" }] }, 404],
      [{ datasets: [{ dataset_id: NOWHERE }] }, 404],
    ];
    for (const [body, status] of tries) {
      expect((await call("POST", path, { name: "A", ...body })).status).toBe(status);
      expect((await call("PUT", `/agents/${id}`, body)).status).toBe(status);
    }
    expect((await call("GET", `/agents/${id}`)).body.tools).toEqual([{ workflow_id: mine }]);
  });
});

describe("without a key", () => {
  const anonymous = { authorization: "" };

  test("exactly eight fields of a public agent are told", async () => {
    const { call, anAgent } = world();
    const id = await anAgent({ ...(WHOLE as object), visibility: "public" });
    const { status, body } = await call("GET", `/agents/anonymous/${id}`, undefined, anonymous);
    expect(status).toBe(200);
    expect(body).toEqual({
      id,
      name: "Guide",
      description: "Guides people",
      auto_generate_title: false,
      welcome_message: "Hello",
      suggested_messages: WHOLE.suggested_messages,
      agent_metadata: { team: "support" },
      suggest_replies: true,
    });
  });

  test("a private agent is as absent as one that there is not", async () => {
    const { call, anAgent } = world();
    const hidden = await anAgent();
    for (const [method, suffix, body] of [
      ["GET", "", undefined],
      ["POST", "/stream", { messages: [{ role: "user", content: "Hi" }] }],
    ] as const) {
      const answers = [];
      for (const id of [hidden, NOWHERE]) {
        const { status, body: answer } = await call(
          method,
          `/agents/anonymous/${id}${suffix}`,
          body,
          anonymous,
        );
        answers.push([status, answer.error.message.replace(id, "ID")]);
      }
      expect(answers[0]).toEqual(answers[1]);
      expect(answers[0]?.[0]).toBe(404);
    }
  });

  test("everything else wants one", async () => {
    const { call, anAgent } = world();
    const id = await anAgent({ visibility: "public" });
    expect((await call("GET", `/agents/${id}`, undefined, anonymous)).status).toBe(401);
    const body = { messages: [{ role: "user", content: "Hi" }] };
    expect((await call("POST", `/agents/${id}/stream`, body, anonymous)).status).toBe(401);
    expect((await call("GET", `/agents/${id}/conversations`, undefined, anonymous)).status).toBe(401);
  });
});
