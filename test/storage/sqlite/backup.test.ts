import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { BackupError, FolderLocked } from "../../../src/storage/folder.ts";
import { backupBeforeMigration } from "../../../src/storage/sqlite/backup.ts";
import { openWriter } from "../../../src/storage/sqlite/connection.ts";
import { sqliteFolder } from "../../../src/storage/sqlite/folder.ts";
import { migrate, NewerDatabase } from "../../../src/storage/sqlite/migrate.ts";
import { discardAfterEach, scratchFolder } from "../../helpers/folder.ts";

discardAfterEach();

const NOW = Date.UTC(2026, 0, 1);
const KEY = Buffer.alloc(32, 7).toString("base64");
const options = { version: "1.2.3", now: NOW };

/** A data folder with one workspace, its database open as a server has it. */
function setup() {
  const folder = scratchFolder();
  const db = openWriter(join(folder, "errand.db"));
  migrate(db, { now: NOW });
  const addWorkspace = (id: string) =>
    db.run("INSERT INTO workspaces (id, name, created_at) VALUES (?, ?, ?)", id, `workspace ${id}`, NOW);
  addWorkspace("w1");
  return { folder, db, addWorkspace, file: join(scratchFolder(), "saved.errand-backup") };
}

const workspacesIn = (folder: string): string[] => {
  const db = new Database(join(folder, "errand.db"));
  const rows = db.query<{ id: string }, []>("SELECT id FROM workspaces ORDER BY id").all();
  db.close();
  return rows.map((row) => row.id);
};

describe("a backup", () => {
  test("is one private file with what was committed, made beside an open database", () => {
    const { folder, file } = setup();
    const report = sqliteFolder.backup(folder, { ...options, file });
    expect(report).toMatchObject({
      file,
      version: "1.2.3",
      created_at: "2026-01-01T00:00:00.000Z",
      has_key: false,
    });
    expect(report.rows["workspaces"]).toBe(1);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(sqliteFolder.verify(file)).toEqual(report);
    expect(readdirSync(join(file, ".."))).toEqual(["saved.errand-backup"]);
  });

  test("never takes the place of another file", () => {
    const { folder, file } = setup();
    writeFileSync(file, "precious");
    expect(() => sqliteFolder.backup(folder, { ...options, file })).toThrow(BackupError);
    expect(readFileSync(file, "utf8")).toBe("precious");
  });

  test("without a name goes to the folder's own place", () => {
    const { folder } = setup();
    const { file } = sqliteFolder.backup(folder, options);
    expect(file).toBe(join(folder, "backups", "errand-2026-01-01T00-00-00-000Z.errand-backup"));
    expect(sqliteFolder.backups(folder).map((one) => one.file)).toEqual([file]);
  });

  test("of a folder without a database is refused", () => {
    expect(() => sqliteFolder.backup(scratchFolder(), options)).toThrow(BackupError);
  });

  test("that cannot be written leaves nothing", () => {
    const { folder } = setup();
    expect(() => sqliteFolder.backup(folder, { ...options, file: "/nowhere/at/all" })).toThrow(BackupError);
  });
});

describe("verifying", () => {
  test("notices a row that was added later", () => {
    const { folder, file } = setup();
    sqliteFolder.backup(folder, { ...options, file });
    const db = new Database(file);
    db.run("DELETE FROM workspaces");
    db.close();
    expect(() => sqliteFolder.verify(file)).toThrow("changed");
  });

  test("notices damage", () => {
    const { folder, file } = setup();
    sqliteFolder.backup(folder, { ...options, file });
    const content = readFileSync(file);
    content.fill(0xff, 8_192, 16_384);
    writeFileSync(file, content);
    expect(() => sqliteFolder.verify(file)).toThrow(BackupError);
  });

  test.each(["not a database at all", ""])("refuses another file: %p", (content) => {
    const file = join(scratchFolder(), "x");
    writeFileSync(file, content);
    expect(() => sqliteFolder.verify(file)).toThrow(BackupError);
  });

  test("refuses a file that is not there", () => {
    expect(() => sqliteFolder.verify("/nowhere")).toThrow("no such file");
  });
});

