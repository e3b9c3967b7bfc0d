import type { Clock } from "../lib/clock.ts";
import type { Fate, JobKind, JobRow, Lease } from "./job.ts";
import type { JobStore } from "./store.ts";

const STORE_RETRY_MS = 1_000;

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
    report(message: string, fields: Record<string, unknown>): void;
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
