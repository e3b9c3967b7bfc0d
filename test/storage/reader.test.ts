import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openReader, openWriter } from "../../src/storage/sqlite/connection.ts";
import { migrate } from "../../src/storage/sqlite/migrate.ts";

const folder = mkdtempSync(join(tmpdir(), "errand-test-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let files = 0;
function setup() {
  const path = join(folder, `${files++}.db`);
  const writer = openWriter(path);
  migrate(writer, { now: 0 });
  writer.run("CREATE TABLE t (x INTEGER) STRICT");
  const reader = openReader(path);
  const count = () => reader.get<{ n: number }>("SELECT count(*) AS n FROM t")!.n;
  const add = () => writer.run("INSERT INTO t VALUES (1)");
  return { reader, writer, count, add };
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

describe("reads of one turn", () => {
  test("see one state of the database, and the next turn sees what came since", async () => {
    const { count, add } = setup();
    expect(count()).toBe(0);
    add();
    expect(count()).toBe(0);
    await nextTurn();
    expect(count()).toBe(1);
  });

  test("see a commit as soon as somebody is told of it", () => {
    const { reader, count, add } = setup();
    expect(count()).toBe(0);
    add();
    reader.refresh();
    expect(count()).toBe(1);
  });

  test("that ask for the same thing ask the database once", async () => {
    const { reader, count, add } = setup();
    let asked = 0;
    const shared = () =>
      reader.shared("count", () => {
        asked++;
        return count();
      });
    expect([shared(), shared(), asked]).toEqual([0, 0, 1]);
    add();
    await nextTurn();
    expect([shared(), asked]).toEqual([1, 2]);
  });

  test("that share something share it until somebody commits", async () => {
    const { reader, count, add } = setup();
    let asked = 0;
    const shared = () => reader.shared("count", () => ++asked && count());
    expect(shared()).toBe(0);
    await nextTurn();
    reader.refresh();
    expect([shared(), asked]).toEqual([0, 1]);
    await nextTurn();
    add();
    expect([shared(), asked]).toEqual([1, 2]);
    for (let n = 0; n < 1_100; n++) reader.shared(`key ${n}`, () => n);
    await nextTurn();
    expect([shared(), asked]).toEqual([1, 3]);
  });

  test("keep what they know of subscriptions until one of them is changed, by whomever, and no longer", async () => {
    const path = join(folder, `${files++}.db`);
    const writer = openWriter(path);
    migrate(writer, { now: 0 });
    const add = (id: string) =>
      writer.run(
        `INSERT INTO subscriptions (id, workspace_id, project_id, name, url, events, status, secret, created_at)
         VALUES (?, 'w', 'p', 'n', 'u', '[]', 'active', 's', 0)`,
        id,
      );
    add("a");
    const reader = openReader(path);
    let asked = 0;
    const status = () =>
      reader.kept("subscriptions", "a", () => {
        asked++;
        return reader.get<{ status: string }>("SELECT status FROM subscriptions WHERE id = 'a'")?.status;
      });
    const next = async (change: () => unknown) => {
      await nextTurn();
      change();
      return [status(), asked];
    };
    expect([status(), status(), asked]).toEqual(["active", "active", 1]);
    const counted = "UPDATE subscriptions SET total_deliveries = 7, last_delivery_at = 1, line_head = 'x'";
    expect(await next(() => writer.run(counted))).toEqual(["active", 1]);
    expect(await next(() => writer.run("UPDATE subscriptions SET status = 'paused'"))).toEqual(["paused", 2]);
    expect(await next(() => add("b"))).toEqual(["paused", 3]);
    expect(await next(() => writer.run("DELETE FROM subscriptions WHERE id = 'a'"))).toEqual([undefined, 4]);
    for (let n = 0; n < 1_100; n++) reader.kept("subscriptions", `key ${n}`, () => n);
    expect(await next(() => {})).toEqual([undefined, 5]);
    reader.close();
  });

  test("go on after a failure that ended what they saw", () => {
    const { reader, count, add } = setup();
    expect(count()).toBe(0);
    reader.raw.run("ROLLBACK"); // as SQLite does by itself on an I/O error
    add();
    reader.refresh();
    expect(count()).toBe(1);
  });

  test("cannot write", () => {
    const { reader } = setup();
    expect(() => reader.run("INSERT INTO t VALUES (1)")).toThrow();
    reader.close();
  });
});

test("a snapshot whose first read fails ends with its turn", async () => {
  const { reader, count, add } = setup();
  const { prepare } = reader.raw;
  const failing = (sql: string) => {
    if (!sql.includes("data_version")) return prepare.call(reader.raw, sql);
    reader.raw.prepare = prepare;
    throw new Error("disk I/O error");
  };
  reader.raw.prepare = failing as typeof prepare;
  expect(count).toThrow("disk I/O error");
  expect(count()).toBe(0);
  add();
  await nextTurn();
  expect(count()).toBe(1);
});

describe("what is kept", () => {
  // Whoever adds a column decides: a new one counts unless it is listed here.
  const COUNTED = {
    hook_tokens: ["last_used_at"],
    workflows: ["num_likes", "num_runs", "num_views", "run_ms_total", "created_at", "updated_at"],
    subscriptions: [
      "id",
      "total_deliveries",
      "successful_deliveries",
      "failed_deliveries",
      "last_delivery_at",
      "created_at",
      "updated_at",
      "failing_since",
      "line_head",
      "batch_id",
      "batch_events",
      "batch_bytes",
    ],
  };

  for (const [table, counted] of Object.entries(COUNTED)) {
    test(`is read anew when any column of ${table} but its counters is set`, () => {
      const { writer } = setup();
      const [{ sql }] = writer.all<{ sql: string }>(
        "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = ?",
        `${table}_changed`,
      ) as [{ sql: string }];
      const watched = /UPDATE OF\s([\s\S]*?)\sON /
        .exec(sql)![1]!
        .split(",")
        .map((name) => name.trim());
      const columns = writer.all<{ name: string }>("SELECT name FROM pragma_table_info(?)", table);
      expect(watched.toSorted()).toEqual(
        columns
          .map(({ name }) => name)
          .filter((name) => !counted.includes(name))
          .toSorted(),
      );
      const triggers = writer.all(
        "SELECT 1 FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?",
        table,
      );
      expect(triggers.length).toBe(3);
    });
  }
});
