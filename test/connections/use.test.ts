import { afterEach, describe, expect, test } from "bun:test";
import { ModelError } from "../../src/models/model.ts";
import { llm } from "../../src/nodes/llm.ts";
import { world } from "../executions/setup.ts";
import { modelOf, run, runWith, server } from "../nodes/setup.ts";

const CANARY = "canary/token+1==";
const open: { close(): void }[] = [];
afterEach(() => {
  for (const each of open.splice(0)) each.close();
});

type World = ReturnType<typeof world>;
const caller = { key_id: "key", workspace_id: "w", project_id: "p" };

async function flowOf(w: World, input_config: object, node_type_name = "api_call") {
  return w.workflow({
    nodes: [
      {
        node_type_name,
        name: "call",
        input_config: { _options: { retry: { max_attempts: 1 } }, ...input_config },
      },
    ],
  } as never);
}

describe("a connection that a node names beside its configuration", () => {
  const ask = { node_type_name: "api_call", name: "call", input_config: { url: "http://a.example/" } };
  const faultsOf = async (node: object) => {
    const w = world();
    await w.connections.create(caller, {}, { name: "api", type: "bearer", config: { token: CANARY } });
    const { faults } = await w.workflows.validate(caller, { nodes: [{ ...ask, ...node }] });
    return faults.map(({ field, received }) => [field, received]);
  };

  test("goes with the request as one in it does", async () => {
    const w = world();
    using api = server(() => Response.json({}));
    await w.connections.create(caller, {}, { name: "api", type: "bearer", config: { token: CANARY } });
    const inner = { ...ask, input_config: { url: api.url }, connection: "api" };
    const branches = { a: [inner] };
    const target = await w.workflow({
      nodes: [{ node_type_name: "parallel", name: "all", input_config: { branches } }],
    });
    await w.until((await w.start(target)).id, "success");
    expect(api.got[0]?.headers["authorization"]).toBe(`Bearer ${CANARY}`);
  });

  test("is checked when the workflow is saved", async () => {
    expect(await faultsOf({ connection: "api" })).toEqual([]);
    expect(await faultsOf({ connection: null })).toEqual([]);
    const at = "nodes.0.connection";
    expect(await faultsOf({ connection: "nobody" })).toEqual([[at, "an unknown name or id"]]);
    expect(await faultsOf({ connection: "{{ inputs.which }}" })).toContainEqual([at, "a template"]);
    const twice = { ...ask.input_config, connection: "api" };
    expect(await faultsOf({ connection: "api", input_config: twice })).toEqual([[at, "api"]]);
    const without = { node_type_name: "set_variables", input_config: { variables: {} } };
    expect(await faultsOf({ ...without, connection: "api" })).toEqual([[at, "api"]]);
  });
});

