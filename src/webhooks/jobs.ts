import type { Alerts } from "../alerts/service.ts";
import { BATCH_KIND, DELIVERY_JOB } from "../events/kinds.ts";
import type { DeliveryRow } from "../events/store.ts";
import {
  defineJob,
  done,
  type Fate,
  type JobKind,
  type JobRow,
  type JobRun,
  type Lease,
  retry,
  settled,
  settledUntil,
} from "../jobs/job.ts";
import { persist } from "../jobs/persist.ts";
import type { NewJob, Placement } from "../jobs/placement.ts";
import { batchBody, eventBody } from "./batch.ts";
import { createConcurrency, type Outcome } from "./concurrency.ts";
import { retryDelay } from "./retry-schedule.ts";
import { type Answered, ATTEMPT_MS, deliveryHeaders, type Sender, sendOnce } from "./send.ts";
import type { AttemptResult, DeliveryStore, DeliveryTarget } from "./store.ts";

// After so long without a success a receiver is taken for gone, and events are kept for it instead.
const MOST_FAILING_MS = 5 * 86_400_000;
const FAILING = "failing: no delivery succeeded for 5 days";

/**
 * Attempts one delivery. Its job lives as long as the delivery is under way.
 *
 *     pending ──┬─ 2xx ──────────────────────────────> success
 *        │      ├─ any failure, attempts left ───────> retrying ── at next_attempt_at ──> (as pending)
 *        │      ├─ the last attempt failed ──────────> failed   (after 5 days without success it also pauses)
 *        │      ├─ target blocked, URL no good ──────> failed   (no later attempt could go better)
 *        │      └─ 410 ──────────────────────────────> failed   and the subscription is paused
 *        ├──────── the subscription is paused ───────> paused ── it is resumed ──────────> (as pending)
 *        └──────── the subscription is deleted ──────> cancelled
 *
 *     held ─────── the one before it ended ──────────> (as pending)      an ordered subscription
 *     collecting ─ full, or its time is over ────────> (as pending)      a batch; its events are `batched`
 *
 *     (filtered, batched, held, paused and cancelled also arise where events are planned; no job then)
 *
 * A crash between sending and recording sends the same bytes under the same webhook-id and attempt
 * number again: at least once.
 */
