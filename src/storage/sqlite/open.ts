import { existsSync } from "node:fs";
import { type Connection, openReader, openWriter } from "./connection.ts";
import { migrate, migrationStatus, schemaVersion } from "./migrate.ts";
import { operations } from "./operations.ts";
import type { Storage } from "./storage.ts";
import { startWorker } from "./worker-transport.ts";
import { createWriter, inProcess } from "./writer.ts";

export type OpenOptions = {
  file: string;
  now: number;
  /** Saves the database before its first new migration; `schema` is the one it has. */
  beforeMigration(schema: number): void;
};

/**
 * The server's storage: one writer in a thread of its own, reads on this one. The caller holds the lock, and
 * writes once `opened` has come: the thread gets ready while the caller does.
 */
export function openStorage(
  options: OpenOptions & { lost(reason: string): void },
): Storage & Closing & { opened: Promise<void> } {
  const thread = startWorker(options.lost);
  try {
    if (!isCurrent(options.file)) prepare(options).close();
    const reader = openReader(options.file);
    const writer = createWriter(thread, () => reader.refresh());
    return {
      reader,
      writer,
      opened: thread.open(options.file),
      async close() {
        reader.close();
        await writer.close();
      },
    };
  } catch (error) {
    thread.end();
    throw error;
  }
}

/** The command line's: the same operations on one connection of this thread, beside a running server or alone. */
export function openLocalStorage(options: OpenOptions): Storage & Closing {
  const db = prepare(options);
  const writer = createWriter(inProcess(db, operations));
  return { reader: db, writer, close: () => writer.close() };
}

type Closing = { close(): Promise<void> };

/** Looks without writing, so that a start that has nothing to change syncs nothing. Throws as `migrate` does. */
function isCurrent(file: string): boolean {
  if (!existsSync(file)) return false;
  const db = openReader(file);
  try {
    return migrationStatus(db).every(({ applied_at }) => applied_at !== null);
  } finally {
    db.close();
  }
}

function prepare({ file, now, beforeMigration }: OpenOptions): Connection {
  const db = openWriter(file);
  try {
    const schema = schemaVersion(db);
    migrate(db, { now, beforeFirst: () => beforeMigration(schema) });
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}
