import {
  CLAIM_MS,
  type ClaimOutcome,
  type IdempotencyClaim,
  type IdempotencyStore,
} from "../../hooks/store.ts";
import type { Connection } from "./connection.ts";
import type { Storage } from "./storage.ts";

/**
 * For use inside the operation that accepts the work, before it writes anything: only after "new" may it.
 * The answer that is repeated later is stored with the claim. An expired claim counts as none.
 */
export function claimIdempotency(
  db: Connection,
  claim: IdempotencyClaim & { status: number; response: string },
): ClaimOutcome {
  const claimed = db.run(
    `INSERT INTO idempotency (scope, key, request_hash, status, response, expires_at) VALUES (?, ?, ?, ?, ?, ?)
     ON CONFLICT (scope, key) DO UPDATE SET request_hash = excluded.request_hash, status = excluded.status,
       response = excluded.response, expires_at = excluded.expires_at
     WHERE idempotency.expires_at <= ?`,
    claim.scope,
    claim.key,
    claim.request_hash,
    claim.status,
    claim.response,
    claim.expires_at,
    claim.expires_at - CLAIM_MS,
  );
  if (claimed === 1) return { outcome: "new" };
  return keptClaim(db, claim) ?? { outcome: "mismatch" };
}

/** What was answered under the key already; undefined when nothing was, or it has expired. */
export function keptClaim(db: Connection, claim: IdempotencyClaim): ClaimOutcome | undefined {
  const kept = db.get<{ request_hash: string; status: number; response: string }>(
    "SELECT request_hash, status, response FROM idempotency WHERE scope = ? AND key = ? AND expires_at > ?",
    claim.scope,
    claim.key,
    claim.expires_at - CLAIM_MS,
  );
  if (!kept) return undefined;
  if (kept.request_hash !== claim.request_hash) return { outcome: "mismatch" };
  return { outcome: "replay", status: kept.status, response: kept.response };
}

export const idempotencyWrites = {
  "idempotency.prune": (db: Connection, { now, limit }: { now: number; limit: number }): number =>
    db.run(
      `DELETE FROM idempotency WHERE (scope, key) IN
         (SELECT scope, key FROM idempotency WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)`,
      now,
      limit,
    ),
};

export const sqliteIdempotency = ({ writer }: Storage): IdempotencyStore => ({
  prune: (now, limit) => writer.submit("idempotency.prune", { now, limit }, "lazy"),
});
