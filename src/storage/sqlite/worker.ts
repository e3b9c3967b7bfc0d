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

self.onmessage = (event: MessageEvent<string>) => {
  const data = JSON.parse(event.data) as ToWorker;
  if (data.type === "batch") {
    const written = db && runTimed(db, operations, data.calls);
    answer(written ? { type: "outcomes", ...written } : { type: "failed", message: "the file is not open" });
  } else if (data.type === "open") {
    try {
      db = openWriter(data.path);
      answer({ type: "open" });
    } catch (error) {
      const { message = String(error), code } = error as { message?: string; code?: string };
      answer({ type: "failed", message, code });
    }
  } else if (data.type === "close") {
    try {
      db?.run("PRAGMA wal_checkpoint(TRUNCATE)");
    } catch {
      // A reader may still hold the log; it is read again at the next start.
    }
    db?.close();
    answer({ type: "closed" });
  }
};
