import { beforeEach, describe, expect, test } from "bun:test";
import { sqliteWorkspaces } from "../../src/storage/sqlite/workspaces.ts";
import { createWorkspaces, type Workspaces } from "../../src/workspaces/service.ts";
import { TestClock } from "../helpers/clock.ts";
import { memoryStorage } from "../helpers/storage.ts";

let workspaces: Workspaces;
let clock: TestClock;
beforeEach(() => {
  clock = new TestClock();
  workspaces = createWorkspaces({ store: sqliteWorkspaces(memoryStorage()), clock });
});

describe("the default workspace", () => {
  test("is made once, with its project", async () => {
    const [first, second] = await Promise.all([workspaces.ensureDefault(), workspaces.ensureDefault()]);
    expect(second).toEqual(first);
    expect(await workspaces.list()).toMatchObject([
      { id: first.workspace_id, name: "Default", owner_email: null },
    ]);
    expect(await workspaces.projects()).toMatchObject([
      { id: first.project_id, name: "Default", workspace_id: first.workspace_id },
    ]);
  });

  test("is the oldest one where there are some already", async () => {
    const made = await workspaces.create({ name: "Mine" });
    await clock.advance(1);
    await workspaces.create({ name: "Later" });
    expect(await workspaces.ensureDefault()).toEqual({ workspace_id: made.id, project_id: made.project_id });
  });
});

describe("workspaces", () => {
  test("are created with a first project and read back", async () => {
    const { project_id, ...made } = await workspaces.create({
      name: " Shop ",
      owner_email: "ada@example.org",
    });
    expect(made).toMatchObject({
      name: "Shop",
      owner_email: "ada@example.org",
      created_at: "2026-01-01T00:00:00.000Z",
    });
    expect(await workspaces.get(made.id)).toEqual(made);
    expect(await workspaces.getProject(project_id)).toMatchObject({ workspace_id: made.id, name: "Default" });
  });

  test("get another owner, name, or none, and keep what is not given", async () => {
    const { project_id: _, ...made } = await workspaces.create({
      name: "Shop",
      owner_email: "ada@example.org",
    });
    const moved = await workspaces.update(made.id, { owner_email: "bob@example.org" });
    expect(moved).toEqual({ ...made, owner_email: "bob@example.org" });
    expect(await workspaces.update(made.id, { name: " Store " })).toEqual({ ...moved, name: "Store" });
    expect(await workspaces.update(made.id, { owner_email: null })).toMatchObject({ owner_email: null });
    expect(await workspaces.update(made.id, {})).toMatchObject({ name: "Store" });
    for (const owner_email of ["nobody", "a@b, c@d", "a@b\r\nBcc: c@d", `${"a".repeat(255)}@b`])
      await expect(workspaces.update(made.id, { owner_email })).rejects.toThrow("owner_email");
    await expect(workspaces.update(crypto.randomUUID(), { name: "x" })).rejects.toThrow("not found");
  });

  test("hold further projects, listed by workspace", async () => {
    const one = await workspaces.create({ name: "One" });
    const two = await workspaces.create({ name: "Two" });
    await clock.advance(1);
    const more = await workspaces.createProject(one.id, { name: "More" });
    expect((await workspaces.projects(one.id)).map(({ id }) => id)).toEqual([one.project_id, more.id]);
    expect((await workspaces.projects()).length).toBe(3);
    expect((await workspaces.projects(two.id)).length).toBe(1);
  });

  test("need a name, and an e-mail address that is one", async () => {
    for (const name of ["", "  ", "x".repeat(201)])
      await expect(workspaces.create({ name })).rejects.toThrow("name");
    await expect(workspaces.create({ name: "x", owner_email: "nobody" })).rejects.toThrow("owner_email");
    await expect(workspaces.createProject(crypto.randomUUID(), { name: "x" })).rejects.toThrow("not found");
    await expect(workspaces.get(crypto.randomUUID())).rejects.toThrow("not found");
    await expect(workspaces.getProject(crypto.randomUUID())).rejects.toThrow("not found");
  });
});
