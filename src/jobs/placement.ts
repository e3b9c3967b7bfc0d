import { newId } from "../lib/ids.ts";
import type { JobKind, JobRow } from "./job.ts";

/** A job that a store operation is about to insert, its slot reserved when it is running and not queued. */
export type Placement = {
  readonly row: JobRow;
  readonly payload?: unknown;
  /** `queued`: running as far as the store is concerned, and waiting in memory for a slot. Neither has a row. */
  readonly unstored?: "started" | "queued";
  readonly size?: number;
};

/** Whether the row is to be inserted at all. */
export const isStored = ({ unstored }: Placement): boolean => unstored === undefined;

export type NewJob = {
  tenant: string;
  key: string;
  ref: string;
  run_at?: number;
  /** Not started from memory: whether it is stored at all is decided in the operation. */
  waits?: boolean;
  /** Of the payload, in characters, where it may be large. */
  size?: number;
};

export const rowOf = (
  { kind, lane }: JobKind,
  { tenant, key, ref }: NewJob,
  { run_at, now, isRunning }: { run_at: number; now: number; isRunning: boolean },
): JobRow => ({
  id: newId(),
  lane,
  kind,
  tenant,
  key,
  ref,
  state: isRunning ? "running" : "ready",
  run_at,
  attempt: isRunning ? 1 : 0,
  crashes: 0,
  created_at: now,
});
