import { beforeEach, describe, expect, test } from "bun:test";
import { settled } from "../helpers/clock.ts";
import { setup } from "../hooks/world.ts";

let world: Awaited<ReturnType<typeof setup>>;
let key: string;
beforeEach(async () => {
  world = await setup();
  key = await world.keyOf(world.own);
});

const DAY = 86_400_000;
const opens = async (secret: string) => (await world.send("GET", "/api/me", { key: secret })).status === 200;

describe("a key", () => {
  test("learns what it is and reaches", async () => {
    const made = await world.keys.admin.create({
      name: "CI",
      ...world.own,
      expires_at: "2026-02-01T00:00:00Z",
    });
    const me = await world.send("GET", "/api/me", { key: made.key });
    expect(me.body).toEqual({
      key_id: made.id,
      name: "CI",
      workspace: { id: world.own.workspace_id, name: "Default" },
      project: { id: world.own.project_id, name: "Default" },
      prefix: made.key.slice(0, 16),
      last_four: made.key.slice(-4),
      created_at: "2026-01-01T00:00:00.000Z",
      expires_at: "2026-02-01T00:00:00.000Z",
      last_used_at: null,
    });
  });

  test("is shown once and stored as a digest", async () => {
    const made = await world.send("POST", "/api/keys", { key, body: { name: "second" } });
    expect(made.status).toBe(201);
    expect(made.body).toMatchObject({ name: "second", ...world.own, status: "active", expires_at: null });
    expect(await opens(made.body.key)).toBe(true);
    const secret = made.body.key.slice(17, -6);
    expect(secret).toHaveLength(43);
    expect(JSON.stringify(world.db.all("SELECT * FROM keys"))).not.toContain(secret);
    for (const path of ["/api/keys", `/api/keys/${made.body.id}`]) {
      const { text } = await world.send("GET", path, { key });
      expect(text).toContain(made.body.id);
      expect(text).not.toContain(secret);
      expect(text).not.toContain("hash");
    }
  });

  test("in any malformed, foreign or mistyped form gets the same 401", async () => {
    const wrongSecret = (await world.keyOf(world.own)).slice(17);
    const answers = new Set<string>();
    for (const authorization of [
      "Bearer",
      "Bearer ",
      `Bearer  ${key}`,
      `Bearer ${key} x`,
      `Bearer ${key},${key}`,
      `Bearer ${key}, Bearer ${key}`,
      `BearerX ${key}`,
      `Basic ${btoa(`a:${key}`)}`,
      `Token ${key}`,
      key,
      `Bearer ${key.slice(0, -1)}`,
      `Bearer ${key}0`,
      `Bearer ${key.toLowerCase()}`,
      `Bearer ${key.replace("erk", "eht")}`,
      `Bearer ${key.slice(0, 17)}${wrongSecret}`,
      "Bearer erk__",
      "Bearer null",
      `Bearer ${"k".repeat(500)}`,
    ]) {
      const answer = await world.send("GET", "/api/me", { headers: { authorization } });
      const { request_id: _, ...error } = answer.body.error;
      answers.add(
        JSON.stringify({ status: answer.status, error, challenge: answer.headers.get("www-authenticate") }),
      );
    }
    expect(answers.size).toBe(1);
    expect([...answers][0]).toContain('"status":401');
  });

  test("of an unknown public id takes the look-up of a known one", async () => {
    const other = await setup();
    const unknown = await other.keyOf(other.own);
    const reads: string[] = [];
    const get = world.db.get.bind(world.db);
    world.db.get = ((sql: string, ...values: never[]) => {
      reads.push(sql);
      return get(sql, ...values);
    }) as typeof world.db.get;
    expect(await world.keys.authenticate(unknown)).toBeUndefined();
    const forUnknown = reads.splice(0);
    expect(await world.keys.authenticate(key)).toBeDefined();
    expect([forUnknown, forUnknown.length]).toEqual([reads, 1]);
  });

  test("that is mistyped is refused before any look-up", async () => {
    world.db.get = () => {
      throw new Error("looked up");
    };
    const at = 30;
    const mistyped = key.slice(0, at) + (key[at] === "a" ? "b" : "a") + key.slice(at + 1);
    expect(await world.keys.authenticate(mistyped)).toBeUndefined();
  });

  test("ends at its time, and at once when it is revoked", async () => {
    const brief = await world.keys.admin.create({
      name: "b",
      ...world.own,
      expires_at: "2026-01-01T01:00:00Z",
    });
    expect(await opens(brief.key)).toBe(true);
    await world.clock.advance(3_600_000);
    expect(await opens(brief.key)).toBe(false);
    expect((await world.keys.admin.get(brief.id)).status).toBe("expired");

    const made = (await world.send("POST", "/api/keys", { key, body: { name: "x" } })).body;
    expect((await world.send("DELETE", `/api/keys/${made.id}`, { key })).status).toBe(204);
    expect(await opens(made.key)).toBe(false);
    expect((await world.send("GET", `/api/keys/${made.id}`, { key })).body.status).toBe("revoked");
  });

  test("that ends cannot make one that outlives it", async () => {
    const ends = new Date(world.clock.now() + 3_600_000).toISOString();
    const later = new Date(world.clock.now() + 7_200_000).toISOString();
    const short = (await world.send("POST", "/api/keys", { key, body: { name: "short", expires_at: ends } }))
      .body;
    const make = async (expires_at?: string) =>
      (await world.send("POST", "/api/keys", { key: short.key, body: { name: "x", expires_at } })).status;
    expect([await make(), await make(later), await make(ends)]).toEqual([400, 400, 201]);
  });

  test("may revoke itself", async () => {
    const { key_id } = (await world.send("GET", "/api/me", { key })).body;
    expect((await world.send("DELETE", `/api/keys/${key_id}`, { key })).status).toBe(204);
    expect(await opens(key)).toBe(false);
  });

  test("has its last use on record, at most once a minute", async () => {
    const lastUse = async () => (await world.keys.admin.list())[0]!.last_used_at;
    expect(await lastUse()).toBeNull();
    await Promise.all([opens(key), opens(key)]);
    await settled();
    expect(await lastUse()).toBe("2026-01-01T00:00:00.000Z");
    await world.clock.advance(59_999);
    await opens(key);
    await settled();
    expect(await lastUse()).toBe("2026-01-01T00:00:00.000Z");
    await world.clock.advance(1);
    await opens(key);
    await settled();
    expect(await lastUse()).toBe("2026-01-01T00:01:00.000Z");
  });
});

