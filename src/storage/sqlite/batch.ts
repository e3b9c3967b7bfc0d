import { AppError, type ErrorCode } from "../../lib/errors.ts";
import type { Connection } from "./connection.ts";

/**
 * A named operation: one domain verb, run inside a transaction that it shares with its batch. It is
 * synchronous, decides by the database and its arguments alone, and may be run a second time when
 * another operation of its batch failed.
 */
export type Operation<Args, Result> = (db: Connection, args: Args) => Result;
// biome-ignore lint/suspicious/noExplicitAny: the registry holds operations of every shape
export type Operations = Record<string, Operation<any, any>>;

export type Call = { name: string; args: unknown; durable: boolean };
export type Outcome = { ok: true; value: unknown } | { ok: false; error: StoredError };
/** An error as it crosses the thread boundary. `retryable`: the disk, not the operation, was at fault. */
export type StoredError = { message: string; code?: ErrorCode; storage?: string };

/** What came of a batch, and how long it took with its commit. */
export type Written = { outcomes: Outcome[]; ms: number };

export function runTimed(db: Connection, operations: Operations, calls: Call[]): Written {
  const began = performance.now();
  const outcomes = runBatch(db, operations, calls);
  return { outcomes, ms: performance.now() - began };
}

/** Runs the calls as one transaction: FULL where any must be durable, else NORMAL (no sync). */
export function runBatch(db: Connection, operations: Operations, calls: Call[]): Outcome[] {
  try {
    return inTransaction(db, calls, () =>
      calls.map((call) => ({ ok: true, value: operations[call.name]?.(db, call.args) })),
    );
  } catch (error) {
    if (isStorageFault(error)) return calls.map(() => ({ ok: false, error: describeError(error) }));
    // One operation threw and took the others with it. Failures are rare, so no savepoint is paid for
    // on the good path; each call now runs again by itself and only the guilty one is refused.
    return calls.map((call) => runAlone(db, operations, call));
  }
}

function runAlone(db: Connection, operations: Operations, call: Call): Outcome {
  try {
    return inTransaction(db, [call], () => ({ ok: true, value: operations[call.name]?.(db, call.args) }));
  } catch (error) {
    return { ok: false, error: describeError(error) };
  }
}

function inTransaction<T>(db: Connection, calls: Call[], work: () => T): T {
  db.run(calls.some((call) => call.durable) ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
  db.run("BEGIN IMMEDIATE");
  try {
    const result = work();
    db.tellAll();
    db.run("COMMIT");
    return result;
  } catch (error) {
    db.forgetSums();
    // SQLITE_FULL and I/O errors have rolled back by themselves already.
    if (db.raw.inTransaction) db.run("ROLLBACK");
    throw error;
  }
}

const STORAGE_FAULT = /^SQLITE_(FULL|IOERR|BUSY|LOCKED|READONLY|CANTOPEN|CORRUPT|NOTADB|NOMEM)/;

const storageCode = (error: unknown): string => String((error as { code?: unknown } | null)?.code ?? "");
const isStorageFault = (error: unknown): boolean => STORAGE_FAULT.test(storageCode(error));

function describeError(error: unknown): StoredError {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof AppError) return { message, code: error.code };
  return isStorageFault(error) ? { message, storage: storageCode(error) } : { message };
}
