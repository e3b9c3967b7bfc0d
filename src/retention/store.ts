import type { Place } from "../lib/feed.ts";

/** What is forgotten, in this order: what tells of something goes before what it tells of. */
export const KINDS = [
  "executions",
  "trigger_events",
  "conversations",
  "deliveries",
  "events",
  "alerts",
] as const;
export type Kind = (typeof KINDS)[number];

/** `over_at`: since when nothing needs the row any more; null while something does. */
export type OldRow = Place & { over_at: number | null };

export type WorkflowRetention = { days: number | null; max_executions: number | null };

/** Reads and deletes in slices: no call takes longer than a few milliseconds, however much there is. */
export type RetentionStore = {
  /** By whom rows of a kind are read in the order of time: workflows, triggers, agents and so on. */
  owners(kind: Kind): Promise<string[]>;
  /** The oldest rows of an owner, from after `after` and below `below`. */
  old(kind: Kind, owner: string, range: { after: Place; below: Place; count: number }): Promise<OldRow[]>;
  /** The `count`th ended execution of a workflow below `below`, newest first. */
  nthEnded(workflow_id: string, below: Place, count: number): Promise<Place | undefined>;
  /** What workflows say of their own executions. */
  ofWorkflows(): Promise<Map<string, WorkflowRetention>>;
  /** Deletes rows that are over, with what hangs on them. `left`: ids that a slice had no room for. */
  drop(kind: Kind, ids: string[]): Promise<{ rows: number; left: string[] }>;
  /** Definitions that no workflow and no version names; executions may. */
  looseDefinitions(): Promise<Set<string>>;
  /** Which definition executions name, by id from after `after`. */
  definitionsInUse(after: string, count: number): Promise<{ id: string; definition_hash: string }[]>;
  dropDefinitions(hashes: string[]): Promise<number>;
  /** Gives free pages back to the disk, so many at most; how many are left. */
  reclaim(pages: number): Promise<{ left: number; page_bytes: number }>;
};
