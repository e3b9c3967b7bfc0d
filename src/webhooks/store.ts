import type { PreparedAlert } from "../alerts/store.ts";
import type { EventPattern } from "../events/kinds.ts";
import type { DeliveryRow, DeliveryState, EventRow } from "../events/store.ts";
import type { ClaimOutcome, IdempotencyClaim } from "../hooks/store.ts";
import type { JobRow, Lease } from "../jobs/job.ts";
import type { Stretch, Window } from "../lib/feed.ts";
import type { JsonObject } from "../lib/json.ts";
import type { BatchSettings } from "./batch.ts";
import type { Filters } from "./filters.ts";
import type { RetryPolicy } from "./retry-schedule.ts";

/** Interface 2.5. The secrets, `authentication` and `headers` are sealed. */
export type SubscriptionRow = {
  id: string;
  workspace_id: string;
  project_id: string;
  name: string;
  url: string;
  events: EventPattern[];
  status: "active" | "paused";
  status_reason: string | null;
  secret: string;
  /** Signs as well until `previous_secret_until`. */
  previous_secret: string | null;
  previous_secret_until: number | null;
  authentication: string | null;
  headers: string | null;
  retry_policy: RetryPolicy | null;
  conditions: JsonObject | null;
  filters: Filters | null;
  batch_settings: BatchSettings | null;
  /** One at a time; one that fails holds the later ones. */
  ordered: boolean;
  /** Most attempts under way; null: learned. */
  concurrency: number | null;
  rate_limit_per_second: number | null;
  total_deliveries: number;
  successful_deliveries: number;
  failed_deliveries: number;
  last_delivery_at: number | null;
  /** Its first failed attempt after the last good one. */
  failing_since: number | null;
  created_at: number;
  updated_at: number | null;
};

export type SubscriptionPatch = Partial<
  Omit<
    SubscriptionRow,
    | "id"
    | "workspace_id"
    | "project_id"
    | "created_at"
    | "total_deliveries"
    | "successful_deliveries"
    | "failed_deliveries"
    | "last_delivery_at"
    | "failing_since"
    | "secret"
    | "previous_secret"
    | "previous_secret_until"
  >
>;

export type SubscriptionStore = {
  create(subscription: SubscriptionRow): Promise<void>;
  get(id: string): Promise<SubscriptionRow | undefined>;
  /** Oldest first. */
  list(
    project_id: string,
    page: { limit: number; offset: number },
  ): Promise<{ items: SubscriptionRow[]; total: number }>;
  /** `release` is put down if the patch makes it active, or gives up its order: it sends what waits. */
  update(id: string, patch: SubscriptionPatch, release?: JobRow): Promise<SubscriptionRow | undefined>;
  /** The secret becomes the previous one, which signs until `previous_until`; one that was previous is forgotten. */
  rotate(
    id: string,
    next: { secret: string; previous_until: number; at: number },
  ): Promise<SubscriptionRow | undefined>;
  /** What is under way to it is cancelled when its turn comes. */
  remove(id: string): Promise<boolean>;
};

/** What sending needs to know of a subscription. */
export type DeliveryTarget = Pick<
  SubscriptionRow,
  | "id"
  | "url"
  | "status"
  | "status_reason"
  | "secret"
  | "previous_secret"
  | "previous_secret_until"
  | "authentication"
  | "headers"
  | "retry_policy"
  | "concurrency"
  | "rate_limit_per_second"
> & {
  /** 0 or 1. */
  ordered: number;
};

/** A stored delivery, and the id and job of its copy. */
export type Resend = { from: string; id: string; job: JobRow };
export type Replayable = { id: string; created_at: number };

/** Events, in the order they happened, for the body of a delivery. */
export type Unwritten = { filters: Filters | null; events: EventRow[] };

export type AttemptRow = {
  delivery_id: string;
  number: number;
  started_at: number;
  response_code: number | null;
  response_time_ms: number;
  response_excerpt: string | null;
  error_class: string | null;
  error: string | null;
};

/** An attempt and what follows from it. */
export type AttemptResult = {
  lease: Lease;
  subscription_id: string;
  kind: string;
  attempt: AttemptRow;
  state: Extract<DeliveryState, "success" | "retrying" | "failed">;
  reason: string | null;
  /** For `retrying` alone. */
  next_attempt_at: number | null;
  ended_at: number | null;
  /** Pauses the subscription, for this reason. */
  pause: string | null;
  /** The same when it is failing since then or longer. */
  pause_if?: { failing_since: number; reason: string };
  /** Of an ordered subscription: for the next in line, if this one leaves it. */
  next?: JobRow;
  /** Raised with this result, if it is one to tell the owner of. */
  alert?: PreparedAlert;
};

