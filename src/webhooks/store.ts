import type { PreparedAlert } from "../alerts/store.ts";
import type { EventPattern } from "../events/schema.ts";
import type { DeliveryRow, DeliveryState, EventRow } from "../events/store.ts";
import type { JobRow, Lease } from "../jobs/job.ts";
import type { Stretch, Window } from "../lib/feed.ts";
import type { JsonObject } from "../lib/json.ts";
import type { Filters } from "./filters.ts";
import type { RetryPolicy } from "./retry-schedule.ts";

export type BatchSettings = { max_events: number; max_wait_seconds: number };

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
  total_deliveries: number;
  successful_deliveries: number;
  failed_deliveries: number;
  last_delivery_at: number | null;
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
  update(id: string, patch: SubscriptionPatch): Promise<SubscriptionRow | undefined>;
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
>;

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
   * Lazy, success and failure alike: a power cut that takes it back finds the job running and sends the
   * same bytes with the same webhook-id again, which at-least-once allows. A crash of the program alone
   * takes nothing back.
   */
  record(result: AttemptResult): Promise<boolean>;
  /** Ends a delivery that was not attempted. */
  settle(end: {
    lease: Lease;
    delivery_id: string;
    state: "paused" | "cancelled";
    reason: string;
    at: number;
  }): Promise<boolean>;
  /** A delivery of an event that is on record already. */
  insert(delivery: DeliveryRow, job: JobRow): Promise<void>;
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
