import { describe, expect, test } from "bun:test";
import { newId } from "../../src/lib/ids.ts";
import { CALLER, greet, setup } from "./setup.ts";

const HERE = "?workspace_id=w";

const ask = {
  node_type_name: "api_call",
  name: "ask",
  input_config: {
    url: "https://api.example/things?token=canary-one",
    headers: { Authorization: "Bearer canary-two-two", "X-Api-Key": "canary-three", Accept: "text/plain" },
    body: { password: "canary-four", secret: "{{ inputs.secret }}", key: "name" },
  },
};

describe("a workflow in one file", () => {
  test("comes back as it went, settings included, as a new workflow", async () => {
    const { call, workflows } = setup();
    const made = await workflows.create(
      CALLER,
      { workspace_id: "w" },
      {
        name: "Résumé / of things",
        nodes: [greet],
        input_schema: { properties: { name: { type: "string", ui_metadata: { value: "Ada" } } } },
        output_mapping: { text: "{{ greet.text }}" },
      },
    );
    const other = await workflows.create(CALLER, { workspace_id: "w" }, {});
    await workflows.updateSettings(CALLER, made.id, {
      retention: { days: 3 },
      failure_workflow_id: other.id,
    });
    const file = await call("GET", `/workflows/${made.id}/export`);
    expect(file.headers.get("content-disposition")).toBe(
      'attachment; filename="r-sum-of-things.workflow.json"',
    );
    expect(JSON.stringify(file.body)).not.toContain(other.id);
    const { status, body } = await call("POST", `/workflows/import${HERE}`, file.body);
    expect(status).toBe(201);
    expect(body).toEqual({ ...made, id: expect.any(String) });
    expect(body.id).not.toBe(made.id);
    expect(await workflows.settings(body.id)).toMatchObject({
      retention: { days: 3 },
      failure_workflow_id: null,
    });
  });

  test("holds no credentials, and says where they were", async () => {
    const { call, workflows } = setup();
    const { id } = await workflows.create(CALLER, { workspace_id: "w" }, { nodes: [ask] });
    const { body } = await call("GET", `/workflows/${id}/export`);
    expect(JSON.stringify(body)).not.toContain("canary");
    expect(body.removed).toEqual([
      "nodes.0.input_config.url",
      "nodes.0.input_config.headers.Authorization",
      "nodes.0.input_config.headers.X-Api-Key",
      "nodes.0.input_config.body.password",
    ]);
    expect(body.workflow.nodes[0].input_config).toMatchObject({
      headers: { Accept: "text/plain" },
      body: { secret: "{{ inputs.secret }}", key: "name" },
    });
  });

  test("is refused with every fault, and nothing is made", async () => {
    const { call, storage } = setup();
    const whole = { format: "errand.workflow", format_version: 1, workflow: { nodes: [greet] } };
    const refused = async (body: unknown) => {
      const answer = await call("POST", `/workflows/import${HERE}`, body);
      return [answer.status, answer.body.error.details?.field];
    };
    expect(await refused({ ...whole, format: "n8n" })).toEqual([400, "format"]);
    expect(await refused({ ...whole, format_version: 2 })).toEqual([400, "format_version"]);
    expect(await refused({ ...whole, workflow: { nodes: [{ ...greet, name: "run" }] } })).toEqual([
      400,
      "nodes.0.name",
    ]);
    expect(await refused({ ...whole, workflow: { id: newId() } })).toEqual([400, "workflow.id"]);
    expect(await refused({ ...whole, settings: { concurrency: { limit: -1 } } })).toEqual([
      400,
      "settings.concurrency.limit",
    ]);
    expect(await refused({ ...whole, settings: { concurrency: { limit: 1, key: "{{ name" } } })).toEqual([
      400,
      "settings.concurrency.key",
    ]);
    expect(await refused({ ...whole, settings: { failure_workflow_id: newId() } })).toEqual([
      400,
      "settings.failure_workflow_id",
    ]);
    expect(storage.reader.get("SELECT count(*) AS n FROM workflows")).toEqual({ n: 0 });
  });

  test("belongs to the project", async () => {
    const { call, workflows } = setup();
    const { id } = await workflows.create(CALLER, { workspace_id: "w" }, {});
    expect((await call("GET", `/workflows/${id}/export`, undefined, "other")).status).toBe(403);
    expect((await call("GET", `/workflows/${newId()}/export`)).status).toBe(404);
  });
});
