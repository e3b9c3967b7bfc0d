/**
 * The writer thread: owns the one connection that writes. `process.argv` does not reach a Worker, so the
 * first message says which file; each later one is a batch, answered with its outcomes.
 */
import { runTimed } from "./batch.ts";
import { type Connection, openWriter } from "./connection.ts";
import { operations } from "./operations.ts";
import type { FromWorker, ToWorker } from "./worker-transport.ts";

declare const self: Worker;
const answer = (message: FromWorker) => self.postMessage(JSON.stringify(message));
let db: Connection | undefined;
let failure: FromWorker = { type: "failed", message: "the database is not open" };

self.onmessage = (event: MessageEvent<string>) => {
  const data = JSON.parse(event.data) as ToWorker;
  if (data.type === "batch") {
    answer(db ? { type: "outcomes", ...runTimed(db, operations, data.calls) } : failure);
  } else if (data.type === "close") {
    try {
      db?.run("PRAGMA wal_checkpoint(TRUNCATE)");
    } catch {
      // A reader may still hold the log; it is read again at the next start.
    }
    db?.close();
    answer({ type: "closed" });
  } else {
    void open(data);
  }
};

async function open(asked: Exclude<ToWorker, { type: "batch" | "close" }>): Promise<void> {
  try {
    db = asked.type === "open" ? openWriter(asked.path) : await prepare(asked);
    answer({ type: "open" });
  } catch (error) {
    const { message = String(error), code } = error as { message?: string; code?: string };
    failure = { type: "failed", message, code };
    answer(failure);
  }
}

// What migrates is read where there is something to migrate.
async function prepare({ folder, now }: { folder: string; now: number }): Promise<Connection> {
  const { openPrepared } = await import("./prepare.ts");
  return openPrepared(folder, now, (step) => answer({ type: "migrating", step })).db;
}
