import { describe, expect, test } from "bun:test";
import { newId } from "../../src/lib/ids.ts";
import { CALLER, greet, OTHER, setup } from "./setup.ts";

const NONE = { concurrency: null, run_timeout_seconds: null, failure_workflow_id: null, retention: null };

async function settingsWorld(body: object = {}) {
  const world = setup();
  const { workflows } = world;
  const one = await workflows.create(CALLER, { workspace_id: "w" }, body);
  const other = await workflows.create(CALLER, { workspace_id: "w" }, {});
  const foreign = await workflows.create(OTHER, { workspace_id: "w" }, {});
  const path = `/workflows/${one.id}/settings`;
  const put = (sent: unknown) => world.call("PUT", path, sent);
  const fields = async (sent: unknown) => {
    const { status, body } = await put(sent);
    return [status, ...(body.error.faults ?? []).map(({ field }: { field: string }) => field)];
  };
  return { ...world, one, other, foreign, path, put, fields };
}

describe("settings beside a workflow", () => {
  test("are nothing at first, take what is sent and keep the rest, and null clears", async () => {
    const { call, path, put, other } = await settingsWorld();
    expect((await call("GET", path)).body).toEqual(NONE);
    const concurrency = { limit: 2, key: "{{ inputs.customer }}" };
    expect((await put({ concurrency, failure_workflow_id: other.id })).body).toEqual({
      ...NONE,
      concurrency,
      failure_workflow_id: other.id,
    });
    expect((await put({ retention: { days: 7 }, concurrency: null })).body).toEqual({
      ...NONE,
      failure_workflow_id: other.id,
      retention: { days: 7, max_executions: null },
    });
    expect((await call("GET", path)).body.retention).toEqual({ days: 7, max_executions: null });
  });

  test("are known to whoever starts a run, by the read that finds the workflow", async () => {
    const { workflows, one, put } = await settingsWorld();
    expect(await workflows.settings(one.id)).toEqual(NONE);
    await put({ run_timeout_seconds: 60, concurrency: { limit: 1 } });
    const set = { ...NONE, run_timeout_seconds: 60, concurrency: { limit: 1, key: null } };
    expect(await workflows.settings(one.id)).toEqual(set);
    expect((await workflows.target(one.id))?.settings).toEqual(set);
    expect(await workflows.settings(newId())).toBeUndefined();
  });

  test("of two changes at once to different fields both stay", async () => {
    const { call, path, put } = await settingsWorld();
    await Promise.all([put({ run_timeout_seconds: 5 }), put({ retention: { max_executions: 10 } })]);
    expect((await call("GET", path)).body).toMatchObject({
      run_timeout_seconds: 5,
      retention: { days: null, max_executions: 10 },
    });
  });

  test("leave the workflow's own shape alone", async () => {
    const { call, one, put } = await settingsWorld();
    await put({ run_timeout_seconds: 5 });
    expect((await call("GET", `/workflows/${one.id}`)).body).toEqual(one);
  });

  test("are refused with every fault", async () => {
    const { fields } = await settingsWorld({ input_schema: { properties: { name: {} } } });
    expect(await fields({ concurrency: { limit: 0 }, retention: { days: 1.5 }, colour: 1 })).toEqual(
      expect.arrayContaining([400, "colour", "concurrency.limit", "retention.days"]),
    );
    expect(await fields({ concurrency: { limit: 1, key: "{{ nobody }}" } })).toEqual([
      400,
      "concurrency.key",
    ]);
    expect(await fields({ concurrency: { limit: 1, key: "{{ name" } })).toEqual([400, "concurrency.key"]);
    expect(await fields({ run_timeout_seconds: 0 })).toEqual([400, "run_timeout_seconds"]);
    expect(await fields([])).toEqual([400, ""]);
  });

  test("name a failure workflow of the same project, and not the workflow itself", async () => {
    const { put, one, foreign } = await settingsWorld({ nodes: [greet] });
    const status = async (failure_workflow_id: string) => (await put({ failure_workflow_id })).status;
    expect(await status(one.id)).toBe(400);
    expect(await status(foreign.id)).toBe(403);
    expect(await status(newId())).toBe(404);
    expect(await status("none")).toBe(404);
  });

  test("belong to the project", async () => {
    const { call, path } = await settingsWorld();
    expect((await call("GET", path, undefined, "other")).status).toBe(403);
    expect((await call("PUT", path, {}, "other")).status).toBe(403);
    expect((await call("GET", `/workflows/${newId()}/settings`)).status).toBe(404);
  });
});
