import type { Alerts } from "../alerts/service.ts";
import { DELIVERY_JOB } from "../events/service.ts";
import type { DeliveryRow } from "../events/store.ts";
import { defineJob, done, type JobKind, type Lease, settled, settledUntil } from "../jobs/job.ts";
import { persist } from "../jobs/persist.ts";
import { createConcurrency } from "./concurrency.ts";
import { retryDelay } from "./retry-schedule.ts";
import { type Answered, ATTEMPT_MS, deliveryHeaders, type Sender, sendOnce } from "./send.ts";
import type { AttemptResult, DeliveryStore, DeliveryTarget } from "./store.ts";

/**
 * Attempts one delivery. Its job lives as long as the delivery is under way.
 *
 *     pending ──┬─ 2xx ──────────────────────────────> success
 *        │      ├─ any failure, attempts left ───────> retrying ── at next_attempt_at ──> (as pending)
 *        │      ├─ the last attempt failed ──────────> failed
 *        │      ├─ target blocked, URL no good ──────> failed   (no later attempt could go better)
 *        │      └─ 410 ──────────────────────────────> failed   and the subscription is paused
 *        ├──────── the subscription is paused ───────> paused
 *        └──────── the subscription is deleted ──────> cancelled
 *
 *     (filtered, paused and cancelled also arise where events are planned, and then there is no job)
 *
 * A crash between sending and recording sends the same bytes under the same webhook-id and attempt
 * number again: at least once.
 */
export function deliveryAttempt(
  deps: Sender & {
    store: DeliveryStore;
    alerts: Pick<Alerts, "prepare" | "recorded">;
    random?: () => number;
  },
): JobKind {
  const { store, clock, alerts } = deps;
  const random = deps.random ?? Math.random;
  const concurrency = createConcurrency();

  return defineJob({
    kind: DELIVERY_JOB,
    lane: "deliveries",
    per_key: concurrency.of,
    async run(delivery_id, job) {
      const { lease, payload } = job;
      const delivery = (payload as DeliveryRow | undefined) ?? (await store.find(delivery_id));
      if (!delivery) return done; // pruned while it waited
      const target = await store.target(delivery.subscription_id);
      const end = { lease, delivery_id, at: clock.now() };
      if (!target) await store.settle({ ...end, state: "cancelled", reason: "the webhook was deleted" });
      else if (target.status === "paused") {
        await store.settle({ ...end, state: "paused", reason: target.status_reason ?? "paused" });
      } else {
        const attempt = delivery.attempts + 1;
        const outgoing = { id: delivery.event_id, body: delivery.body, attempt, hop: delivery.hop };
        const headers = deliveryHeaders(deps, target, outgoing);
        const { url } = target;
        const answered = await sendOnce(deps, {
          url,
          headers,
          body: delivery.body,
          timeoutMs: ATTEMPT_MS,
          signal: job.signal,
        });
        concurrency.learn(target.id, answered.error === null);
        const result = resultOf(lease, delivery, target, answered);
        // The receiver has it: a disk that refuses for a while must not have it sent again.
        const alert = alerts.prepare(target.id, result.state);
        const held = await persist(clock, job.isAborted, () => store.record({ ...result, alert }));
        if (held && alert) alerts.recorded(target.id, result.state, alert);
        if (held && result.next_attempt_at !== null) return settledUntil(result.next_attempt_at);
      }
      return settled;
    },
  });

  function resultOf(
    lease: Lease,
    delivery: DeliveryRow,
    target: DeliveryTarget,
    answered: Answered,
  ): AttemptResult {
    const { retry_after_ms, ...attempt } = answered;
    const number = delivery.attempts + 1;
    const common = {
      lease,
      subscription_id: target.id,
      kind: delivery.kind,
      attempt: { delivery_id: delivery.id, number, ...attempt },
      next_attempt_at: null,
      pause: null,
    };
    const now = clock.now();
    if (answered.error === null) return { ...common, state: "success", reason: null, ended_at: now };
    const failed = { ...common, state: "failed", ended_at: now } as const;
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
      return { ...failed, reason: `gave up after ${number} attempts: ${answered.error}` };
    }
    const policy = target.retry_policy;
    const wait = retryDelay({ attempts: number, policy, retryAfterMs: retry_after_ms, random });
    return {
      ...common,
      state: "retrying",
      reason: answered.error,
      next_attempt_at: now + wait,
      ended_at: null,
    };
  }
}
