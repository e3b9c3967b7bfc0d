import { Database } from "bun:sqlite";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import type { Pace } from "../../lib/clock.ts";
import { type FolderLock, FolderLocked, type Holder } from "../folder.ts";
import { holderPath, lockPath } from "./paths.ts";

const NOBODY: Holder = {
  pid: null,
  host: null,
  version: null,
  started_at: null,
  url: null,
  other_host: null,
  pace: null,
};
// Long enough to outlast another command's look at the lock.
const PATIENCE_MS = 250;

// A Database that nothing refers to is collected, and its lock with it.
const held = new Set<Database>();

/**
 * Takes the data folder for this process. The lock is one of the operating system on `lock.db`, so it ends
 * with the process however that ends; `lock.json` only tells people who it is. Throws FolderLocked.
 */
export function lockFolder(
  folder: string,
  { version, now = Date.now(), pace }: { version: string; now?: number; pace?: Pace },
): FolderLock {
  const db = new Database(lockPath(folder), { create: true, readwrite: true });
  try {
    db.run(`PRAGMA busy_timeout = ${PATIENCE_MS}`);
    db.run("BEGIN EXCLUSIVE");
  } catch (error) {
    db.close();
    if (isBusy(error)) throw new FolderLocked(folder, toldHolder(folder));
    throw error;
  }
  held.add(db);
  const holder: Holder = {
    pid: process.pid,
    host: hostname(),
    version,
    started_at: new Date(now).toISOString(),
    url: null,
    other_host: null,
    pace: pace ?? null,
  };
  const tell = () => writeFileSync(holderPath(folder), `${JSON.stringify(holder)}\n`);
  tell();
  return {
    announce(url) {
      holder.url = url;
      tell();
    },
    notice(host) {
      holder.other_host = host;
      tell();
    },
    release() {
      if (!held.delete(db)) return;
      rmSync(holderPath(folder), { force: true });
      db.run("ROLLBACK");
      db.close();
    },
  };
}

/** Who holds the folder; undefined when nobody does. What `lock.json` says counts only while the lock is held. */
export function lockHolder(folder: string): Holder | undefined {
  if (!existsSync(lockPath(folder))) return undefined;
  const db = new Database(lockPath(folder), { readonly: true });
  try {
    db.query("SELECT 1 FROM sqlite_master").all();
    return undefined;
  } catch (error) {
    if (isBusy(error)) return toldHolder(folder);
    throw error;
  } finally {
    db.close();
  }
}

const isBusy = (error: unknown) => String((error as { code?: unknown }).code).startsWith("SQLITE_BUSY");

function toldHolder(folder: string): Holder {
  try {
    return { ...NOBODY, ...(JSON.parse(readFileSync(holderPath(folder), "utf8")) as Partial<Holder>) };
  } catch {
    return NOBODY;
  }
}
