import { BATCH_KIND, DELIVERY_JOB } from "../events/kinds.ts";
import type { DeliveryRow } from "../events/store.ts";
import type { IdempotencyClaim } from "../hooks/store.ts";
import type { Runner } from "../jobs/runner.ts";
import type { Caller } from "../keys/schema.ts";
import { type Clock, iso } from "../lib/clock.ts";
import { conflict, notFound } from "../lib/errors.ts";
import { isUuid, newId } from "../lib/ids.ts";
import { parseMoment } from "../lib/moment.ts";
import { presentEntry } from "./deliveries.ts";
import { attemptsMax } from "./retry-schedule.ts";
import type { ReplayWebhook } from "./schema.ts";
import type { DeliveryStore, Resend, SubscriptionRow } from "./store.ts";

export type Replays = ReturnType<typeof createReplays>;

type Answer<T> = { status: number; body: T; replayed: boolean };

/** What a replay does: `replayed` deliveries go out again; `next_since` is where the rest begins, if it was capped. */
export type Replayed = { webhook_id: string; replayed: number; next_since: string | null };

// More than that is another request's work: the receiver was away for long, and should be asked first.
export const MOST_REPLAYED = 10_000;
const SLICE = 250;

/**
 * Sends events again that were sent before: as new deliveries of the same bytes under the same webhook-id, so
 * that a receiver that keeps ids takes none twice. They go the way of every delivery: in line, into batches.
 */
export function createReplays(deps: {
  store: DeliveryStore;
  inScope: (caller: Caller, webhook_id: string) => Promise<SubscriptionRow>;
  runner: Pick<Runner, "place" | "committed">;
  clock: Clock;
}) {
  const { store, inScope, runner, clock } = deps;

  async function active(caller: Caller, id: string): Promise<SubscriptionRow> {
    const webhook = await inScope(caller, id);
    if (webhook.status === "paused") throw conflict("The webhook is paused. Resume it first.");
    return webhook;
  }

  /** Stores a slice of new deliveries, and with the last one the answer under the caller's key. */
  async function resend<T>(
    webhook: SubscriptionRow,
    ids: string[],
    more: { reason: string; again: boolean; claim?: IdempotencyClaim; answer: Answer<T>; made?: string[] },
  ): Promise<Answer<T>> {
    const { reason, again, claim, answer } = more;
    const key = webhook.id;
    const placements = ids.map(() =>
      // A reference of its own, should it open a batch.
      runner.place(DELIVERY_JOB, { tenant: webhook.workspace_id, key, ref: newId(), waits: true }),
    );
    const items: Resend[] = ids.map((from, n) => ({
      from,
      id: more.made?.[n] ?? newId(),
      job: placements[n]!.row,
    }));
    const outcome = await store.resend({
      ...{ items, reason, again, at: clock.now(), attempts_max: attemptsMax(webhook.retry_policy) },
      ...(claim ? { claim: { ...claim, status: answer.status, response: JSON.stringify(answer.body) } } : {}),
    });
    runner.committed(placements.slice(0, 1)); // one is enough to have the runner look
    switch (outcome.outcome) {
      case "new":
        return answer;
      case "replay":
        return { status: outcome.status, body: JSON.parse(outcome.response), replayed: true };
      case "mismatch":
        throw conflict("This Idempotency-Key was used with another request.");
    }
  }

  return {
    /** Sends one delivery's event once more, whatever became of it. 202 with the new delivery's entry. */
    async redeliver(caller: Caller, webhook_id: string, id: string, claim?: IdempotencyClaim) {
      const webhook = await inScope(caller, webhook_id);
      const old = isUuid(id) ? await store.find(id) : undefined;
      if (old?.subscription_id !== webhook.id) throw notFound("delivery", id);
      if (webhook.status === "paused") throw conflict("The webhook is paused. Resume it first.");
      if (old.body === "") {
        if (old.kind === BATCH_KIND) throw conflict("The batch has not been sent yet.");
        if (!(await store.event(old.event_id))) throw conflict("The event is not kept any more.");
      }
      const made = newId();
      const reason = `redelivery of ${old.id}`;
      const body = presentEntry(anew(old, { id: made, reason, at: clock.now() }, webhook));
      const answer = { status: 202, body, replayed: false };
      return resend(webhook, [old.id], { reason, again: true, claim, answer, made: [made] });
    },

    /**
     * Sends again what was created between `since` and `until` and ended in `status` (failed, unless given):
     * each event once, by its newest delivery, oldest first, 10,000 at most. 202 with how many.
     */
    async replay(
      caller: Caller,
      webhook_id: string,
      { since, until, events, status = "failed" }: ReplayWebhook,
      claim?: IdempotencyClaim,
    ): Promise<Answer<Replayed>> {
      const webhook = await active(caller, webhook_id);
      const known = claim && (await store.claimed(claim));
      const from = parseMoment("since", since)!;
      const to = parseMoment("until", until) ?? Number.MAX_SAFE_INTEGER;
      const found = known
        ? []
        : await store.replayable(webhook.id, {
            since: from,
            until: to,
            events,
            status,
            limit: MOST_REPLAYED + 1,
          });
      const chosen = found.slice(0, MOST_REPLAYED);
      const rest = found[MOST_REPLAYED];
      const body: Replayed = {
        webhook_id: webhook.id,
        replayed: chosen.length,
        next_since: rest ? iso(rest.created_at) : null,
      };
      const answer = { status: 202, body, replayed: false };
      const ids = chosen.map(({ id }) => id);
      const reason = `replay since ${iso(from)}`;
      // The answer is kept with the last slice: who asks again after a crash in between has the rest sent.
      while (ids.length > SLICE) {
        await resend(webhook, ids.splice(0, SLICE), { reason, again: false, answer });
      }
      return resend(webhook, ids, { reason, again: false, claim, answer });
    },
  };
}

function anew(
  old: DeliveryRow,
  made: { id: string; reason: string; at: number },
  { retry_policy }: SubscriptionRow,
) {
  const { body, ...rest } = old;
  return {
    ...rest,
    ...{ id: made.id, reason: made.reason, state: "pending" as const, attempts: 0 },
    ...{ attempts_max: attemptsMax(retry_policy), response_code: null, response_time_ms: null },
    ...{ next_attempt_at: made.at, created_at: made.at, ended_at: null },
    ...{ attempted_at: null, response_excerpt: null, error_class: null, error: null },
    payload_size: Buffer.byteLength(body),
  };
}
