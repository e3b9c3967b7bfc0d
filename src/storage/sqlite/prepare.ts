import { backupBeforeMigration } from "./backup.ts";
import { type Connection, openWriter } from "./connection.ts";
import { migrate, type Step } from "./migrate.ts";
import { databasePath } from "./paths.ts";

/**
 * Opens a folder's database for writing, makes it where there is none and brings its schema up to date; what it
 * held before is copied aside first. Throws as `migrate` does.
 */
export function openPrepared(
  folder: string,
  now: number,
  begun?: (step: Step) => void,
): { db: Connection; schema: { from: number; to: number } } {
  const db = openWriter(databasePath(folder));
  try {
    const beforeFirst = (version: number) => void backupBeforeMigration(folder, version, now);
    return { db, schema: migrate(db, { now, begun, beforeFirst }) };
  } catch (error) {
    db.close();
    throw error;
  }
}
