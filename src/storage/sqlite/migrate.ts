import { createHash } from "node:crypto";
import { migrate as applyMigrations, getDatabaseVersion } from "bun-sqlite-migrations";
import type { Connection } from "./connection.ts";
import { migrations } from "./migrations.ts";

export type Migration = { version: number; name: string; sql: string };

/** The database was written by a newer Errand; this one would not understand it. */
export class NewerDatabase extends Error {
  constructor(
    readonly found: number,
    readonly known: number,
  ) {
    super(`the database has schema ${found}, this errand knows up to ${known}`);
  }
}

/** A migration that has been applied no longer has the text it was applied with. */
export class ChangedMigration extends Error {
  constructor(readonly migration: string) {
    super(`migration ${migration} was applied with another text`);
  }
}

/** A migration came into the list behind one that has been applied already: it would never be applied. */
export class LateMigration extends Error {
  constructor(
    readonly migration: string,
    readonly found: number,
  ) {
    super(`migration ${migration} is missing from a database that has schema ${found} already`);
  }
}

/** The file is a database, and somebody else's. */
export class ForeignDatabase extends Error {
  constructor() {
    super("the database holds tables that are not Errand's");
  }
}

/** A step of those that are to be applied: the `at`th `of` them. */
export type Step = { name: string; at: number; of: number };

export type MigrationStatus = { version: number; name: string; applied_at: number | null };

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
export const latestVersion = (list: Migration[] = migrations) => list.at(-1)?.version ?? 0;
export const schemaVersion = (db: Connection) => getDatabaseVersion(db.raw);

/** What was applied and when, and what would be. Throws on a newer database or a changed text. */
export function migrationStatus(db: Connection, list: Migration[] = migrations): MigrationStatus[] {
  const found = schemaVersion(db);
  if (found > latestVersion(list)) throw new NewerDatabase(found, latestVersion(list));
  if (found === 0 && db.raw.query("SELECT 1 FROM sqlite_master WHERE type = 'table'").get())
    throw new ForeignDatabase();
  const applied = new Map<number, { sha256: string; applied_at: number }>();
  if (found > 0) {
    const rows = db.raw.query("SELECT version, sha256, applied_at FROM schema_migrations").all();
    for (const row of rows as { version: number; sha256: string; applied_at: number }[]) {
      applied.set(row.version, row);
    }
  }
  return list.map(({ version, name, sql }) => {
    const record = applied.get(version);
    if (record && record.sha256 !== sha256(sql)) throw new ChangedMigration(name);
    if (!record && version <= found) throw new LateMigration(name, found);
    return { version, name, applied_at: record?.applied_at ?? null };
  });
}

/**
 * Brings the schema up to date, each step in a transaction of its own together with its record.
 * `beforeFirst` runs once, with the version of the first step, when there is something to do to a database that
 * already holds something; `begun` is then told of each step.
 */
export function migrate(
  db: Connection,
  options: {
    now: number;
    beforeFirst?: (version: number) => void;
    begun?: ((step: Step) => void) | undefined;
    list?: Migration[];
  },
): { from: number; to: number } {
  const list = options.list ?? migrations;
  const from = schemaVersion(db);
  const pending = migrationStatus(db, list).filter((step) => step.applied_at === null);
  if (pending.length === 0) return { from, to: from };
  if (from > 0) options.beforeFirst?.(pending[0]!.version);
  db.raw.run("PRAGMA foreign_keys = OFF"); // a step may rebuild a table that others refer to
  const steps = unbroken(list).map(({ version, name, sql }) => ({
    version,
    up: [name === "" ? sql : recorded(version, name, sql, options.now)],
    down: "",
  }));
  for (const [index, { version, name }] of pending.entries()) {
    if (from > 0) options.begun?.({ name, at: index + 1, of: pending.length });
    applyMigrations(db.raw, steps, version);
  }
  db.raw.run("PRAGMA foreign_keys = ON");
  const broken = db.raw.query("PRAGMA foreign_key_check").all();
  if (broken.length > 0) throw new Error(`migration left ${broken.length} rows that refer to nothing`);
  return { from, to: schemaVersion(db) };
}

/** The package counts up by one; a number that nobody took is a step that does nothing and has no record. */
function unbroken(list: Migration[]): Migration[] {
  const byVersion = new Map(list.map((one) => [one.version, one]));
  return Array.from(
    { length: latestVersion(list) },
    (_, index) => byVersion.get(index + 1) ?? { version: index + 1, name: "", sql: "SELECT 1" },
  );
}

// The package runs each text in one transaction with the version; the record rides along in it.
function recorded(version: number, name: string, sql: string, now: number): string {
  return `CREATE TABLE IF NOT EXISTS schema_migrations
    (version INTEGER PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT;
  ${sql};
  INSERT INTO schema_migrations VALUES (${version}, '${name}', '${sha256(sql)}', ${now});`;
}
