import { Database } from "bun:sqlite";
import { existsSync, mkdirSync } from "node:fs";
import { BackupError, type DataFolder } from "../folder.ts";
import { createBackup, listBackups, verifyBackup } from "./backup.ts";
import { Connection } from "./connection.ts";
import { checkFolder, folderSchema, inspectFolder, openToRead } from "./inspect.ts";
import { lockFolder, lockHolder } from "./lock.ts";
import { latestVersion, migrationStatus } from "./migrate.ts";
import { databasePath } from "./paths.ts";
import { openPrepared } from "./prepare.ts";
import { restoreBackup } from "./restore.ts";

function migrations(folder: string) {
  const path = databasePath(folder);
  const db = new Connection(existsSync(path) ? openToRead(path) : new Database(":memory:"));
  try {
    return migrationStatus(db).map(({ version, name, applied_at }) => ({
      version,
      name,
      applied_at: applied_at === null ? null : new Date(applied_at).toISOString(),
    }));
  } finally {
    db.close();
  }
}

function migrateAlone(folder: string, { version, now }: { version: string; now: number }) {
  mkdirSync(folder, { recursive: true });
  const lock = lockFolder(folder, { version, now });
  try {
    const { db, schema } = openPrepared(folder, now);
    db.close();
    return schema;
  } finally {
    lock.release();
  }
}

/** A data folder with SQLite in it. */
export const sqliteFolder: DataFolder = {
  latestSchema: () => latestVersion(),
  engine: () => {
    const db = new Database(":memory:");
    const { version } = db.query<{ version: string }, []>("SELECT sqlite_version() AS version").get()!;
    db.close();
    return { name: "SQLite", version };
  },
  lock: lockFolder,
  holder: lockHolder,
  schema: folderSchema,
  inspect: inspectFolder,
  check: checkFolder,
  migrations,
  migrate: migrateAlone,
  backup(folder, options) {
    const { key } = options;
    if (key !== undefined && Buffer.from(key, "base64").length !== 32) {
      throw new BackupError("the key is not base64 of 32 bytes");
    }
    return createBackup(folder, options);
  },
  verify: verifyBackup,
  restore: restoreBackup,
  backups: listBackups,
};