export function deliveryAttempt(
  deps: Sender & {
    store: DeliveryStore;
    alerts: Pick<Alerts, "prepare" | "recorded">;
    /** A job of this kind, for an operation to store or not. */
    place: (job: NewJob) => Placement;
    /** Has the runner look for work again: a webhook's own limits have room. */
    look: () => void;
    random?: () => number;
  },
): JobKind {
  const { store, clock, alerts } = deps;
  const random = deps.random ?? Math.random;
  const concurrency = createConcurrency({ clock, look: deps.look });

  return defineJob({
    kind: DELIVERY_JOB,
    lane: "deliveries",
    per_key: concurrency.of,
    isProven: concurrency.isProven,
    unstored: {
      putDown: ({ ref }, at, reason) => store.putDown(ref, at, reason),
      orphans: () => store.underWay(),
      takeOver: (ids, now) => store.takeOver(ids, now),
    },
    async run(delivery_id, job) {
      const { lease, payload } = job;
      const delivery = (payload as DeliveryRow | undefined) ?? (await store.find(delivery_id));
      if (!delivery) return done; // pruned while it waited
      const target = await store.target(delivery.subscription_id);
      if (!target) return settle(delivery, job, "cancelled", "the webhook was deleted");
      if (target.status === "paused") {
        return settle(delivery, job, "paused", target.status_reason ?? "paused", target);
      }
      if (delivery.body === "") {
        const fate = await write(delivery, job, target);
        if (fate) return fate;
      }
      const entry = concurrency.enter(target.id, target);
      if ("wait_ms" in entry) return retry("the webhook's own limits", clock.now() + entry.wait_ms);
      const { body } = delivery;
      const attempt = delivery.attempts + 1;
      const outgoing = { id: delivery.event_id, body, attempt, hop: delivery.hop };
      let answered: Answered;
      try {
        const { alike, headers } = deliveryHeaders(deps, target, outgoing);
        answered = await sendOnce(deps, {
          url: target.url,
          alike,
          headers,
          body,
          timeoutMs: ATTEMPT_MS,
          signal: job.cancel,
        });
      } finally {
        entry.leave();
      }
      concurrency.learn(target.id, outcomeOf(answered));
      const result = resultOf(lease, delivery, target, answered);
      // In a line the next begins by what is recorded here.
      if (!target.ordered) job.leave();
      // The receiver has it: a disk that refuses for a while must not have it sent again.
      const alert = alerts.prepare(target.id, result.state);
      const held = await persist(
        clock,
        () => job.isAborted(),
        () => store.record(alert ? { ...result, alert } : result),
      );
      if (!held) return settled;
      if (alert) alerts.recorded(target.id, result.state, alert);
      if (result.next_attempt_at !== null) return settledUntil(result.next_attempt_at);
      return target.ordered ? settledUntil(clock.now()) : settled;
    },
  });

  /** Ends it without an attempt. */
  async function settle(
    { id, subscription_id }: DeliveryRow,
    { lease }: JobRun,
    state: "paused" | "cancelled",
    reason: string,
    target?: DeliveryTarget,
  ): Promise<Fate> {
    const at = clock.now();
    const next = target?.ordered ? nextInLine(subscription_id) : null;
    await store.settle({ lease, delivery_id: id, subscription_id, state, reason, at, next });
    return settledUntil(at); // it may be due again, or another in its place
  }

  function nextInLine(key: string): JobRow {
    return deps.place({ tenant: "", key, ref: "", waits: true }).row;
  }

  /**
   * The bytes of a delivery that waited, or of a batch, which is closed with that; kept before they are sent.
   * Answers the job's fate when it ends here.
   */
  async function write(
    delivery: DeliveryRow,
    job: JobRun,
    target: DeliveryTarget,
  ): Promise<Fate | undefined> {
    const { id, subscription_id } = delivery;
    const isBatch = delivery.kind === BATCH_KIND;
    if (isBatch) await store.closeBatch({ subscription_id, batch_id: id });
    const content = await store.unwritten(delivery);
    if (!content) return settle(delivery, job, "cancelled", "the event is not kept any more", target);
    const { events, filters } = content;
    const webhook = { id: subscription_id, filters };
    const at = clock.now();
    const body = isBatch ? batchBody({ id, at, events }, webhook) : eventBody(events[0]!, webhook);
    const line = isBatch && delivery.state === "collecting" && target.ordered ? nextInLine(target.id) : null;
    const held = await store.write({ lease: job.lease, delivery_id: id, subscription_id, body, line });
    if (!held || line) return settledUntil(at);
    delivery.body = body;
    return undefined;
  }

  function resultOf(
    lease: Lease,
    delivery: DeliveryRow,
    target: DeliveryTarget,
    answered: Answered,
  ): AttemptResult {
    const number = delivery.attempts + 1;
    const now = clock.now();
    // As it is where all goes well, which nearly all does.
    const common: AttemptResult = {
      lease,
      subscription_id: target.id,
      kind: delivery.kind,
      attempt: {
        delivery_id: delivery.id,
        number,
        started_at: answered.started_at,
        response_code: answered.response_code,
        response_time_ms: answered.response_time_ms,
        response_excerpt: answered.response_excerpt,
        error_class: answered.error_class,
        error: answered.error,
      },
      state: "success",
      reason: null,
      next_attempt_at: null,
      ended_at: now,
      pause: null,
    };
    if (target.ordered) common.next = nextInLine(target.id);
    if (answered.error === null) return common;
    const failed = { ...common, state: "failed" } as const;
    if (answered.response_code === 410) {
      return {
        ...failed,
        reason: "gone: the receiver answered 410",
        pause: "gone: the receiver answered 410",
      };
    }
    if (answered.error_class === "blocked" || answered.error_class === "bad_url") {
      return { ...failed, reason: `${answered.error_class}: ${answered.error}` };
    }
    if (number >= delivery.attempts_max) {
      const pause_if = { failing_since: now - MOST_FAILING_MS, reason: FAILING };
      return {
        ...failed,
        reason: `gave up after ${number} ${number === 1 ? "attempt" : "attempts"}: ${answered.error}`,
        pause_if,
      };
    }
    const policy = target.retry_policy;
    const wait = retryDelay({ attempts: number, policy, retryAfterMs: answered.retry_after_ms, random });
    return {
      ...common,
      state: "retrying",
      reason: answered.error,
      next_attempt_at: now + wait,
      ended_at: null,
    };
  }
}

// Whoever floods costs as much as one that hangs, though it took the delivery.
const outcomeOf = ({ error, error_class, truncated }: Answered): Outcome =>
  error_class === "timeout" || truncated ? "late" : error === null ? "good" : "bad";
