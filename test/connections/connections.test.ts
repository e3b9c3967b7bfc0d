import { describe, expect, test } from "bun:test";
import { secretsOf } from "../../src/connections/conceal.ts";
import { createConnections } from "../../src/connections/service.ts";
import { conceal, concealBytes } from "../../src/lib/conceal.ts";
import { openVault } from "../../src/lib/vault.ts";
import { sqliteConnections } from "../../src/storage/sqlite/connections.ts";
import { TestClock } from "../helpers/clock.ts";
import { connectionsOf } from "../helpers/connections.ts";
import { memoryStorage } from "../helpers/storage.ts";

const mine = { key_id: "k", workspace_id: "w", project_id: "p" };
const other = { key_id: "k", workspace_id: "w", project_id: "q" };
const page = { limit: 100, offset: 0 };
const CANARY = "canary-token-1";
const github = {
  name: "github",
  type: "bearer" as const,
  config: { token: CANARY, hosts: ["api.github.com"] },
};
const post = {
  name: "post",
  type: "smtp" as const,
  config: { host: "mail.example", username: "u", password: "canary-pass", from: "a@b.example" },
};

function setup() {
  const storage = memoryStorage();
  const connections = connectionsOf(storage, new TestClock());
  return { storage, connections };
}

describe("a connection", () => {
  test("shows what it holds, its secret left out, in every answer", async () => {
    const { connections } = setup();
    const made = await connections.create(mine, {}, github);
    expect(made).toMatchObject({
      name: "github",
      type: "bearer",
      config: { hosts: ["api.github.com"] },
      project_id: "p",
    });
    const listed = await connections.list(mine, page);
    expect(listed).toMatchObject({ total: 1, items: [made] });
    const changed = await connections.update(mine, made.id, { name: "hub" });
    expect(JSON.stringify([made, listed, changed, await connections.get(mine, made.id)])).not.toContain(
      "canary",
    );
  });

  test("is sealed on disk, and opens for its own row alone", async () => {
    const { storage, connections } = setup();
    const a = await connections.create(mine, {}, github);
    const b = await connections.create(mine, {}, { ...github, name: "second" });
    const rows = storage.reader.all<{ id: string; secret: string }>("SELECT * FROM connections");
    expect(JSON.stringify(rows)).not.toContain("canary");
    const moved = rows.find((row) => row.id === a.id)!.secret;
    storage.reader.run("UPDATE connections SET secret = ? WHERE id = ?", moved, b.id);
    await expect(connections.open("p", b.id)).rejects.toThrow("belongs to another place");
    const wrongKey = createConnections({
      store: sqliteConnections(storage),
      vault: openVault({ secret_key: Buffer.alloc(32, 8).toString("base64"), data: "/nonexistent" }),
      clock: new TestClock(),
    });
    await expect(wrongKey.open("p", a.id)).rejects.toThrow("was sealed with key");
  });

  test("opens by name and by id, for its own project alone", async () => {
    const { connections } = setup();
    const { id } = await connections.create(mine, {}, github);
    expect(await connections.open("p", "github")).toMatchObject({ type: "bearer", token: CANARY });
    expect(await connections.open("p", id)).toMatchObject({ name: "github" });
    expect(await connections.open("q", "github")).toBeUndefined();
    expect(await connections.open("q", id)).toBe("foreign");
    expect(await connections.open("p", "nothing")).toBeUndefined();
  });

  test("has one name in its project", async () => {
    const { connections } = setup();
    await connections.create(mine, {}, github);
    const second = await connections.create(mine, {}, { ...github, name: "second" });
    await expect(connections.create(mine, {}, github)).rejects.toMatchObject({ code: "conflict" });
    await expect(connections.update(mine, second.id, { name: "github" })).rejects.toMatchObject({
      code: "conflict",
    });
    await connections.create(other, {}, github);
    const both = await Promise.allSettled(
      [1, 2].map(() => connections.create(mine, {}, { ...github, name: "race" })),
    );
    expect(both.map((one) => one.status).sort()).toEqual(["fulfilled", "rejected"]);
  });

  test("is out of another project's reach", async () => {
    const { connections } = setup();
    const { id } = await connections.create(mine, {}, github);
    for (const verb of [connections.get, connections.remove] as ((
      caller: typeof mine,
      id: string,
    ) => Promise<unknown>)[]) {
      await expect(verb(other, id)).rejects.toMatchObject({ code: "forbidden" });
      await expect(verb(mine, "no-id")).rejects.toMatchObject({ code: "not_found" });
    }
    await expect(connections.update(other, id, { name: "x" })).rejects.toMatchObject({ code: "forbidden" });
    await expect(connections.create(mine, { project_id: "q" }, github)).rejects.toMatchObject({
      code: "forbidden",
    });
    await expect(connections.list(mine, { ...page, workspace_id: "v" })).rejects.toMatchObject({
      code: "forbidden",
    });
    expect((await connections.list(other, page)).total).toBe(0);
  });

  test("keeps the fields that a change does not name, and loses those it clears", async () => {
    const { connections } = setup();
    const { id } = await connections.create(mine, {}, post);
    await connections.update(mine, id, { config: { from: null } });
    expect(await connections.open("p", id)).toMatchObject({ password: "canary-pass", host: "mail.example" });
    expect(await connections.open("p", id)).not.toHaveProperty("from");
    await connections.update(mine, id, { config: { password: "another" } });
    expect(await connections.open("p", id)).toMatchObject({ password: "another" });
    await expect(connections.update(mine, id, { config: { password: null } })).rejects.toMatchObject({
      code: "invalid_input",
    });
  });

  test.each([
    [post, { host: "evil.example" }, { password: "canary-pass" }],
    [post, { port: 2525 }, { password: "canary-pass" }],
    [github, { hosts: null }, { token: CANARY }],
    [github, { hosts: ["evil.example"] }, { token: CANARY }],
  ])("is sent elsewhere only by one who knows its secret", async (connection, elsewhere, secret) => {
    const { connections } = setup();
    const { id } = await connections.create(mine, {}, connection);
    await expect(connections.update(mine, id, { config: elsewhere })).rejects.toMatchObject({
      code: "invalid_input",
    });
    await connections.update(mine, id, { config: { ...elsewhere, ...secret } });
    expect(await connections.open("p", id)).toMatchObject(secret);
  });

  test("two changes at one moment are both kept", async () => {
    const { connections } = setup();
    const { id } = await connections.create(mine, {}, post);
    await Promise.all([
      connections.update(mine, id, { config: { from: "c@d.example" } }),
      connections.update(mine, id, { config: { username: "v" } }),
      connections.update(mine, id, { name: "renamed" }),
    ]);
    expect(await connections.open("p", "renamed")).toMatchObject({ from: "c@d.example", username: "v" });
  });

  test.each([
    ["bearer", {}],
    ["bearer", { token: "" }],
    ["bearer", { token: 5 }],
    ["bearer", { token: "a\nb" }],
    // Too short to be taken out of what a server says back.
    ["bearer", { token: "abcd" }],
    ["basic", { username: "a", password: "abcd" }],
    ["header", { header: "x-key", value: "abcd" }],
    ["bearer", { token: "abcde", extra: 1 }],
    ["bearer", { token: "abcde", hosts: ["https://x"] }],
    ["basic", { username: "a:b", password: "abcde" }],
    ["header", { header: "content-length", value: "12345" }],
    ["header", { header: "a b", value: "12345" }],
    ["smtp", { host: "a b" }],
    ["smtp", { host: "x", username: "u" }],
    ["smtp", { host: "x", username: "u", password: "p", security: "auto" }],
    ["smtp", { host: "x", from: "nobody" }],
    ["smtp", { host: "x", port: 0 }],
    ["model", { provider: "Open AI", api_key: "abcde" }],
    ["model", { provider: "openai" }],
  ] as const)("of type %s with %j is refused, field by field", async (type, config) => {
    const { connections } = setup();
    const refused = await connections.create(mine, {}, { name: "x", type, config }).catch((error) => error);
    expect(refused).toMatchObject({ code: "invalid_input" });
    expect(refused.extra.faults.every((fault: { field: string }) => fault.field.startsWith("config"))).toBe(
      true,
    );
  });

  test("is refused as a reference when it is not there, of another project or of another kind", async () => {
    const { connections } = setup();
    await connections.create(mine, {}, github);
    const { id } = await connections.create(other, {}, { ...github, name: "theirs" });
    const fault = (ref: string, types: ("bearer" | "smtp")[]) =>
      connections.referenceFault(mine, ref, types, "f");
    expect(await fault("github", ["bearer"])).toBeUndefined();
    expect(await fault("github", ["smtp"])).toMatchObject({ field: "f", received: "bearer" });
    expect(await fault("theirs", ["bearer"])).toMatchObject({ field: "f" });
    await expect(fault(id, ["bearer"])).rejects.toMatchObject({ code: "forbidden" });
  });
});

describe("concealing", () => {
  const secrets = secretsOf({ type: "basic", id: "1", name: "n", username: "u", password: 'p"ss wörd' });

  test.each([
    'x p"ss wörd y',
    JSON.stringify({ a: 'p"ss wörd' }),
    encodeURIComponent('p"ss wörd'),
    Buffer.from('u:p"ss wörd').toString("base64"),
    Buffer.from('p"ss wörd').toString("base64"),
  ])("finds the secret in %j", (text) => {
    expect(conceal(text, secrets)).toContain("[secret]");
    expect(conceal(text, secrets)).not.toContain("ss");
    expect(Buffer.from(concealBytes(Buffer.from(text), secrets)).toString()).toBe(conceal(text, secrets));
  });

  test("leaves other bytes as they are", () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, index) => index);
    expect(concealBytes(bytes, secrets)).toEqual(bytes);
    const around = Buffer.concat([bytes, Buffer.from('p"ss wörd'), bytes]);
    expect(concealBytes(around, secrets)).toEqual(Buffer.concat([bytes, Buffer.from("[secret]"), bytes]));
  });
});
