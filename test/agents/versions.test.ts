import { describe, expect, test } from "bun:test";
import { CALLER, world } from "./world.ts";

describe("versions of an agent", () => {
  test("are one for each change, newest first, and each can be read", async () => {
    const { call, anAgent } = world();
    const id = await anAgent({ system_prompt: "One" });
    await call("PUT", `/agents/${id}`, { system_prompt: "Two", model: "openai/m" });
    const { body, headers } = await call("GET", `/agents/${id}/versions`);
    expect(headers.get("x-total-count")).toBe("2");
    expect(body).toMatchObject([
      { version: 2, is_current: true, system_prompt: "Two", model: "openai/m" },
      { version: 1, is_current: false, system_prompt: "One", model: null },
    ]);
    expect((await call("GET", `/agents/${id}/versions/1`)).body).toMatchObject({ system_prompt: "One" });
    expect((await call("GET", `/agents/${id}/versions?limit=1&offset=1`)).body).toHaveLength(1);
  });

  test("are brought back whole, as a new one; who may see the agent stays", async () => {
    const { call, anAgent } = world();
    const id = await anAgent({ name: "First", visibility: "public", system_prompt: "One" });
    const change = { name: "Second", visibility: "private", model: "a/b", model_config: { temperature: 1 } };
    await call("PUT", `/agents/${id}`, change);
    const { status, body } = await call("POST", `/agents/${id}/versions/1/restore`);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      name: "First",
      visibility: "private",
      system_prompt: "One",
      model: null,
      model_config: {},
    });
    expect((await call("GET", `/agents/${id}/versions`)).body[0]).toMatchObject({
      version: 3,
      name: "First",
    });
  });

  test("that refer to what is gone cannot be brought back", async () => {
    const { call, anAgent, agents } = world();
    const helper = await anAgent();
    const id = await anAgent({ sub_agents: [{ agent_id: helper }] });
    await call("PUT", `/agents/${id}`, { sub_agents: null });
    await agents.remove(CALLER, helper);
    expect((await call("POST", `/agents/${id}/versions/1/restore`)).status).toBe(404);
  });

  test("are the project's alone, and numbers", async () => {
    const { call, anAgent } = world();
    const id = await anAgent();
    const foreign = { authorization: "Bearer other" };
    for (const [method, suffix] of [
      ["GET", ""],
      ["GET", "/1"],
      ["POST", "/1/restore"],
    ] as const) {
      expect((await call(method, `/agents/${id}/versions${suffix}`, undefined, foreign)).status).toBe(403);
    }
    for (const number of ["0", "2", "-1", "x", "1e0", "99999999999999999999"]) {
      expect((await call("GET", `/agents/${id}/versions/${number}`)).status).toBe(404);
      expect((await call("POST", `/agents/${id}/versions/${number}/restore`)).status).toBe(404);
    }
  });

  test("are the last hundred, and go with the agent", async () => {
    const { agents, anAgent, storage } = world();
    const id = await anAgent();
    for (let n = 0; n < 120; n++) await agents.update(CALLER, id, { name: `n${n}` });
    const { items, total } = await agents.versions(CALLER, id, { limit: 1000, offset: 0 });
    expect([total, items.at(-1)!.version, items[0]!.name]).toEqual([100, 22, "n119"]);
    await agents.remove(CALLER, id);
    expect(storage.reader.all("SELECT 1 FROM agent_versions")).toEqual([]);
  });
});

describe("sub-agents", () => {
  test("that would come to ask the agent itself are refused, at whatever remove", async () => {
    const { call, anAgent } = world();
    const a = await anAgent();
    const b = await anAgent({ sub_agents: [{ agent_id: a }] });
    const c = await anAgent({ sub_agents: [{ agent_id: b }, { agent_id: a }] });
    for (const agent_id of [a, b, c]) {
      const { status, body } = await call("PUT", `/agents/${a}`, { sub_agents: [{ agent_id }] });
      expect([status, body.error.details.field]).toEqual([400, "sub_agents.0.agent_id"]);
    }
    expect((await call("PUT", `/agents/${c}`, { sub_agents: [{ agent_id: a }] })).status).toBe(200);
  });
});
