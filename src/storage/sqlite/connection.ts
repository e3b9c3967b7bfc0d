import { Database, type SQLQueryBindings, type Statement } from "bun:sqlite";
import { type BunSQLiteDatabase, drizzle } from "drizzle-orm/bun-sqlite";

export type Row = Record<string, string | number | null>;
export type Bind = SQLQueryBindings;

/**
 * One SQLite connection: hot statements by `run`, `get` and `all`, each prepared once for the life of the
 * connection (bun:sqlite's own cache keeps 20), administration by `orm`, drizzle's builder.
 */
export class Connection {
  readonly orm: BunSQLiteDatabase;
  readonly #statements = new Map<string, Statement>();
  readonly #sums = new Map<string, { value: unknown; write(): void }>();

  constructor(readonly raw: Database) {
    this.orm = drizzle(raw);
  }

  /** The number of rows changed. */
  run(sql: string, ...values: Bind[]): number {
    return this.prepared(sql).run(...values).changes;
  }

  get<T = Row>(sql: string, ...values: Bind[]): T | undefined {
    return (this.prepared(sql).get(...values) as T | null) ?? undefined;
  }

  all<T = Row>(sql: string, ...values: Bind[]): T[] {
    return this.prepared(sql).all(...values) as T[];
  }

  /**
   * A sum that operations of one transaction add to, written once before its commit: a hundred ends of runs of
   * one workflow are one update of its counters. Whoever reads or sets what a sum will change calls `tell` first.
   */
  tally<T>(key: string, zero: () => T, write: (sum: T) => void): T {
    let sum = this.#sums.get(key) as { value: T; write(): void } | undefined;
    if (!sum) {
      const value = zero();
      sum = { value, write: () => write(value) };
      this.#sums.set(key, sum);
    }
    return sum.value;
  }

  /** Writes one sum now. */
  tell(key: string): void {
    const sum = this.#sums.get(key);
    this.#sums.delete(key);
    sum?.write();
  }

  /** Writes all sums; the last thing before a commit. */
  tellAll(): void {
    if (this.#sums.size === 0) return;
    const sums = [...this.#sums.values()];
    this.#sums.clear();
    for (const sum of sums) sum.write();
  }

  /** What was rolled back does not count. */
  forgetSums(): void {
    this.#sums.clear();
  }

  /**
   * What `read` answers, read once for all who ask within one snapshot; on a connection without snapshots
   * each time anew. For what many requests of one moment need alike; nobody may change the value.
   */
  shared<T>(_key: string, read: () => T): T {
    return read();
  }

  /** The same, kept until something of `topic` is changed by anybody (see the table `versions`). */
  kept<T>(_topic: Topic, _key: string, read: () => T): T {
    return read();
  }

  close(): void {
    for (const statement of this.#statements.values()) statement.finalize();
    this.#statements.clear();
    this.raw.close();
  }

  protected prepared(sql: string): Statement {
    let statement = this.#statements.get(sql);
    if (!statement) {
      statement = this.raw.prepare(plannedOnce(sql));
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}

/**
 * SQLite looks at what is bound to `column = ?` and `LIMIT ?` when it plans, and so plans anew whenever that is
 * bound again, prepared or not: 5 to 100 us each time. A plus hides the value from the planner alone.
 */
export const plannedOnce = (sql: string): string =>
  sql.replace(/(?<=(?:[=<>]|\b(?:LIMIT|OFFSET))\s*)\?/g, "+?");

/** What `versions` counts the changes of. */
export type Topic = "subscriptions" | "hook_tokens" | "workflows";

// A quiet database changes nothing, and whoever asks for a new thing each time must not fill memory.
const MOST_SHARED = 1_000;

// The server's writer is alone but for short visits of the command line; a visit may wait this long for it.
const BUSY_TIMEOUT_MS = 5_000;

/** Opens for writing and creates the file where there is none. FULL: what was answered survives a power cut. */
export function openWriter(path: string): Connection {
  const raw = new Database(path, { create: true, readwrite: true, strict: true });
  raw.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
  raw.run("PRAGMA auto_vacuum = INCREMENTAL"); // only heeded before the first table
  raw.run("PRAGMA journal_mode = WAL");
  raw.run("PRAGMA synchronous = FULL");
  raw.run("PRAGMA foreign_keys = ON");
  raw.run("PRAGMA trusted_schema = OFF");
  raw.run("PRAGMA cell_size_check = ON");
  raw.run("PRAGMA journal_size_limit = 67108864");
  raw.run("PRAGMA cache_size = -16384");
  if (process.platform === "darwin") raw.run("PRAGMA fullfsync = 1");
  return new Connection(raw);
}

/**
 * A reading connection whose reads share a snapshot within one turn of the event loop. Every commit of the
 * writer empties a reader's page cache, so under load each read by itself would fetch the same pages from
 * the log again. The snapshot ends with the turn, and before anyone is told of a commit (`refresh`): what
 * was written is always seen by those who were told, and what others wrote by the next turn. What is `shared`
 * lives on until anybody, of this process or another, has committed something.
 */
export class Reader extends Connection {
  #isOpen = false;
  #version = 0;
  readonly #shared = new Map<string, unknown>();
  readonly #kept = new Map<Topic, { version: number; values: Map<string, unknown> }>();
  /** Topics whose version is known to hold in this snapshot. */
  readonly #current = new Set<Topic>();

  override get<T = Row>(sql: string, ...values: Bind[]): T | undefined {
    this.#open();
    return super.get<T>(sql, ...values);
  }

  override all<T = Row>(sql: string, ...values: Bind[]): T[] {
    this.#open();
    return super.all<T>(sql, ...values);
  }

  override shared<T>(key: string, read: () => T): T {
    this.#open();
    if (this.#shared.has(key)) return this.#shared.get(key) as T;
    const value = read();
    this.#shared.set(key, value);
    return value;
  }

  override kept<T>(topic: Topic, key: string, read: () => T): T {
    this.#open();
    let kept = this.#kept.get(topic);
    if (!kept || !this.#current.has(topic)) {
      const { version } = super.get<{ version: number }>(
        "SELECT version FROM versions WHERE name = ?",
        topic,
      )!;
      if (kept?.version !== version || kept.values.size > MOST_SHARED) {
        kept = { version, values: new Map() };
        this.#kept.set(topic, kept);
      }
      this.#current.add(topic);
    }
    if (kept.values.has(key)) return kept.values.get(key) as T;
    const value = read();
    kept.values.set(key, value);
    return value;
  }

  /** Ends the snapshot: the next read sees everything that is committed by then. */
  refresh(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    // A read that failed (I/O, memory) has ended the snapshot by itself.
    if (this.raw.inTransaction) this.prepared("COMMIT").run();
  }

  override close(): void {
    this.refresh();
    super.close();
  }

  #open(): void {
    if (this.#isOpen) return;
    this.prepared("BEGIN").run();
    this.#isOpen = true;
    // Before the first read, which may fail: then too this ends with the turn, and nothing is known of it.
    setImmediate(() => this.refresh());
    this.#current.clear();
    // The first read of the transaction: what it says holds for all that follow.
    const { data_version } = this.prepared("PRAGMA data_version").get() as { data_version: number };
    if (data_version !== this.#version || this.#shared.size > MOST_SHARED) this.#shared.clear();
    this.#version = data_version;
  }
}

/** Opens for reading beside a writer. */
export function openReader(path: string): Reader {
  const raw = new Database(path, { readonly: true, strict: true });
  raw.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
  raw.run("PRAGMA trusted_schema = OFF");
  raw.run("PRAGMA query_only = ON");
  return new Reader(raw);
}