describe("rotating a key", () => {
  const rotate = (id: string, body: object = {}) =>
    world.send("POST", `/api/keys/${id}/rotate`, { key, body });
  const another = async (expires_at: string | null = null) =>
    world.keys.admin.create({ name: "CI", ...world.own, expires_at });

  test("gives a new key; the old one works for a day more", async () => {
    const old = await another();
    const next = await rotate(old.id);
    expect(next.status).toBe(201);
    expect(next.body).toMatchObject({ name: "CI", ...world.own, expires_at: null });
    expect(next.body.id).not.toBe(old.id);
    await world.clock.advance(DAY - 1);
    expect([await opens(old.key), await opens(next.body.key)]).toEqual([true, true]);
    await world.clock.advance(1);
    expect([await opens(old.key), await opens(next.body.key)]).toEqual([false, true]);
  });

  test("with no overlap ends the old one at once", async () => {
    const old = await another();
    await rotate(old.id, { overlap_seconds: 0 });
    expect(await opens(old.key)).toBe(false);
  });

  test("never lengthens a life: an earlier end stays, the new key lives as long as the old one had", async () => {
    const old = await another("2026-01-01T10:00:00Z");
    await world.clock.advance(3_600_000);
    const next = await rotate(old.id);
    expect(next.body.expires_at).toBe("2026-01-01T11:00:00.000Z");
    expect((await world.keys.admin.get(old.id)).expires_at).toBe("2026-01-01T10:00:00.000Z");
  });

  test("that has ended is a conflict", async () => {
    const old = await another();
    await world.keys.admin.revoke(old.id);
    const before = (await world.keys.admin.list()).length;
    expect((await rotate(old.id)).status).toBe(409);
    expect((await world.keys.admin.list()).length).toBe(before);
  });

  test("of another key is refused to a key that ends, which may renew itself", async () => {
    const lasting = await another();
    const ending = await world.keys.admin.create({ name: "e", ...world.own, expires_at: "2026-01-02" });
    const by = (id: string) =>
      world.send("POST", `/api/keys/${id}/rotate`, { key: ending.key, body: { overlap_seconds: 0 } });
    expect((await by(lasting.id)).status).toBe(403);
    expect(await opens(lasting.key)).toBe(true);
    expect((await by(ending.id)).body.expires_at).toBe("2026-01-02T00:00:00.000Z");
  });

  test("takes an overlap of 0 seconds to 30 days and nothing else", async () => {
    const old = await another();
    for (const body of [
      { overlap_seconds: -1 },
      { overlap_seconds: 2_592_001 },
      { overlap_seconds: "1" },
      { x: 1 },
    ]) {
      expect((await rotate(old.id, body)).status).toBe(400);
    }
  });
});

