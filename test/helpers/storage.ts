import { Database } from "bun:sqlite";
import { Connection } from "../../src/storage/sqlite/connection.ts";
import { migrate } from "../../src/storage/sqlite/migrate.ts";
import { operations } from "../../src/storage/sqlite/operations.ts";
import type { Storage } from "../../src/storage/sqlite/storage.ts";
import { createWriter, inProcess } from "../../src/storage/sqlite/writer.ts";

/** Real SQLite in memory with the real schema; the writer's operations run on this thread. */
export function memoryStorage(): Storage {
  const db = new Connection(new Database(":memory:", { strict: true }));
  db.run("PRAGMA foreign_keys = ON");
  migrate(db, { now: 0 });
  return { reader: db, writer: createWriter(inProcess(db, operations)) };
}

/** A storage of its own with all that another holds at the moment: cheaper than to make it all again. */
export function copyOf({ reader }: Storage): Storage {
  const db = new Connection(Database.deserialize(reader.raw.serialize(), { strict: true }));
  db.run("PRAGMA foreign_keys = ON");
  return { reader: db, writer: createWriter(inProcess(db, operations)) };
}
