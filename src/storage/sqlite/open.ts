import { existsSync } from "node:fs";
import { openReader, type Reader } from "./connection.ts";
import { migrationStatus, type Step } from "./migrate.ts";
import { operations } from "./operations.ts";
import { databasePath } from "./paths.ts";
import { openPrepared } from "./prepare.ts";
import type { Storage } from "./storage.ts";
import { startWorker } from "./worker-transport.ts";
import { createWriter, inProcess } from "./writer.ts";

export type ServerOptions = {
  folder: string;
  now: number;
  lost(reason: string): void;
  /** Told of each step of the schema that is applied. */
  migrating(step: Step): void;
};

/**
 * The server's storage: one writer in a thread of its own, reads on this one. The caller holds the lock, and
 * writes once `opened` has come: the thread gets ready while the caller does. It also applies what is pending
 * of the schema, which this waits for, so that this thread can say so meanwhile.
 */
export async function openStorage({
  folder,
  now,
  lost,
  migrating,
}: ServerOptions): Promise<Storage & Closing & { opened: Promise<void> }> {
  const thread = startWorker(lost);
  try {
    const file = databasePath(folder);
    const current = openCurrent(file);
    const opened = current ? thread.open(file) : thread.prepare(folder, now, migrating);
    opened.catch(() => {}); // whoever waits for it is told
    if (!current) await opened;
    const reader = current ?? openReader(file);
    const writer = createWriter(thread, () => reader.refresh());
    return {
      reader,
      writer,
      opened,
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
export function openLocalStorage({ folder, now }: { folder: string; now: number }): Storage & Closing {
  const { db } = openPrepared(folder, now);
  const writer = createWriter(inProcess(db, operations));
  return { reader: db, writer, close: () => writer.close() };
}

type Closing = { close(): Promise<void> };

/**
 * Opens for reading what has the schema of this program; undefined where there is something to do. Looks without
 * writing, so that a start that has nothing to change syncs nothing; a transaction that a kill cut short can only be
 * taken back by who writes. Throws as `migrate` does.
 */
function openCurrent(file: string): Reader | undefined {
  if (!existsSync(file)) return undefined;
  const reader = openReader(file);
  let current = false;
  try {
    current = migrationStatus(reader).every(({ applied_at }) => applied_at !== null);
    return current ? reader : undefined;
  } catch (error) {
    if (String((error as { code?: unknown }).code).startsWith("SQLITE_READONLY")) return undefined;
    throw error;
  } finally {
    if (!current) reader.close();
  }
}
