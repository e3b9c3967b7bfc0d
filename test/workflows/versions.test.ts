import { describe, expect, test } from "bun:test";
import { CALLER, greet, setup } from "./setup.ts";

async function versionsWorld() {
  const world = setup();
  const { call, workflows } = world;
  const { id } = await workflows.create(CALLER, { workspace_id: "w" }, { nodes: [greet] });
  const path = `/workflows/${id}`;
  const save = (...names: string[]) =>
    call("PUT", path, { nodes: names.map((name) => ({ ...greet, name })) });
  const runs = async () => {
    const target = (await workflows.target(id))!;
    return (await workflows.definition(target.definition_hash)).nodes.map(({ name }) => name);
  };
  const draft = async () =>
    (await call("GET", path)).body.nodes.map(({ name }: { name: string }) => name) as string[];
  return { ...world, id, path, save, runs, draft };
}

describe("what runs", () => {
  test("is the draft until a version is published, then that version, whatever is saved", async () => {
    const { call, path, save, runs, draft } = await versionsWorld();
    await save("a");
    expect(await runs()).toEqual(["a"]);
    const { status, body } = await call("POST", `${path}/publish`, { description: "first" });
    expect([status, body.published]).toMatchObject([
      200,
      { version: 1, description: "first", is_published: true, is_draft: true, created_by: "key" },
    ]);
    await save("a", "b");
    expect([await runs(), await draft()]).toEqual([["a"], ["a", "b"]]);
    await call("POST", `${path}/publish`, {});
    expect(await runs()).toEqual(["a", "b"]);
  });

  test("is an older version when that is published again, and the draft when none is", async () => {
    const { call, path, save, runs } = await versionsWorld();
    await call("POST", `${path}/publish`, {});
    await save("later");
    await call("POST", `${path}/publish`, {});
    expect((await call("POST", `${path}/publish`, { version: 1 })).body.published).toMatchObject({
      version: 1,
      is_draft: false,
    });
    expect(await runs()).toEqual(["greet"]);
    expect((await call("POST", `${path}/publish`, { version: null })).body).toEqual({ published: null });
    expect(await runs()).toEqual(["later"]);
    expect((await call("POST", `${path}/publish`, { version: 9 })).status).toBe(404);
    expect((await call("POST", `${path}/publish`, { version: 0 })).status).toBe(400);
  });
});

describe("versions", () => {
  test("are kept without being run, listed newest first and read with their program", async () => {
    const { call, path, save, id } = await versionsWorld();
    const made = await call("POST", `${path}/versions`, { description: "one" });
    expect([made.status, made.body]).toEqual([
      201,
      {
        workflow_id: id,
        version: 1,
        description: "one",
        is_published: false,
        is_draft: true,
        created_by: "key",
        created_at: "2026-01-01T00:00:00.000Z",
      },
    ]);
    await save("x");
    await call("POST", `${path}/versions`, {});
    const list = await call("GET", `${path}/versions?limit=1`);
    expect(list.body.map(({ version }: { version: number }) => version)).toEqual([2]);
    expect(list.headers.get("x-total-count")).toBe("2");
    const one = (await call("GET", `${path}/versions/1`)).body;
    expect([one.version, one.nodes[0].name, one.output_mapping]).toEqual([1, "greet", {}]);
  });

  test("come back as the draft, and what is published stays", async () => {
    const { call, path, save, draft, runs } = await versionsWorld();
    await call("POST", `${path}/versions`, {});
    await save("x");
    await call("POST", `${path}/publish`, {});
    expect((await call("POST", `${path}/versions/1/restore`)).body.nodes[0].name).toBe("greet");
    expect([await draft(), await runs()]).toEqual([["greet"], ["x"]]);
  });

  test("of two kept at once have numbers of their own", async () => {
    const { call, path } = await versionsWorld();
    const made = await Promise.all([1, 2, 3].map(() => call("POST", `${path}/versions`, {})));
    expect(made.map(({ body }) => body.version).sort()).toEqual([1, 2, 3]);
  });

  test("that are not there are not found, and others' are out of reach", async () => {
    const { call, path } = await versionsWorld();
    for (const version of ["1", "0", "-1", "1.5", "abc", "9999999999999999999"]) {
      expect((await call("GET", `${path}/versions/${version}`)).status).toBe(404);
    }
    await call("POST", `${path}/versions`, {});
    for (const version of ["1e0", "0x1", "+1", "%201"]) {
      expect((await call("GET", `${path}/versions/${version}`)).status).toBe(404);
    }
    expect((await call("GET", `${path}/versions/1`, undefined, "other")).status).toBe(403);
    expect((await call("POST", `${path}/versions/1/restore`, undefined, "other")).status).toBe(403);
    expect((await call("POST", `${path}/publish`, {}, "other")).status).toBe(403);
  });

  test("go with the workflow", async () => {
    const { call, path, storage } = await versionsWorld();
    await call("POST", `${path}/publish`, {});
    await call("DELETE", path);
    expect(storage.reader.get("SELECT count(*) AS n FROM workflow_versions")).toEqual({ n: 0 });
  });
});