/** A line of the log: the delivery without its bytes, with its last attempt. */
export type LogRow = Omit<DeliveryRow, "body"> & {
  payload_size: number;
  attempted_at: number | null;
  response_excerpt: string | null;
  error_class: string | null;
  error: string | null;
};

export type LogFilter = Window & { status?: string; event?: string };

/** Attempts of an hour that ended alike and took about as long. `speed`: see lib/histogram.ts. */
export type Figure = { hour: number; kind: string; outcome: string; speed: number; count: number };

export type DeliveryStats = {
  /** Of this hour (its first moment) and later. */
  figures: Figure[];
  /** Waiting for a first or a further attempt; counted to 10,000 at most. */
  waiting: number;
  /** The job that should have been worked longest ago. */
  oldest_due_at: number | null;
  next_attempt_at: number | null;
  /** Of the newest attempts that got an answer, in ms. */
  response_times: number[];
};

export type DeliveryStore = {
  find(id: string): Promise<DeliveryRow | undefined>;
  target(subscription_id: string): Promise<DeliveryTarget | undefined>;
  /**
   * Attempt, delivery, counters and the job's end in one commit; false: someone else holds the job.
   *
   * Lazy, success and failure alike: a power cut that takes it back finds the delivery under way and sends the
   * same bytes with the same webhook-id again, which at-least-once allows. A crash of the program alone
   * takes nothing back.
   */
  record(result: AttemptResult): Promise<boolean>;
  /** Puts a job down for a delivery that is worked without one, to be worked at `at`; none if it has ended. */
  putDown(delivery_id: string, at: number, reason: string): Promise<void>;
  /** Deliveries that are worked, or wait for a slot, without a job's row. */
  underWay(): Promise<string[]>;
  /** Puts jobs down for those of them that an earlier life left so, due at `now`; how many. */
  takeOver(ids: string[], now: number): Promise<number>;
  /**
   * Ends a delivery that was not attempted; "again" when it was to be paused and its subscription is active
   * by now, and the job is due at `at` once more.
   */
  settle(end: {
    lease: Lease;
    delivery_id: string;
    subscription_id: string;
    state: "paused" | "cancelled";
    reason: string;
    at: number;
    next: JobRow | null;
  }): Promise<"settled" | "again" | "lost">;
  /** What the bytes of a delivery are made of; undefined when nothing of it is kept any more. */
  unwritten(delivery: DeliveryRow): Promise<Unwritten | undefined>;
  /** Takes no more events into a batch. */
  closeBatch(batch: { subscription_id: string; batch_id: string }): Promise<void>;
  /** Keeps the bytes that every attempt sends. With `line` it waits its turn there and the job is over. */
  write(written: {
    lease: Lease;
    delivery_id: string;
    subscription_id: string;
    body: string;
    line: JobRow | null;
  }): Promise<boolean>;
  /** Sets a slice of what was paused on its way, with one of `jobs` for each; the last is for the line. */
  release(slice: {
    lease: Lease;
    subscription_id: string;
    jobs: JobRow[];
  }): Promise<{ released: number; more: boolean }>;
  /** New deliveries of what stored ones sent, and the answer under the caller's key, if one is given. */
  resend(slice: {
    items: Resend[];
    reason: string;
    /** Also of what was sent again already. */
    again: boolean;
    at: number;
    attempts_max: number;
    claim?: IdempotencyClaim & { status: number; response: string };
  }): Promise<ClaimOutcome>;
  /** What may be sent again, oldest first: each event by its newest delivery, where that ended so. */
  replayable(
    subscription_id: string,
    asked: { since: number; until: number; events?: string[]; status: string; limit: number },
  ): Promise<Replayable[]>;
  /** What was answered under this key already. */
  claimed(claim: IdempotencyClaim): Promise<ClaimOutcome | undefined>;
  event(id: string): Promise<EventRow | undefined>;
  attempts(delivery_id: string): Promise<AttemptRow[]>;
  /** Newest first. */
  logs(subscription_id: string, filter: LogFilter): Promise<Stretch<LogRow>>;
  stats(
    subscription_id: string,
    asked: { sample: number; since: number; now: number },
  ): Promise<DeliveryStats>;
  /** Drops figures of hours before `before`, at most `limit` rows; how many there were. */
  forgetFigures(before: number, limit: number): Promise<number>;
};
