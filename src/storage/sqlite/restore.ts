import { Database } from "bun:sqlite";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join, resolve } from "node:path";
import { KEY_FILE } from "../../lib/vault.ts";
import { BackupError, type RestoreReport } from "../folder.ts";
import { asBackupError, keyInBackup, stamp, syncFile, verifyBackup } from "./backup.ts";
import { lockFolder } from "./lock.ts";
import { latestVersion, NewerDatabase } from "./migrate.ts";
import { databasePath } from "./paths.ts";

/**
 * Brings a backup into a folder. A folder with a database is refused without `force`; with it, what was
 * there is kept in `before-restore-<time>` inside the folder. The database changes by one rename, so a
 * power cut leaves the old one or the new one. Throws BackupError, FolderLocked, NewerDatabase.
 */
export function restoreBackup(
  file: string,
  folder: string,
  { force, version, now }: { force: boolean; version: string; now: number },
): RestoreReport {
  const report = verifyBackup(file);
  if (report.schema > latestVersion()) throw new NewerDatabase(report.schema, latestVersion());
  mkdirSync(folder, { recursive: true });
  const lock = lockFolder(folder, { version, now });
  try {
    const target = databasePath(folder);
    const exists = existsSync(target);
    if (exists && !force) {
      throw new BackupError(
        `${folder} holds a database already`,
        "restore into another folder with --data, or add --force",
      );
    }
    const incoming = `${target}.incoming`;
    rmSync(incoming, { force: true });
    copyFileSync(file, incoming);
    chmodSync(incoming, 0o600);
    const key = keyInBackup(file);
    undescribe(incoming);
    syncFile(incoming);

    const kept = exists ? join(folder, `before-restore-${stamp(now)}`) : null;
    if (kept) keepOld(folder, kept, key !== undefined);
    renameSync(incoming, target);
    if (key !== undefined) writeFileSync(join(folder, KEY_FILE), `${key.trim()}\n`, { mode: 0o600 });
    syncFile(folder);
    return { ...report, file: resolve(file), folder, kept };
  } catch (error) {
    throw error instanceof BackupError ? error : asBackupError(error, `${file} could not be restored`);
  } finally {
    lock.release();
  }
}

/** What the file says of itself as a backup, the key above all, does not belong into a working database. */
function undescribe(path: string): void {
  const db = new Database(path, { readwrite: true });
  try {
    db.run("PRAGMA secure_delete = ON");
    db.run("DROP TABLE IF EXISTS backup_meta");
    db.run("VACUUM");
  } finally {
    db.close();
  }
}

function keepOld(folder: string, kept: string, withKey: boolean): void {
  mkdirSync(kept);
  const database = databasePath(folder);
  emptyLog(database);
  for (const rest of ["-wal", "-shm"]) {
    if (existsSync(database + rest)) renameSync(database + rest, join(kept, `errand.db${rest}`));
  }
  copyOrLink(database, join(kept, "errand.db"));
  const key = join(folder, KEY_FILE);
  if (withKey && existsSync(key)) copyOrLink(key, join(kept, KEY_FILE));
  // The next key is written into a file of its own, not through the link into the kept one.
  if (withKey) rmSync(key, { force: true });
  syncFile(kept);
}

// Brings everything into the one file; a log left behind would be read into the restored database.
function emptyLog(path: string): void {
  try {
    const db = new Database(path, { readwrite: true });
    try {
      db.run("PRAGMA wal_checkpoint(TRUNCATE)");
    } finally {
      db.close();
    }
  } catch {
    // A damaged database is kept as it lies, its log beside it.
  }
}

function copyOrLink(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch {
    copyFileSync(from, to);
  }
}
