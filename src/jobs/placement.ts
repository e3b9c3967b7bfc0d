import type { JobRow } from "./job.ts";

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
