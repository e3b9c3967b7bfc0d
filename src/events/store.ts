import type { JobRow } from "../jobs/job.ts";
import type { Stretch, Window } from "../lib/feed.ts";
import type { JsonObject } from "../lib/json.ts";
import type { BatchSettings } from "../webhooks/batch.ts";
import type { Filters } from "../webhooks/filters.ts";
import type { RetryPolicy } from "../webhooks/retry-schedule.ts";
import type { EventKind, EventPattern } from "./kinds.ts";

export type EventRow = {
  id: string;
  project_id: string;
  kind: EventKind;
  /** The execution or conversation it tells of. */
  subject_id: string;
  data: string;
  created_at: number;
};

export type DeliveryState =
  | "pending"
  | "retrying"
  | "success"
  | "failed"
  | "filtered"
  /** Kept while the subscription is paused. */
  | "paused"
  /** Waits in the line of an ordered subscription. */
  | "held"
  /** Went into a batch, which is a delivery of its own. */
  | "batched"
  /** A batch that takes events. */
  | "collecting"
  | "cancelled";

export type DeliveryRow = {
  id: string;
  event_id: string;
  subscription_id: string;
  kind: string;
  state: DeliveryState;
  reason: string | null;
  hop: number;
  /** The very bytes, sent on every attempt; "" until they are written. */
  body: string;
  attempts: number;
  attempts_max: number;
  response_code: number | null;
  response_time_ms: number | null;
  next_attempt_at: number | null;
  created_at: number;
  ended_at: number | null;
  /** The batch that a `batched` one went into; written with that and never by an insert. */
  batch_id?: string | null;
};

/** A delivery whose way is decided inside the commit, by what its subscription is then; `job` if it needs one. */
export type WaitingDelivery = { delivery: PlannedDelivery; job: JobRow };

/**
 * `head`: the bytes are this, the event's data and a closing brace, and are stored no second time; `body` is
 * empty then.
 */
export type PlannedDelivery = DeliveryRow & { head?: string | null };

export const bytesOf = ({ head, body }: Pick<PlannedDelivery, "head" | "body">, data: string): string =>
  head == null ? body : `${head}${data}}`;

/** What stands before the data of an event, around the webhook's id: the same for all who hear of it. */
export type HeadParts = [before: string, after: string];

export const headOf = ([before, after]: HeadParts, webhook_id: string): string =>
  `${before}${webhook_id}${after}`;

/** A delivery that goes out at once. `body`: its bytes, where they are not the event whole. */
export type Outgoing = [id: string, subscription_id: string, attempts_max: number, body?: string];

/**
 * An event with one answer for every subscription that lists its kind, and the jobs of those that must wait.
 * A store operation inserts it whole, in the commit of the state change that it tells of (the outbox).
 */
export type Outbox = {
  event: EventRow;
  /** Of the deliveries. */
  hop: number;
  head: HeadParts;
  outgoing: Outgoing[];
  /** What is not to be sent, and why. */
  refused: DeliveryRow[];
  jobs: JobRow[];
  waiting?: WaitingDelivery[];
};

/** What deciding about an event needs to know of a subscription. */
export type Subscriber = {
  id: string;
  events: EventPattern[];
  status: "active" | "paused";
  status_reason: string | null;
  retry_policy: RetryPolicy | null;
  conditions: JsonObject | null;
  filters: Filters | null;
  batch_settings: BatchSettings | null;
  /** 1: order, batches or a pause decide inside the commit where a delivery goes. */
  waits: number;
};

export type EventStore = {
  /** Every subscription of a project, as it is now: one prepared read. */
  subscribers(project_id: string): Promise<Subscriber[]>;
};

export type EventFilter = Window & { event?: string; subject_id?: string };

/** What became of an event at one subscription: its newest delivery there, with the last attempt of it. */
export type AnswerRow = Omit<DeliveryRow, "body" | "batch_id"> & {
  attempted_at: number | null;
  error_class: string | null;
  /** The batch that it went into. */
  batch_id: string | null;
};

/** A subscription as far as it explains an event it got nothing of; the deleted ones are not among them. */
export type Bystander = {
  id: string;
  name: string;
  events: EventPattern[];
  created_at: number;
};

export type EventRecordStore = {
  get(id: string): Promise<EventRow | undefined>;
  /** Newest first, without `data`. */
  list(project_id: string, filter: EventFilter): Promise<Stretch<Omit<EventRow, "data">>>;
  /** How many the filter finds, its `below` and `offset` apart; undefined past 10,000. */
  count(project_id: string, filter: EventFilter): Promise<number | undefined>;
  /** Every delivery of the event, oldest first. */
  answers(event_id: string): Promise<AnswerRow[]>;
  /** A batch, which is a delivery and tells what became of what it holds. */
  batch(id: string): Promise<AnswerRow | undefined>;
  bystanders(project_id: string): Promise<Bystander[]>;
};