describe("a connection at work", () => {
  test.each([
    ["bearer", { token: CANARY }, { authorization: `Bearer ${CANARY}` }],
    [
      "basic",
      { username: "ada", password: CANARY },
      { authorization: `Basic ${Buffer.from(`ada:${CANARY}`).toString("base64")}` },
    ],
    ["header", { header: "X-Api-Key", value: CANARY }, { "x-api-key": CANARY }],
  ] as const)(
    "of type %s goes with the request and into nothing that is kept",
    async (type, config, headers) => {
      const w = world();
      using api = server((request, body) =>
        Response.json(
          { heard: Object.fromEntries(request.headers), body, encoded: encodeURIComponent(CANARY) },
          {
            headers: {
              "x-echo": request.headers.get("authorization") ?? request.headers.get("x-api-key") ?? "",
            },
          },
        ),
      );
      await w.connections.create(caller, {}, { name: "api", type, config });
      const target = await flowOf(w, {
        url: api.url,
        connection: "api",
        headers: { authorization: "overruled", "x-api-key": "overruled" },
      });
      const { id } = await w.start(target);
      const ended = await w.until(id, "success", "failed");
      expect(api.got[0]?.headers).toMatchObject(headers);
      expect(ended.status).toBe("success");
      const kept = ["executions", "steps", "events", "jobs", "deliveries"].flatMap((table) =>
        w.storage.reader.all(`SELECT * FROM ${table}`),
      );
      for (const text of [JSON.stringify(ended), JSON.stringify(kept), w.reports.join()]) {
        for (const form of [
          CANARY,
          encodeURIComponent(CANARY),
          Buffer.from(`ada:${CANARY}`).toString("base64"),
        ]) {
          expect(text).not.toContain(form);
        }
      }
      expect(JSON.stringify(ended)).toContain("[secret]");
    },
  );

  test("goes to the hosts it names and to no other", async () => {
    const w = world();
    using api = server(() => new Response("ok"));
    await w.connections.create(
      caller,
      {},
      { name: "api", type: "bearer", config: { token: CANARY, hosts: ["api.example.org", ".safe.example"] } },
    );
    const { id } = await w.start(await flowOf(w, { url: api.url, connection: "api" }));
    expect(await w.until(id, "success", "failed")).toMatchObject({ error: { code: "CONNECTION_HOST" } });
    expect(api.got).toEqual([]);
  });

  test("does not follow a redirect to another server", async () => {
    const w = world();
    using other = server(() => new Response("ok"));
    using api = server(() => new Response(null, { status: 307, headers: { location: other.url } }));
    await w.connections.create(
      caller,
      {},
      { name: "api", type: "header", config: { header: "X-Key", value: CANARY } },
    );
    const { id } = await w.start(
      await flowOf(w, { url: api.url, connection: "api", follow_redirects: true }),
    );
    expect(await w.until(id, "success", "failed")).toMatchObject({ status: "success" });
    expect(JSON.stringify(other.got)).not.toContain(CANARY);
  });

  test("that was deleted or is of another kind fails the step that uses it, by name", async () => {
    const w = world();
    const { id: connection } = await w.connections.create(
      caller,
      {},
      { name: "api", type: "bearer", config: { token: CANARY } },
    );
    const target = await flowOf(w, { url: "http://127.0.0.1:1/", connection: "api" });
    await w.connections.remove(caller, connection);
    const { id } = await w.start(target);
    expect(await w.until(id, "failed")).toMatchObject({
      error: {
        code: "CONNECTION_MISSING",
        message: 'There is no connection "api" in this project; was it deleted?',
      },
    });
    await w.connections.create(caller, {}, { name: "api", type: "smtp", config: { host: "mail.example" } });
    const again = await w.start(target);
    expect(await w.until(again.id, "failed")).toMatchObject({ error: { code: "CONNECTION_TYPE" } });
  });

  test("is looked up when a workflow is saved", async () => {
    const w = world();
    await w.connections.create(caller, {}, { name: "api", type: "bearer", config: { token: CANARY } });
    const theirs = await w.connections.create(
      { ...caller, project_id: "q" },
      {},
      { name: "theirs", type: "bearer", config: { token: CANARY } },
    );
    const url = "http://example.org";
    await flowOf(w, { url, connection: "api" });
    await expect(flowOf(w, { url, connection: "nothing" })).rejects.toMatchObject({
      code: "invalid_input",
      extra: { faults: [{ field: "nodes.0.input_config.connection" }] },
    });
    await expect(flowOf(w, { url, connection: theirs.id })).rejects.toMatchObject({ code: "forbidden" });
    await expect(flowOf(w, { prompt: "x", connection: "api" }, "llm")).rejects.toMatchObject({
      code: "invalid_input",
    });
    await expect(flowOf(w, { url, connection: "{{ inputs.which }}" })).rejects.toMatchObject({
      code: "invalid_input",
    });
  });

  test("is looked up in the nodes inside of nodes as well", async () => {
    const w = world();
    const inner = {
      node_type_name: "api_call",
      name: "inner",
      input_config: { url: "http://example.org", connection: "nothing" },
    };
    const saving = flowOf(w, { items: [1], nodes: [inner], _options: {} }, "for_each");
    await expect(saving).rejects.toMatchObject({
      extra: { faults: [{ field: "nodes.0.input_config.nodes.0.input_config.connection" }] },
    });
  });

  test("of a model's provider lends its key to that provider alone, and no answer repeats it", async () => {
    const connections = {
      open: async () =>
        ({ type: "model", id: "1", name: "own", provider: "openai", api_key: CANARY }) as const,
    };
    const ask = async (config: object, answer: Parameters<typeof modelOf>[0]) => {
      const { models, asked } = modelOf(answer);
      const said = await run(
        llm,
        { prompt: "Hi", connection: "own", ...config },
        runWith({ models, connections }),
      );
      return { output: said.output, asked };
    };
    const { output, asked } = await ask({ model: "gpt-x" }, { text: `Your key is ${CANARY}.` });
    expect(asked[0]).toMatchObject({ model: "openai/gpt-x", access: { api_key: CANARY } });
    expect(output).toMatchObject({ text: "Your key is [secret].", model: "openai/gpt-x" });
    await expect(ask({ model: "anthropic/x" }, {})).rejects.toMatchObject({ code: "INVALID_CONFIG" });
    await expect(ask({}, {})).rejects.toMatchObject({ code: "INVALID_CONFIG" });
    const refused = ask({ model: "gpt-x" }, new ModelError("MODEL_REFUSED", `no ${CANARY}`, false));
    await expect(refused).rejects.toMatchObject({ code: "MODEL_REFUSED", message: "no [secret]" });
  });
});
