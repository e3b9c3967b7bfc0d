import { Database } from "bun:sqlite";
import { existsSync, statSync } from "node:fs";
import type { Inspection } from "../folder.ts";
import { databasePath } from "./paths.ts";

/** Opens for looking only; works beside a running server, and on a database that this program does not know. */
export function openToRead(path: string): Database {
  const db = new Database(path, { readonly: true, strict: true });
  db.run("PRAGMA busy_timeout = 5000");
  db.run("PRAGMA trusted_schema = OFF");
  return db;
}

const pragma = (db: Database, name: string): number =>
  Number(Object.values(db.query(`PRAGMA ${name}`).get() as Record<string, number>)[0]);

export const schemaOf = (db: Database): number => pragma(db, "user_version");

/** Rows of each table, by name; what SQLite and the migrations keep for themselves is left out. */
export function countRows(db: Database): Record<string, number> {
  const tables = db
    .query<{ name: string }, []>(
      `SELECT name FROM sqlite_master WHERE type = 'table'
       AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT IN ('schema_migrations', 'backup_meta') ORDER BY name`,
    )
    .all();
  const rows: Record<string, number> = {};
  for (const { name } of tables) {
    rows[name] = db.query<{ n: number }, []>(`SELECT count(*) AS n FROM "${name}"`).get()!.n;
  }
  return rows;
}

/** Cheap: reads one page. Undefined where there is no database. */
export function folderSchema(folder: string): number | undefined {
  const path = databasePath(folder);
  if (!existsSync(path)) return undefined;
  const db = openToRead(path);
  try {
    return schemaOf(db);
  } finally {
    db.close();
  }
}

export function inspectFolder(folder: string): Inspection | undefined {
  const path = databasePath(folder);
  if (!existsSync(path)) return undefined;
  const db = openToRead(path);
  try {
    const page = pragma(db, "page_size");
    const rows = countRows(db);
    return {
      path,
      schema: schemaOf(db),
      bytes: pragma(db, "page_count") * page,
      free_bytes: pragma(db, "freelist_count") * page,
      log_bytes: statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0,
      rows,
      sentinel: "settings" in rows ? sentinelOf(db) : undefined,
      last_write_at: newest(db, rows),
      given_up: "executions" in rows ? givenUp(db, Date.now() - WEEK_MS) : [],
    };
  } finally {
    db.close();
  }
}

const sentinelOf = (db: Database) =>
  db.query<{ value: string }, []>("SELECT value FROM settings WHERE name = 'vault'").get()?.value;

const WEEK_MS = 7 * 86_400_000;
const MOST_NAMED = 10;

// Ids begin with their time: only the last week's rows are looked at.
function givenUp(db: Database, since: number): string[] {
  const time = Math.max(0, since).toString(16).padStart(12, "0");
  const first = `${time.slice(0, 8)}-${time.slice(8)}-`;
  return db
    .query<{ id: string }, [string, number]>(
      `SELECT id FROM executions WHERE id >= ? AND state = 'failed' AND error LIKE '{"code":"CRASH_LOOP"%'
       ORDER BY id DESC LIMIT ?`,
    )
    .all(first, MOST_NAMED)
    .map(({ id }) => id);
}

const DATED = ["executions", "turns", "messages", "events"];

// Ids sort by time (UUIDv7), so the last row is the newest.
function newest(db: Database, rows: Record<string, number>): number | null {
  const times = DATED.filter((table) => table in rows).map(
    (table) =>
      db.query<{ at: number }, []>(`SELECT created_at AS at FROM ${table} ORDER BY id DESC LIMIT 1`).get()
        ?.at ?? 0,
  );
  return Math.max(0, ...times) || null;
}

/** What is wrong with a database, each in a line; nothing when it is sound. */
export function checkDatabase(db: Database): string[] {
  const faults = db
    .query<{ quick_check: string }, []>("PRAGMA quick_check(20)")
    .all()
    .map((row) => row.quick_check)
    .filter((line) => line !== "ok");
  const orphans = db.query("PRAGMA foreign_key_check").all().length;
  return orphans > 0 ? [...faults, `${orphans} rows refer to rows that are not there`] : faults;
}

export function checkFolder(folder: string): string[] {
  const path = databasePath(folder);
  if (!existsSync(path)) return [];
  const db = openToRead(path);
  try {
    return checkDatabase(db);
  } catch (error) {
    return [(error as Error).message];
  } finally {
    db.close();
  }
}
