import { AppError, unavailable } from "../../lib/errors.ts";
import {
  type Call,
  type Operations,
  type Outcome,
  runTimed,
  type StoredError,
  type Written,
} from "./batch.ts";
import type { Connection } from "./connection.ts";
import type { operations } from "./operations.ts";

export type OperationName = keyof typeof operations;
type ArgsOf<N extends OperationName> = Parameters<(typeof operations)[N]>[1];
type ResultOf<N extends OperationName> = ReturnType<(typeof operations)[N]>;

/**
 * Where every write goes. Promises resolve after the commit.
 *
 * - `durable` (the default) is on disk when it resolves; an answer with 2xx may follow it.
 * - `lazy` is for marks that nobody is answered by: it survives a crash of the program, and a power cut
 *   may take it back to before the last durable commit.
 *
 * Rejects with `unavailable` when the queue is full or the disk refuses.
 */
export type Writer = {
  submit<N extends OperationName>(name: N, args: ArgsOf<N>, mode?: "durable" | "lazy"): Promise<ResultOf<N>>;
  health(): WriterHealth;
  /** Waits for everything submitted, then lets the database go. */
  close(): Promise<void>;
};

export type WriterHealth = {
  ok: boolean;
  fault?: string;
  queued: number;
  batches: number;
  operations: number;
};

/** Carries a batch to the connection that runs it; `ms` is what that took there. */
export type Transport = { send(calls: Call[]): Promise<Written>; close(): Promise<void> };

const LARGEST_BATCH = 512;
// Enough to send on before the turn is over and behind a batch that is under way: were it to wait, requests
// that came together would all be prepared before the first is written, and the threads would take turns.
const EARLY_BATCH = 16;
const MOST_UNDER_WAY = 2;
// On a disk that takes longer for a batch, the largest batches are the fastest.
const QUICK_MS = 10;
const LONGEST_QUEUE = 10_000;

type Waiting = { resolve(value: never): void; reject(error: Error): void };

/**
 * Group commit: one batch is with the connection, and whatever arrives meanwhile forms the next, which a quick
 * disk is given already. No timer: alone, an operation waits for nothing; under load, one sync carries hundreds. `committed` is called
 * before those who wait for a batch are told of it.
 */
export function createWriter(transport: Transport, committed: () => void = () => {}): Writer {
  let calls: Call[] = [];
  let waiting: Waiting[] = [];
  let underWay = 0;
  // Smoothed time of a batch.
  let usual_ms = 0;
  let armed = false;
  let idle: (() => void)[] = [];
  let fault: string | undefined;
  const counts = { batches: 0, operations: 0 };

  function flush() {
    armed = false;
    if (calls.length === 0 || (underWay > 0 && !mayGoEarly())) return;
    underWay++;
    const batch = calls.length > LARGEST_BATCH ? calls.splice(0, LARGEST_BATCH) : calls;
    const callers = waiting.length > LARGEST_BATCH ? waiting.splice(0, LARGEST_BATCH) : waiting;
    if (batch === calls) {
      calls = [];
      waiting = [];
    }
    transport.send(batch).then(
      ({ outcomes, ms }) => {
        underWay--;
        usual_ms += (ms - usual_ms) / 8;
        committed();
        flush(); // the next batch is on its way before the callers of this one run
        settle(callers, outcomes);
      },
      (error: Error) => {
        underWay--;
        for (const caller of callers) caller.reject(error);
        flush();
        rest();
      },
    );
  }

  const mayGoEarly = (): boolean =>
    calls.length >= EARLY_BATCH && underWay < MOST_UNDER_WAY && usual_ms < QUICK_MS;

  function settle(callers: Waiting[], outcomes: Outcome[]) {
    counts.batches++;
    counts.operations += callers.length;
    fault = undefined;
    for (let index = 0; index < callers.length; index++) {
      const caller = callers[index]!;
      const outcome = outcomes[index];
      if (outcome?.ok) caller.resolve(outcome.value as never);
      else {
        const error = outcome?.error ?? { message: "the operation has no outcome" };
        if (error.storage) fault = error.storage;
        caller.reject(revive(error));
      }
    }
    rest();
  }

  function rest() {
    if (underWay > 0 || calls.length > 0) return;
    for (const done of idle) done();
    idle = [];
  }

  return {
    submit(name, args, mode = "durable") {
      if (calls.length >= LONGEST_QUEUE) return Promise.reject(unavailable("The write queue is full."));
      return new Promise((resolve, reject) => {
        calls.push({ name, args, durable: mode === "durable" });
        waiting.push({ resolve, reject });
        if (mayGoEarly()) flush();
        else if (underWay === 0 && !armed) {
          armed = true;
          setImmediate(flush);
        }
      });
    },
    health: () => ({ ok: fault === undefined, fault, queued: calls.length, ...counts }),
    async close() {
      if (underWay > 0 || calls.length > 0) await new Promise<void>((resolve) => idle.push(resolve));
      await transport.close();
    },
  };
}

function revive(error: StoredError): Error {
  if (error.code) return new AppError(error.code, error.message);
  if (error.storage)
    return unavailable(`Storage refused the write (${error.storage}). Nothing was accepted.`);
  return new Error(error.message);
}

/** The same operations on this thread: for the command line and for tests. */
export function inProcess(db: Connection, registry: Operations): Transport {
  return {
    send: async (calls) => runTimed(db, registry, calls),
    close: async () => db.close(),
  };
}
