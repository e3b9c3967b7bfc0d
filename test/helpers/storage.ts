import { Database } from "bun:sqlite";
import { Connection, type Row } from "../../src/storage/sqlite/connection.ts";
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

/**
 * A storage for one test after the other, each beginning with all that `template` holds. Statements stay
 * prepared: thousands of short tests spend most of their time on that otherwise.
 */
export function resettable(template: Storage): { storage: Storage; reset(): Promise<void> } {
  const { reader: db, writer } = copyOf(template);
  preparedOnce(db.raw);
  const tables = db.all<{ name: string }>(
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
  );
  const kept = tables.flatMap(({ name }) => {
    const rows = db.all<Row>(`SELECT * FROM "${name}"`);
    const columns = Object.keys(rows[0] ?? {});
    const insert = `INSERT INTO "${name}" (${columns.join()}) VALUES (${columns.map(() => "?").join()})`;
    return rows.map((row) => ({ name, insert, values: Object.values(row) }));
  });
  const filled = new Set(kept.map(({ name }) => name));
  const others = tables.map(({ name }) => name).filter((name) => !filled.has(name));
  const whichHaveRows = `SELECT ${others.map((name) => `EXISTS (SELECT 1 FROM "${name}") AS "${name}"`).join()}`;
  return {
    storage: { reader: db, writer },
    async reset() {
      // What was submitted in the last moment belongs to the test that is over.
      do await new Promise((resolve) => setImmediate(resolve));
      while (writer.health().queued > 0);
      // Those who refer to others were made after them. No pragma here: each has all statements prepared again.
      db.run("BEGIN");
      const hasRows = db.get(whichHaveRows)!;
      for (const { name } of tables.toReversed())
        if (filled.has(name) || hasRows[name]) db.run(`DELETE FROM "${name}"`);
      for (const { insert, values } of kept) db.run(insert, ...values);
      db.run("COMMIT");
    },
  };
}

/** What drizzle has prepared for every call is then prepared once for each text. */
function preparedOnce(raw: Database): void {
  const prepare = raw.prepare.bind(raw);
  const known = new Map<string, ReturnType<Database["prepare"]>>();
  raw.prepare = ((sql: string) => {
    let statement = known.get(sql);
    if (!statement) {
      statement = prepare(sql);
      known.set(sql, statement);
    }
    return statement;
  }) as Database["prepare"];
}
