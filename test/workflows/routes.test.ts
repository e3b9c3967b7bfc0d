import { describe, expect, test } from "bun:test";
import { newId } from "../../src/lib/ids.ts";
import { settled } from "../helpers/clock.ts";
import { CALLER, greet, setup } from "./setup.ts";

const HERE = "/workflows?workspace_id=w";

describe("a workflow", () => {
  test("is made from nothing with every default of the interface", async () => {
    const { call } = setup();
    const { status, body } = await call("POST", HERE, {});
    expect(status).toBe(201);
    expect(body).toEqual({
      id: expect.any(String),
      workspace_id: "w",
      user_id: "key",
      dataset_id: null,
      name: "Untitled workflow",
      description: "Untitled workflow description",
      images: [],
      input_schema: { title: "Untitled", description: "", required: [], properties: {} },
      nodes: [],
      output_mapping: {},
      public_clone: false,
      public_runnable: false,
      num_likes: 0,
      num_runs: 0,
      num_views: 0,
      created_at: "2026-01-01T00:00:00.000Z",
      updated_at: null,
    });
  });

  test("has what was left out of properties and nodes filled in", async () => {
    const { call } = setup();
    const { body } = await call("POST", HERE, {
      input_schema: {
        properties: { name: { type: "string", ui_metadata: { placeholder: "x" } } },
        required: ["name"],
        $comment: "kept",
      },
      nodes: [greet],
    });
    expect(body.input_schema).toEqual({
      title: "Untitled",
      description: "",
      required: ["name"],
      $comment: "kept",
      properties: {
        name: { title: "name", description: "", type: "string", ui_metadata: { order: 0, placeholder: "x" } },
      },
    });
    expect(body.nodes).toEqual([
      { ...greet, title: null, description: "", output_mapping: null, connection: null },
    ]);
  });

  test("is read, listed, changed and deleted", async () => {
    const { call, clock } = setup();
    const made = (await call("POST", HERE, { name: "One", nodes: [greet] })).body;
    const path = `/workflows/${made.id}`;
    expect((await call("GET", path)).body).toEqual(made);
    const other = (await call("POST", HERE, { name: "Two" })).body;
    const list = await call("GET", `${HERE}&limit=1`);
    expect([list.body, list.headers.get("x-total-count")]).toEqual([[other], "2"]);
    expect((await call("GET", `${HERE}&search_query=one`)).body).toEqual([made]);
    await clock.advance(1_000);
    const changed = (await call("PUT", path, { name: "Uno", dataset_id: null })).body;
    expect(changed).toEqual({ ...made, name: "Uno", updated_at: "2026-01-01T00:00:01.000Z" });
    const deleted = await call("DELETE", path);
    expect([deleted.status, deleted.body]).toEqual([204, undefined]);
    expect((await call("GET", path)).status).toBe(404);
  });

  test("keeps both of two changes of the same moment to different fields", async () => {
    const { call } = setup();
    const path = `/workflows/${(await call("POST", HERE, {})).body.id}`;
    await Promise.all([call("PUT", path, { nodes: [greet] }), call("PUT", path, { name: "Uno" })]);
    const { name, nodes } = (await call("GET", path)).body;
    expect([name, nodes.length]).toEqual(["Uno", 1]);
  });

  test("keeps both of two changes of the same moment to its program", async () => {
    const { call } = setup();
    const path = `/workflows/${(await call("POST", HERE, { nodes: [greet] })).body.id}`;
    const changes = [
      { output_mapping: { text: "{{ greet.text }}" } },
      { input_schema: { properties: { name: { type: "string" } } } },
      { nodes: [greet, { ...greet, name: "again" }] },
    ];
    const answers = await Promise.all(changes.map((change) => call("PUT", path, change)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    const { nodes, output_mapping, input_schema } = (await call("GET", path)).body;
    expect([nodes.length, output_mapping, Object.keys(input_schema.properties)]).toEqual([
      2,
      { text: "{{ greet.text }}" },
      ["name"],
    ]);
  });

  test("is checked anew when what it is put together with changed meanwhile", async () => {
    const { call } = setup();
    const path = `/workflows/${(await call("POST", HERE, { nodes: [greet], input_schema: { properties: { name: {} } } })).body.id}`;
    const answers = await Promise.all([
      call("PUT", path, { nodes: [] }),
      call("PUT", path, { output_mapping: { text: "{{ greet.text }}" } }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([200, 400]);
  });

  test("names no dataset, since there are none", async () => {
    const { call } = setup();
    const dataset_id = newId();
    expect((await call("POST", HERE, { dataset_id })).status).toBe(404);
    const { id } = (await call("POST", HERE, { dataset_id: null })).body;
    expect((await call("PUT", `/workflows/${id}`, { dataset_id })).status).toBe(404);
  });

  test("counts who looks at it in public", async () => {
    const { call } = setup();
    const { id } = (await call("POST", HERE, { public_clone: true })).body;
    for (let n = 0; n < 3; n++) await call("GET", `/workflows/anonymous/${id}`, undefined, null);
    await settled();
    expect((await call("GET", `/workflows/${id}`)).body.num_views).toBe(3);
  });

  test("is closed, and so are its nodes", async () => {
    const { call } = setup();
    const sent = { color: 1, id: newId(), num_runs: 5, nodes: [{ ...greet, position: { x: 1 } }] };
    const { status, body } = await call("POST", HERE, sent);
    expect([status, body.error.code]).toEqual([400, "INVALID_INPUT"]);
    expect(body.error.faults.map(({ field }: { field: string }) => field).sort()).toEqual([
      "color",
      "id",
      "nodes.0.position",
      "num_runs",
    ]);
  });

  test("may be sent back as it was read, and not otherwise", async () => {
    const { call, storage } = setup();
    const made = (await call("POST", HERE, {})).body;
    storage.reader.run("UPDATE workflows SET num_runs = 3 WHERE id = ?", made.id);
    expect((await call("PUT", `/workflows/${made.id}`, { ...made, name: "New" })).body).toMatchObject({
      name: "New",
      num_runs: 3,
    });
    const forged = { user_id: "me", num_runs: 4, created_at: "2020-01-01T00:00:00Z", updated_at: null };
    const { status, body } = await call("PUT", `/workflows/${made.id}`, forged);
    expect(status).toBe(400);
    expect(body.error.faults.map(({ field }: { field: string }) => field).sort()).toEqual([
      "created_at",
      "num_runs",
      "updated_at",
      "user_id",
    ]);
  });

  test("is refused with every fault at once", async () => {
    const { call } = setup();
    const { status, body } = await call("POST", HERE, {
      input_schema: { properties: { name: { type: "text" } } },
      nodes: [
        { ...greet, name: "run" },
        { ...greet, name: "b", node_type_name: "nothing" },
      ],
    });
    expect(status).toBe(400);
    expect(body.error.faults.map(({ field }: { field: string }) => field)).toEqual([
      "input_schema.properties.name.type",
      "nodes.0.name",
      "nodes.1.node_type_name",
    ]);
  });

  test("takes 200 nodes and no more", async () => {
    const { call } = setup();
    const nodes = Array.from({ length: 201 }, (_, index) => ({ ...greet, name: `n${index}` }));
    expect((await call("POST", HERE, { nodes: nodes.slice(1) })).status).toBe(201);
    expect((await call("POST", HERE, { nodes })).body.error.details).toMatchObject({ field: "nodes" });
  });
});

describe("scope", () => {
  test("another workspace or project is refused before anything is looked up", async () => {
    const { call } = setup();
    for (const query of ["workspace_id=x", "workspace_id=w&project_id=q"]) {
      expect((await call("GET", `/workflows?${query}`)).status).toBe(403);
      expect((await call("POST", `/workflows?${query}`, {})).status).toBe(403);
    }
    expect((await call("GET", "/workflows")).status).toBe(400);
  });

  test("another project's workflow is refused, and one that is not there is not found", async () => {
    const { call } = setup();
    const { id } = (await call("POST", HERE, {})).body;
    for (const method of ["GET", "PUT", "DELETE"]) {
      const body = method === "PUT" ? {} : undefined;
      expect((await call(method, `/workflows/${id}`, body, "other")).status).toBe(403);
      expect((await call(method, `/workflows/${newId()}`, body)).status).toBe(404);
      expect((await call(method, "/workflows/no-uuid", body)).status).toBe(404);
      expect((await call(method, `/workflows/${id}`, body, null)).status).toBe(401);
    }
    expect((await call("GET", HERE, undefined, "other")).body).toEqual([]);
  });
});

describe("in public", () => {
  test("a workflow is shown whole for cloning, without its works for running, and else not at all", async () => {
    const { call } = setup();
    const [secret, cloned, run] = await Promise.all(
      [{}, { public_clone: true }, { public_runnable: true }].map(
        async (flags) =>
          (await call("POST", HERE, { nodes: [greet], output_mapping: { a: 1 }, ...flags })).body,
      ),
    );
    const seen = (id: string) => call("GET", `/workflows/anonymous/${id}`, undefined, null);
    expect((await seen(cloned.id)).body).toEqual(cloned);
    expect((await seen(run.id)).body).toEqual({ ...run, nodes: [], output_mapping: {} });
    expect([(await seen(secret.id)).status, (await seen(newId())).status]).toEqual([404, 404]);
  });
});

test("null puts a field of a workflow back to its default", async () => {
  const { call } = setup();
  const made = (await call("POST", HERE, { name: "A", description: "B", images: ["c"], nodes: [greet] }))
    .body;
  const cleared = { name: null, description: null, images: null, nodes: null, input_schema: null };
  const { status, body } = await call("PUT", `/workflows/${made.id}`, { ...cleared, public_clone: null });
  expect([status, body]).toEqual([
    200,
    {
      ...made,
      name: "Untitled workflow",
      description: "Untitled workflow description",
      images: [],
      nodes: [],
      updated_at: expect.any(String),
    },
  ]);
  expect((await call("PUT", `/workflows/${made.id}`, { id: null })).status).toBe(400);
});

describe("validation", () => {
  test("answers with faults of shape and of sense, and stores nothing", async () => {
    const { call, storage } = setup();
    const check = async (body: object) => (await call("POST", "/workflows/validate", body)).body;
    expect(await check({ nodes: [greet] })).toEqual({ valid: true, faults: [] });
    expect(await check({ nodes: [{ ...greet, extra: 1 }] })).toMatchObject({
      valid: false,
      faults: [{ field: "nodes.0.extra" }],
    });
    expect(await check({ nodes: [{ ...greet, name: "vars" }] })).toMatchObject({
      valid: false,
      faults: [{ field: "nodes.0.name" }],
    });
    expect(storage.reader.get("SELECT count(*) AS n FROM workflows")).toEqual({ n: 0 });
    expect(await check((await call("POST", HERE, { nodes: [greet] })).body)).toEqual({
      valid: true,
      faults: [],
    });
  });

  test("looks connections up as a save does, with all other faults", async () => {
    const { call } = setup();
    const asks = { node_type_name: "api_call", name: "ask", input_config: { url: "http://a.example/" } };
    const named = { ...asks, input_config: { ...asks.input_config, connection: "nobody" } };
    const { body } = await call("POST", "/workflows/validate", {
      nodes: [named, { ...greet, name: "vars" }],
    });
    expect(body).toMatchObject({
      valid: false,
      faults: [
        { field: "nodes.1.name" },
        { field: "nodes.0.input_config.connection", expected: "a connection of this project" },
      ],
    });
  });
});

test("the node types are listed with plain JSON Schemas", async () => {
  const { call } = setup();
  const { body } = await call("GET", "/node-types", undefined, null);
  expect(body.map(({ name }: { name: string }) => name)).toEqual(
    expect.arrayContaining(["set_variables", "api_call", "llm"]),
  );
  expect(JSON.stringify(body)).not.toContain('"~');
  expect(body[0].input_schema).toMatchObject({ type: "object", required: ["variables"] });
});

describe("for runs", () => {
  test("equal programs are stored once and an edit leaves the old one in place", async () => {
    const { workflows, storage } = setup();
    const scope = { workspace_id: "w" };
    const one = await workflows.create(CALLER, scope, { nodes: [greet] });
    await workflows.create(CALLER, scope, { nodes: [greet], name: "again" });
    const before = (await workflows.target(one.id))!;
    expect(before).toMatchObject({
      id: one.id,
      workspace_id: "w",
      project_id: "p",
      user_id: "key",
      num_runs: 0,
      run_ms_total: 0,
    });
    await workflows.update(CALLER, one.id, { nodes: [] });
    const after = (await workflows.target(one.id))!;
    expect(after.definition_hash).not.toBe(before.definition_hash);
    expect((await workflows.definition(before.definition_hash)).nodes).toHaveLength(1);
    expect((await workflows.definition(after.definition_hash)).nodes).toEqual([]);
    expect(storage.reader.get("SELECT count(*) AS n FROM definitions")).toEqual({ n: 2 });
  });

  test("an input is checked against the schema it was stored with", async () => {
    const { workflows } = setup();
    const input_schema = { required: ["name"], properties: { name: { type: "string" } } };
    const { id } = await workflows.create(CALLER, { workspace_id: "w" }, { input_schema });
    const definition = await workflows.definition((await workflows.target(id))!.definition_hash);
    expect(definition.checkInput({ name: "Ada" })).toEqual([]);
    expect(definition.checkInput({ name: 1 })).toEqual([
      { field: "name", expected: "string", received: "number" },
    ]);
    expect(definition.checkInput({})).toEqual([{ field: "name", expected: "a value", received: "nothing" }]);
  });

  test("a workflow that is not there has no target", async () => {
    expect(await setup().workflows.target(newId())).toBeUndefined();
  });
});