describe("the reach of a key", () => {
  test("is its workspace for reading keys and its project for changing them", async () => {
    const sibling = await world.keys.admin.create({ name: "s", ...world.sibling });
    const foreign = await world.keys.admin.create({ name: "f", ...world.other });
    const statuses = async (id: string) => [
      (await world.send("GET", `/api/keys/${id}`, { key })).status,
      (await world.send("POST", `/api/keys/${id}/rotate`, { key, body: {} })).status,
      (await world.send("DELETE", `/api/keys/${id}`, { key })).status,
    ];
    expect(await statuses(sibling.id)).toEqual([200, 403, 403]);
    expect(await statuses(foreign.id)).toEqual([403, 403, 403]);
    expect(await statuses(crypto.randomUUID())).toEqual([404, 404, 404]);
    expect(await statuses("no-id")).toEqual([404, 404, 404]);
    expect([await opens(sibling.key), await opens(foreign.key)]).toEqual([true, true]);
  });

  test("lists its own workspace only", async () => {
    await world.keys.admin.create({ name: "s", ...world.sibling });
    await world.keys.admin.create({ name: "f", ...world.other });
    const list = await world.send("GET", "/api/keys?limit=1", { key });
    expect([list.headers.get("x-total-count"), list.body.length]).toEqual(["2", 1]);
    const own = await world.send("GET", `/api/keys?project_id=${world.own.project_id}`, { key });
    expect(own.body).toHaveLength(1);
  });

  test("ends where a request names another workspace or project, before any look-up", async () => {
    for (const query of [
      `workspace_id=${world.other.workspace_id}`,
      `workspace_id=${crypto.randomUUID()}`,
      `project_id=${world.sibling.project_id}`,
    ]) {
      expect((await world.send("GET", `/api/keys?${query}`, { key })).status).toBe(403);
    }
    for (const more of [
      { workspace_id: world.other.workspace_id },
      { project_id: world.sibling.project_id },
      { project_id: crypto.randomUUID() },
    ]) {
      expect((await world.send("POST", "/api/keys", { key, body: { name: "x", ...more } })).status).toBe(403);
    }
    expect((await world.send("POST", "/api/keys", { key, body: { name: "x", ...world.own } })).status).toBe(
      201,
    );
  });

  test("is not the caller's to write", async () => {
    for (const more of [{ id: "x" }, { created_at: "x" }, { key: "erk_x" }, { last_four: "1234" }]) {
      expect((await world.send("POST", "/api/keys", { key, body: { name: "x", ...more } })).status).toBe(400);
    }
  });
});

test("the command line cannot make a key across workspaces", async () => {
  const crossed = { workspace_id: world.own.workspace_id, project_id: world.other.project_id };
  await expect(world.keys.admin.create({ name: "x", ...crossed })).rejects.toThrow("not found");
});

test("a key that the command line lends leaves nothing, also where the program died before it was given back", async () => {
  const { admin } = world.keys;
  const lend = () => admin.lend({ name: "a chat", ...world.own, for_ms: DAY });
  const names = async () => (await admin.list()).map(({ name, status }) => `${name} ${status}`);
  const before = await names();
  const lost = await lend();
  const kept = await lend();
  expect(await opens(kept.key)).toBe(true);
  await admin.endLent(kept.id);
  expect(await opens(kept.key)).toBe(false);
  await world.clock.advance(DAY);
  expect(await opens(lost.key)).toBe(false);
  await admin.create({ name: "a chat", ...world.other, expires_at: null });
  await admin.endLent((await lend()).id);
  expect(await names()).toEqual([...before, "a chat active"]);
});
