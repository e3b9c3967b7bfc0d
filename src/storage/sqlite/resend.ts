import { BATCH_KIND } from "../../events/kinds.ts";
import type { DeliveryRow, PlannedDelivery } from "../../events/store.ts";
import type { ClaimOutcome } from "../../hooks/store.ts";
import type { DeliveryStore, Replayable, Resend } from "../../webhooks/store.ts";
import type { Connection } from "./connection.ts";
import { claimIdempotency, keptClaim } from "./idempotency.ts";
import { insertWaiting } from "./waiting.ts";

/** Whether a later delivery tells more of the same event at the same subscription. */
const isOutdated = (db: Connection, { id, event_id, subscription_id, created_at }: DeliveryRow): boolean =>
  db.get(
    // Found by the event: the plus keeps the far longer lists of the subscription out of it.
    `SELECT 1 FROM deliveries
     WHERE event_id = ? AND +subscription_id = ? AND (created_at, id) > (?, ?) LIMIT 1`,
    event_id,
    subscription_id,
    created_at,
    id,
  ) !== undefined;

type Resending = Parameters<DeliveryStore["resend"]>[0];

/** New deliveries of what stored ones sent. Those that were sent again meanwhile are left out, unless `again`. */
export function resend(db: Connection, asked: Resending): ClaimOutcome {
  const { items, reason, again, at, attempts_max, claim } = asked;
  if (claim) {
    const claimed = claimIdempotency(db, claim);
    if (claimed.outcome !== "new") return claimed;
  }
  for (const item of items) insertAgain(db, item, { reason, again, at, attempts_max });
  return { outcome: "new" };
}

function insertAgain(
  db: Connection,
  { from, id, job }: Resend,
  { reason, again, at, attempts_max }: Pick<Resending, "reason" | "again" | "at" | "attempts_max">,
): void {
  const old = db.get<PlannedDelivery>("SELECT * FROM deliveries WHERE id = ?", from);
  if (!old || (!again && isOutdated(db, old))) return;
  insertWaiting(db, {
    job,
    delivery: {
      ...old,
      ...{ id, reason, attempts_max, attempts: 0, state: "pending", next_attempt_at: at, created_at: at },
      ...{ response_code: null, response_time_ms: null, ended_at: null },
    },
  });
}

// Read in parts with a turn of the event loop between, as a long stretch must not hold up anybody else.
const PART = 500;

type Candidate = { id: string; created_at: number; kind: string; state: string };

const ORDERED = `AND created_at <= ? AND (created_at, id) > (?, ?) ORDER BY created_at, id LIMIT ?`;

async function replayable(
  db: Connection,
  subscription_id: string,
  { since, until, events, status, limit }: Parameters<DeliveryStore["replayable"]>[1],
): Promise<Replayable[]> {
  const found: Replayable[] = [];
  const states = status === "any" ? ["failed", "success", "cancelled"] : [status];
  let after = { created_at: since, id: "" };
  for (;;) {
    const place = [until, after.created_at, after.id, PART] as const;
    const rows =
      status === "any" || status === "success"
        ? db.all<Candidate>(
            `SELECT id, created_at, kind, state FROM deliveries WHERE subscription_id = ? ${ORDERED}`,
            subscription_id,
            ...place,
          )
        : db.all<Candidate>(
            `SELECT id, created_at, kind, state FROM deliveries
             WHERE subscription_id = ? AND state = ? AND state NOT IN ('pending', 'success') ${ORDERED}`,
            subscription_id,
            status,
            ...place,
          );
    for (const { id, kind, state, created_at } of rows) {
      after = { created_at, id };
      if (!states.includes(state) || (events && !events.includes(kind))) continue;
      if (!isReplayable(db, id)) continue;
      found.push({ id, created_at });
      if (found.length === limit) return found;
    }
    if (rows.length < PART) return found;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Nothing later tells of its event, and there is something to send. */
function isReplayable(db: Connection, id: string): boolean {
  const delivery = db.get<DeliveryRow & { has_event: number }>(
    `SELECT d.id, d.event_id, d.subscription_id, d.created_at, d.kind, octet_length(d.body) AS body,
       EXISTS (SELECT 1 FROM events e WHERE e.id = d.event_id) AS has_event
     FROM deliveries d WHERE d.id = ?`,
    id,
  );
  if (!delivery || isOutdated(db, delivery)) return false;
  return Number(delivery.body) > 0 || (delivery.kind !== BATCH_KIND && delivery.has_event === 1);
}

export const resendReads = (reader: Connection): Pick<DeliveryStore, "replayable" | "claimed"> => ({
  replayable: (subscription_id, asked) => replayable(reader, subscription_id, asked),
  claimed: async (claim) => keptClaim(reader, claim),
});
