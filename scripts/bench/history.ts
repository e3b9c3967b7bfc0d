/**
 * History by the million in a data folder: what one real run left on record, its steps, events, deliveries and
 * attempts, is written again under other ids and times. So the rows are what this version stores, whatever that is.
 */
import { join } from "node:path";
import { type Connection, openReader, openWriter, type Row } from "../../src/storage/sqlite/connection.ts";

const SECOND = 1_000;
const PART = 50_000;

/** An id of its own sort for the row made of row `i` of a second; grows with time, as real ones do. */
const idAt = (sort: number): string =>
  `printf('%08x-%04x-7${sort.toString(16).padStart(3, "0")}-8000-%012x', at >> 16, at & 65535, i)`;

/** Rows like `sample`, with some columns made by expressions over `i`, the count, and `at`, the moment. */
function copies(db: Connection, table: string, sample: Row, made: Record<string, string>, n: Range): void {
  const columns = Object.keys(sample);
  const values = columns.map((name) => made[name] ?? `:${name}`);
  const given = columns.filter((name) => made[name] === undefined);
  const numbered = values.map((value) =>
    value.startsWith(":") ? `?${given.indexOf(value.slice(1)) + 4}` : value,
  );
  db.run(
    `WITH RECURSIVE n (i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?2),
       moments AS (SELECT i, ?3 + i * ${SECOND} AS at FROM n)
     INSERT INTO ${table} (${columns.join(", ")}) SELECT ${numbered.join(", ")} FROM moments`,
    n.from,
    n.to,
    n.began,
    ...given.map((name) => sample[name]!),
  );
}

type Range = { from: number; to: number; began: number };
type Id = { id: string };

const all = <T extends Row>(db: Connection, table: string, column: string, value: string) =>
  db.all<T>(`SELECT * FROM ${table} WHERE ${column} = ? ORDER BY rowid`, value);

function multiply(db: Connection, execution: Row & Id, range: Range): void {
  copies(
    db,
    "executions",
    execution,
    {
      id: idAt(0),
      created_at: "at",
      started_at: "at",
      ended_at: "at + 5",
      // A tenth came to nothing.
      state: "CASE WHEN i % 20 < 18 THEN 'success' WHEN i % 20 = 18 THEN 'failed' ELSE 'cancelled' END",
      source: "iif(i % 5000 = 0, 'rare', 'webhook')",
    },
    range,
  );
  for (const step of db.all("SELECT * FROM steps WHERE execution_id = ?", execution.id))
    copies(db, "steps", step, { execution_id: idAt(0), started_at: "at", ended_at: "at + 5" }, range);
  let sort = 0;
  for (const event of all<Row & Id>(db, "events", "subject_id", execution.id)) {
    const event_id = idAt(++sort);
    copies(db, "events", event, { id: event_id, subject_id: idAt(0), created_at: "at + 5" }, range);
    for (const delivery of all<Row & Id>(db, "deliveries", "event_id", event.id)) {
      const id = idAt(++sort);
      copies(db, "deliveries", delivery, { id, event_id, created_at: "at + 5", ended_at: "at + 9" }, range);
      for (const attempt of db.all("SELECT * FROM attempts WHERE delivery_id = ?", delivery.id))
        copies(db, "attempts", attempt, { delivery_id: id, started_at: "at + 6" }, range);
    }
  }
}

/** Gives the newest run on record `count - 1` more like it, one a second until now. Nobody may use the folder. */
export function writeHistory(data: string, count: number): void {
  const db = openWriter(join(data, "errand.db"));
  try {
    // Thrown away if it fails; nobody waits for the disk.
    db.run("PRAGMA synchronous = OFF");
    db.get("PRAGMA journal_mode = DELETE"); // the only way out of the log
    db.get("PRAGMA journal_mode = MEMORY");
    db.run("PRAGMA cache_size = -262144");
    const execution = db.get<Row & Id>("SELECT * FROM executions ORDER BY id DESC LIMIT 1");
    if (!execution) throw new Error("no run to make history of");
    const began = Date.now() - count * SECOND;
    for (let from = 0; from < count - 1; from += PART) {
      db.run("BEGIN IMMEDIATE");
      multiply(db, execution, { from, to: Math.min(count - 1, from + PART), began });
      db.run("COMMIT");
    }
    db.get("PRAGMA journal_mode = WAL");
  } finally {
    db.close();
  }
}

