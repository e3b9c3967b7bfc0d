import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { getTableColumns, getTableName, is, Table } from "drizzle-orm";
import { Connection } from "../../src/storage/sqlite/connection.ts";
import {
  ChangedMigration,
  ForeignDatabase,
  LateMigration,
  latestVersion,
  migrate,
  migrationStatus,
  NewerDatabase,
} from "../../src/storage/sqlite/migrate.ts";
import { migrations } from "../../src/storage/sqlite/migrations.ts";
import * as tables from "../../src/storage/sqlite/tables.ts";

const memory = () => new Connection(new Database(":memory:", { strict: true }));
const step = (version: number, sql: string) => ({ version, name: `${version}.sql`, sql });

describe("migrations", () => {
  test("the list is the folder, whole and in order", () => {
    const folder = join(import.meta.dir, "../../migrations/sqlite");
    const files = readdirSync(folder).sort();
    expect(migrations.map((one) => one.name)).toEqual(files);
    expect(migrations.map((one) => one.version)).toEqual(files.map((name) => Number(name.slice(0, 4))));
    for (const one of migrations) expect(one.sql).toBe(readFileSync(join(folder, one.name), "utf8"));
  });

  test("are applied once, each with a record of what was applied", () => {
    const db = memory();
    expect(migrate(db, { now: 7 })).toEqual({ from: 0, to: latestVersion() });
    expect(migrate(db, { now: 8 })).toEqual({ from: latestVersion(), to: latestVersion() });
    expect(migrationStatus(db)[0]).toMatchObject({ version: 1, applied_at: 7 });
  });

  test("a number that nobody took is passed over, and one that is taken later is not passed over unseen", () => {
    const db = memory();
    const list = [step(1, "CREATE TABLE a (x)"), step(3, "CREATE TABLE c (x)")];
    expect(migrate(db, { now: 0, list })).toEqual({ from: 0, to: 3 });
    expect(migrate(db, { now: 0, list })).toEqual({ from: 3, to: 3 });
    const late = [list[0]!, step(2, "CREATE TABLE b (x)"), list[1]!];
    expect(() => migrate(db, { now: 0, list: late })).toThrow(LateMigration);
  });

  test("a step that fails leaves nothing of itself and keeps the steps before it", () => {
    const db = memory();
    const list = [step(1, "CREATE TABLE a (x) "), step(2, "CREATE TABLE b (x); CREATE TABLE b (x)")];
    const silent = console.error;
    console.error = () => {};
    expect(() => migrate(db, { now: 0, list })).toThrow("already exists");
    console.error = silent;
    const names = db.all<{ name: string }>("SELECT name FROM sqlite_master WHERE name IN ('a', 'b')");
    expect(names).toEqual([{ name: "a" }]);
    expect(migrate(db, { now: 0, list: [list[0]!, step(2, "CREATE TABLE b (x)")] })).toEqual({
      from: 1,
      to: 2,
    });
  });

  test("a database of a newer errand is refused by name", () => {
    const db = memory();
    migrate(db, { now: 0, list: [step(1, "CREATE TABLE a (x)"), step(2, "CREATE TABLE b (x)")] });
    expect(() => migrate(db, { now: 0, list: [step(1, "CREATE TABLE a (x)")] })).toThrow(NewerDatabase);
  });

  test("a database that somebody else filled is not adopted", () => {
    const db = memory();
    db.run("CREATE TABLE notes (text)");
    expect(() => migrate(db, { now: 0 })).toThrow(ForeignDatabase);
    expect(db.all("SELECT name FROM sqlite_master")).toEqual([{ name: "notes" }]);
  });

  test("an applied step whose text changed is refused", () => {
    const db = memory();
    migrate(db, { now: 0, list: [step(1, "CREATE TABLE a (x)")] });
    expect(() => migrate(db, { now: 0, list: [step(1, "CREATE TABLE a (y)")] })).toThrow(ChangedMigration);
  });

  test("a database that holds something is saved before the first new step, an empty one is not", () => {
    const db = memory();
    let saved = 0;
    const beforeFirst = () => void saved++;
    migrate(db, { now: 0, beforeFirst, list: [step(1, "CREATE TABLE a (x)")] });
    expect(saved).toBe(0);
    migrate(db, {
      now: 0,
      beforeFirst,
      list: [step(1, "CREATE TABLE a (x)"), step(2, "CREATE TABLE b (x)")],
    });
    expect(saved).toBe(1);
  });
});

test("the tables that drizzle knows are the tables that the migrations make", () => {
  const db = memory();
  migrate(db, { now: 0 });
  const known = Object.values(tables).filter((value) => is(value, Table));
  expect(known.length).toBeGreaterThan(5);
  for (const table of known) {
    const columns = db.all<{ name: string; notnull: number; pk: number }>(
      `SELECT name, "notnull", pk FROM pragma_table_xinfo('${getTableName(table)}') ORDER BY cid`,
    );
    const described = Object.values(getTableColumns(table)).map((column) => ({
      name: column.name,
      required: column.notNull || column.primary,
    }));
    expect(described).toEqual(
      columns.map(({ name, notnull, pk }) => ({ name, required: notnull === 1 || pk > 0 })),
    );
  }
});
