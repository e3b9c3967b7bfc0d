import { Database } from "bun:sqlite";
import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import { BackupError, type BackupOptions, type BackupReport } from "../folder.ts";
import { checkDatabase, countRows, openToRead, schemaOf } from "./inspect.ts";
import { backupsPath, databasePath } from "./paths.ts";

/**
 * A backup is one SQLite file: the database as it was at one moment, and a table `backup_meta` that says
 * when, by which version, how many rows, and, if that was asked for, the key that opens its secrets.
 */
const FORMAT = "errand-backup-1";
const AUTOMATIC = /^before-schema-\d+-.*\.db$/;
const AUTOMATIC_KEPT = 3;

/** A moment as part of a file name. */
export const stamp = (now: number): string => new Date(now).toISOString().replace(/[:.]/g, "-");

/**
 * Writes one consistent, checked backup, also while a server writes: it reads like any reader does.
 * Never overwrites. Throws BackupError; then there is no file.
 */
export function createBackup(folder: string, options: BackupOptions): BackupReport {
  const source = databasePath(folder);
  if (!existsSync(source))
    throw new BackupError(`${folder} holds no database yet`, "start it once: errand serve");
  const file = resolve(
    options.file ?? join(backupsPath(folder), `errand-${stamp(options.now)}.errand-backup`),
  );
  if (options.file === undefined) mkdirSync(backupsPath(folder), { recursive: true });
  if (existsSync(file))
    throw new BackupError(`${file} exists already`, "choose another name; a backup is never overwritten");
  if (!existsSync(dirname(file))) throw new BackupError(`${dirname(file)} is not a folder`);
  const unfinished = `${file}.${process.pid}.unfinished`;
  try {
    copyDatabase(source, unfinished);
    describeBackup(unfinished, options);
    chmodSync(unfinished, 0o600);
    const report = readBackup(unfinished);
    syncFile(unfinished);
    putInPlace(unfinished, file);
    return { ...report, file };
  } catch (error) {
    throw asBackupError(error, `the backup ${file} could not be written`);
  } finally {
    rmSync(unfinished, { force: true });
  }
}

/** Reads a backup through: sound, of a known form, and with the rows that it was written with. Throws BackupError. */
export function verifyBackup(file: string): BackupReport {
  if (!existsSync(file)) throw new BackupError(`${file}: no such file`);
  try {
    return readBackup(resolve(file));
  } catch (error) {
    throw asBackupError(error, `${file} is not a usable backup`);
  }
}

/** The key that the backup holds; undefined when it was left out. */
export function keyInBackup(file: string): string | undefined {
  const db = openToRead(file);
  try {
    return readMeta(db)["key"];
  } finally {
    db.close();
  }
}

/** Copies the database aside before `schema` is applied to it; the last three such copies stay. */
export function backupBeforeMigration(folder: string, schema: number, now: number): string {
  mkdirSync(backupsPath(folder), { recursive: true });
  const file = join(backupsPath(folder), `before-schema-${schema}-${stamp(now)}.db`);
  copyDatabase(databasePath(folder), file);
  syncFile(file);
  const older = readdirSync(backupsPath(folder))
    .filter((name) => AUTOMATIC.test(name))
    .map((name) => join(backupsPath(folder), name))
    .sort((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs || b.localeCompare(a));
  for (const name of older.slice(AUTOMATIC_KEPT)) rmSync(name, { force: true });
  return file;
}

export function listBackups(folder: string): { file: string; bytes: number; modified_at: string }[] {
  if (!existsSync(backupsPath(folder))) return [];
  return readdirSync(backupsPath(folder))
    .filter((name) => AUTOMATIC.test(name) || name.endsWith(".errand-backup"))
    .map((name) => {
      const file = join(backupsPath(folder), name);
      const { size, mtime } = statSync(file);
      return { file, bytes: size, modified_at: mtime.toISOString() };
    })
    .sort((a, b) => b.modified_at.localeCompare(a.modified_at) || b.file.localeCompare(a.file));
}

function copyDatabase(source: string, target: string): void {
  const db = openToRead(source);
  try {
    db.query("VACUUM INTO ?").run(target);
  } finally {
    db.close();
  }
}

function describeBackup(path: string, { version, now, key }: BackupOptions): void {
  const db = new Database(path, { readwrite: true, strict: true });
  try {
    const meta: Record<string, string> = {
      format: FORMAT,
      version,
      created_at: new Date(now).toISOString(),
      schema: String(schemaOf(db)),
      rows: JSON.stringify(countRows(db)),
      ...(key === undefined ? {} : { key }),
    };
    db.run("CREATE TABLE backup_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT");
    const insert = db.prepare("INSERT INTO backup_meta VALUES (?, ?)");
    for (const [name, value] of Object.entries(meta)) insert.run(name, value);
    insert.finalize();
  } finally {
    db.close();
  }
}

function readBackup(file: string): BackupReport {
  const db = openToRead(file);
  try {
    const faults = checkDatabase(db);
    if (faults.length > 0) throw new BackupError(`${file} is damaged: ${faults[0]}`);
    const rows = countRows(db);
    if (!("workspaces" in rows)) throw new BackupError(`${file} is a database, but not one of errand`);
    const meta = readMeta(db);
    if (meta["rows"] !== undefined && meta["rows"] !== JSON.stringify(rows)) {
      throw new BackupError(`${file} was changed: it does not hold the rows that it was written with`);
    }
    return {
      file,
      bytes: statSync(file).size,
      schema: schemaOf(db),
      version: meta["version"] ?? null,
      created_at: meta["created_at"] ?? null,
      has_key: meta["key"] !== undefined,
      rows,
    };
  } finally {
    db.close();
  }
}

// The copies made before a migration say nothing of themselves and are backups all the same.
function readMeta(db: Database): Record<string, string> {
  const described = db.query("SELECT 1 FROM sqlite_master WHERE name = 'backup_meta'").get();
  if (!described) return {};
  const rows = db.query<{ name: string; value: string }, []>("SELECT name, value FROM backup_meta").all();
  return Object.fromEntries(rows.map(({ name, value }) => [name, value]));
}

/** Gives the file its name without ever taking the name from another. */
function putInPlace(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch (error) {
    // Some file systems have no hard links.
    if ((error as NodeJS.ErrnoException).code === "EEXIST" || existsSync(to)) throw error;
    renameSync(from, to);
  }
  syncFile(dirname(to));
}

export function syncFile(path: string): void {
  if (process.platform === "win32") return;
  const handle = openSync(path, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

export function asBackupError(error: unknown, what: string): BackupError {
  return error instanceof BackupError ? error : new BackupError(`${what}: ${(error as Error).message}`);
}