/** Runs like the newest one that an earlier life left under way: each running, and its job as well. */
export function writeOrphans(data: string, { workspace_id }: { workspace_id: string }, count: number): void {
  const db = openWriter(join(data, "errand.db"));
  try {
    db.run("PRAGMA synchronous = OFF");
    const like = db.get<Row & Id & { workflow_id: string }>(
      "SELECT * FROM executions ORDER BY id DESC LIMIT 1",
    )!;
    const running = { ...like, state: "running", output: null, response: null, steps: null, ended_at: null };
    const job = { lane: "runs", kind: "execution.run", tenant: workspace_id, key: like.workflow_id };
    const under = { ...job, state: "running", attempt: 1, crashes: 0, owner: "gone" };
    const made = { id: idAt(7), created_at: "at" };
    // A day old, and other ids than history has.
    const range = { from: 0, to: count, began: Date.now() - 86_400_000 - count * SECOND };
    db.run("BEGIN IMMEDIATE");
    copies(db, "executions", running, { ...made, started_at: "at" }, range);
    const columns = { ...under, id: "", ref: "", run_at: 0, created_at: 0 };
    copies(db, "jobs", columns, { ...made, ref: idAt(7), run_at: "at" }, range);
    db.run("COMMIT");
    db.all("PRAGMA wal_checkpoint(TRUNCATE)");
  } finally {
    db.close();
  }
}

/** As many more runs that wait like the newest one does, each with its steps and its job. */
export function writeWaiting(data: string, count: number): void {
  const db = openWriter(join(data, "errand.db"));
  try {
    db.run("PRAGMA synchronous = OFF");
    const execution = db.get<Row & Id>("SELECT * FROM executions ORDER BY id DESC LIMIT 1")!;
    const range = { from: 0, to: count, began: Date.now() - count * SECOND };
    const made = { id: idAt(8), created_at: "at" };
    db.run("BEGIN IMMEDIATE");
    copies(db, "executions", execution, { ...made, started_at: "at" }, range);
    for (const step of db.all("SELECT * FROM steps WHERE execution_id = ?", execution.id))
      copies(db, "steps", step, { execution_id: idAt(8), started_at: "at" }, range);
    const jobs = db.all("SELECT * FROM jobs WHERE ref = ?", execution.id);
    if (jobs.length === 0) throw new Error("the newest run waits for nothing");
    for (const job of jobs) copies(db, "jobs", job, { ...made, ref: idAt(8) }, range);
    db.run("COMMIT");
    db.all("PRAGMA wal_checkpoint(TRUNCATE)");
  } finally {
    db.close();
  }
}

/** Many agents like the newest one. */
export function writeAgents(data: string, count: number): void {
  const db = openWriter(join(data, "errand.db"));
  try {
    const agent = db.get<Row & Id>("SELECT * FROM agents ORDER BY id DESC LIMIT 1")!;
    const range = { from: 0, to: count - 1, began: Date.now() - count * SECOND };
    if (count > 1) copies(db, "agents", agent, { id: idAt(0), created_at: "at" }, range);
  } finally {
    db.close();
  }
}

/** Bytes that tables and their indexes take on disk, for each row of the first. Beside a running server too. */
export function bytesEach(data: string, ...tables: [string, ...string[]]): number {
  const db = openReader(join(data, "errand.db"));
  try {
    const names = tables.map((name) => `'${name}'`).join(", ");
    const { bytes } = db.get<{ bytes: number }>(
      `SELECT sum(pgsize) AS bytes FROM dbstat
       WHERE aggregate = TRUE AND name IN (SELECT name FROM sqlite_schema WHERE tbl_name IN (${names}))`,
    )!;
    return bytes / db.get<{ rows: number }>(`SELECT count(*) AS rows FROM ${tables[0]}`)!.rows;
  } finally {
    db.close();
  }
}
