import { type Connection, openReader, openWriter } from "./connection.ts";
import { migrate, schemaVersion } from "./migrate.ts";
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

/** The server's storage: one writer in a thread of its own, reads on this one. The caller holds the lock. */
export async function openStorage(
  options: OpenOptions & { lost(reason: string): void },
): Promise<Storage & Closing> {
  prepare(options).close();
  const transport = await startWorker(options.file, options.lost);
  const reader = openReader(options.file);
  const writer = createWriter(transport, () => reader.refresh());
  return {
    reader,
    writer,
    async close() {
      reader.close();
      await writer.close();
    },
  };
}

/** The command line's: the same operations on one connection of this thread, beside a running server or alone. */
export function openLocalStorage(options: OpenOptions): Storage & Closing {
  const db = prepare(options);
  const writer = createWriter(inProcess(db, operations));
  return { reader: db, writer, close: () => writer.close() };
}

type Closing = { close(): Promise<void> };

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
