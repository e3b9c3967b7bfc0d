import type { JobRow, Lease } from "../jobs/job.ts";

/**
 * exhausted: a delivery was given up. paused: the service stopped sending by itself. recovered: the first
 * delivery after either that arrived.
 */
export type AlertKind = "exhausted" | "paused" | "recovered";

/** What an alert tells besides its kind. */
export type AlertDetails = {
  name: string;
  url: string;
  delivery_id: string;
  event_id: string;
  event: string;
  reason: string | null;
  response_code: number | null;
  response_excerpt: string | null;
  error: string | null;
  attempts: number;
  /** When the oldest delivery was made that the trouble took: where a replay of it begins. */
  since: number;
};

export type AlertState = "pending" | "sent" | "logged" | "failed";

export type AlertRow = {
  id: string;
  workspace_id: string;
  subscription_id: string;
  kind: AlertKind;
  details: AlertDetails;
  state: AlertState;
  error: string | null;
  created_at: number;
  ended_at: number | null;
};

/** An alert that the operation recording an attempt raises, if that attempt is one to tell of. */
export type PreparedAlert = { id: string; job: JobRow };

export type AlertStore = {
  get(id: string): Promise<AlertRow | undefined>;
  /** Newest first. */
  list(subscription_id: string, limit: number): Promise<AlertRow[]>;
  /** The alert and its job end in one commit; false: someone else holds the job. */
  end(end: {
    lease: Lease;
    id: string;
    state: AlertState;
    error: string | null;
    at: number;
  }): Promise<boolean>;
  /** Subscriptions in trouble, and those of whose trouble the owner has still to be told. */
  troubled(): Promise<string[]>;
  isTroubled(subscription_id: string): Promise<boolean>;
  /** Drops ended alerts of before `before`, at most `limit`; how many there were. */
  forget(before: number, limit: number): Promise<number>;
  /** Those alone that are in trouble now. */
  troubledCount(): Promise<number>;
  counts(): Promise<{ kind: AlertKind; state: AlertState; count: number }[]>;
};