describe("restoring", () => {
  test("brings everything into an empty folder, and the key when it is in the file", () => {
    const { folder, file } = setup();
    sqliteFolder.backup(folder, { ...options, file, key: KEY });
    const target = join(scratchFolder(), "new");
    const report = sqliteFolder.restore(file, target, { force: false, ...options });
    expect(report).toMatchObject({ has_key: true, kept: null, folder: target });
    expect(workspacesIn(target)).toEqual(["w1"]);
    expect(readFileSync(join(target, "errand.key"), "utf8").trim()).toBe(KEY);
    expect(statSync(join(target, "errand.key")).mode & 0o777).toBe(0o600);
  });

  test("leaves no trace of the key in the database", () => {
    const { folder, file } = setup();
    sqliteFolder.backup(folder, { ...options, file, key: KEY });
    const target = scratchFolder();
    sqliteFolder.restore(file, target, { force: false, ...options });
    expect(readFileSync(file).includes(KEY)).toBe(true);
    expect(readFileSync(join(target, "errand.db")).includes(KEY)).toBe(false);
  });

  test("over a database asks for force, and keeps what was there", () => {
    const { folder, db, addWorkspace, file } = setup();
    sqliteFolder.backup(folder, { ...options, file, key: KEY });
    addWorkspace("w2");
    writeFileSync(join(folder, "errand.key"), "the old key");
    db.close();
    expect(() => sqliteFolder.restore(file, folder, { force: false, ...options })).toThrow("already");
    expect(workspacesIn(folder)).toEqual(["w1", "w2"]);
    const { kept } = sqliteFolder.restore(file, folder, { force: true, ...options });
    expect(workspacesIn(folder)).toEqual(["w1"]);
    expect(workspacesIn(kept!)).toEqual(["w1", "w2"]);
    expect(readFileSync(join(kept!, "errand.key"), "utf8")).toBe("the old key");
    expect(readFileSync(join(folder, "errand.key"), "utf8").trim()).toBe(KEY);
  });

  test("a file without the key leaves the folder's key where it is", () => {
    const { folder, db, file } = setup();
    sqliteFolder.backup(folder, { ...options, file });
    writeFileSync(join(folder, "errand.key"), "still mine");
    db.close();
    sqliteFolder.restore(file, folder, { force: true, ...options });
    expect(readFileSync(join(folder, "errand.key"), "utf8")).toBe("still mine");
  });

  test("what the old log held does not reach the restored database", () => {
    const { folder, addWorkspace, file } = setup();
    sqliteFolder.backup(folder, { ...options, file });
    addWorkspace("in the log only");
    const { kept } = sqliteFolder.restore(file, folder, { force: true, ...options });
    expect(workspacesIn(folder)).toEqual(["w1"]);
    expect(workspacesIn(kept!)).toEqual(["in the log only", "w1"]);
  });

  test("a database of a newer errand is refused before anything changes", () => {
    const { folder, db, file } = setup();
    db.run("PRAGMA user_version = 99");
    sqliteFolder.backup(folder, { ...options, file });
    const target = join(scratchFolder(), "new");
    expect(() => sqliteFolder.restore(file, target, { force: false, ...options })).toThrow(NewerDatabase);
    expect(existsSync(target)).toBe(false);
  });

  test("a folder in use is refused", () => {
    const { folder, file } = setup();
    sqliteFolder.backup(folder, { ...options, file });
    const lock = sqliteFolder.lock(folder, { version: "1" });
    expect(() => sqliteFolder.restore(file, folder, { force: true, ...options })).toThrow(FolderLocked);
    lock.release();
  });
});

describe("before a migration", () => {
  test("the database is copied aside, and the last three copies stay", () => {
    const { folder } = setup();
    for (let day = 1; day <= 5; day++) backupBeforeMigration(folder, day, NOW + day);
    const names = readdirSync(join(folder, "backups")).sort();
    expect(names).toEqual(
      [3, 4, 5].map((schema) => `before-schema-${schema}-2026-01-01T00-00-00-00${schema}Z.db`),
    );
    expect(sqliteFolder.verify(join(folder, "backups", names[0]!)).rows["workspaces"]).toBe(1);
  });

  test("migrating a folder applies every step once, and not while it is in use", () => {
    const folder = join(scratchFolder(), "new");
    const latest = sqliteFolder.latestSchema();
    expect(sqliteFolder.migrate(folder, options)).toEqual({ from: 0, to: latest });
    expect(sqliteFolder.migrate(folder, options)).toEqual({ from: latest, to: latest });
    const lock = sqliteFolder.lock(folder, { version: "1" });
    expect(() => sqliteFolder.migrate(folder, options)).toThrow(FolderLocked);
    lock.release();
  });
});

test("an inspection tells sizes, rows and the newest record", () => {
  const { folder, db } = setup();
  db.run("INSERT INTO events VALUES ('e1', 'p1', 'workflow.execution.failed', 's1', '{}', 42)");
  expect(sqliteFolder.inspect(folder)).toMatchObject({
    schema: sqliteFolder.latestSchema(),
    rows: { workspaces: 1, events: 1 },
    last_write_at: 42,
  });
  expect(sqliteFolder.inspect(scratchFolder())).toBeUndefined();
  expect(sqliteFolder.check(folder)).toEqual([]);
});
