import type { Clock } from "../lib/clock.ts";
import { type Fate, type JobKind, type JobRow, type Lease, retry } from "./job.ts";
import { STORE_RETRY_MS } from "./persist.ts";
import type { JobStore } from "./store.ts";

export type Report = (message: string, fields: Record<string, unknown>) => void;

const LONGEST_BACKOFF_MS = 60_000;

/** What comes of a job that threw: told of, and tried again, the later the more attempts it had. */
export function fateOfThrown(
  { clock, report }: { clock: Clock; report: Report },
  { kind, ref, attempt }: JobRow,
  error: unknown,
): Fate {
  const message = error instanceof Error ? error.message : String(error);
  report("a job failed unexpectedly", { kind, ref, attempt, error: message });
  const backoff = Math.min(1_000 * 2 ** Math.min(attempt, 10), LONGEST_BACKOFF_MS);
  return retry(message, clock.now() + backoff);
}

/**
 * Puts a job's end on record, as often as the disk refuses: the job keeps its slot until then. Answers when the job
 * is due again; undefined: never, or the program is stopping.
 */
export async function carryOut(
  {
    store,
    clock,
    report,
    isStopping,
  }: {
    store: Pick<JobStore, "finish" | "release">;
    clock: Clock;
    report: Report;
    isStopping(): boolean;
  },
  kind: JobKind,
  { row, lease, fate }: { row: JobRow; lease: Lease; fate: Exclude<Fate, { kind: "settled" }> },
): Promise<number | undefined> {
  for (;;) {
    try {
      if (fate.kind === "done") {
        if (!lease.unstored) await store.finish(lease);
        return undefined;
      }
      if (lease.unstored) await kind.unstored?.putDown(row, fate.at, fate.reason);
      else await store.release(lease, fate.at, fate.reason);
      return fate.at;
    } catch (error) {
      if (isStopping()) return undefined;
      report("a job's end could not be stored", { ref: row.ref, error: String(error) });
      await new Promise<void>((resolve) => clock.after(STORE_RETRY_MS, resolve));
    }
  }
}
