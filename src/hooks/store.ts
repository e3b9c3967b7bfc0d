export type TargetType = "agents" | "workflows";

export type HookTokenRow = {
  id: string;
  target_type: TargetType;
  target_id: string;
  workspace_id: string;
  project_id: string;
  name: string;
  /** SHA-256 of the whole token, hex. */
  token_hash: string;
  last_four: string;
  created_at: number;
  expires_at: number | null;
  revoked_at: number | null;
  last_used_at: number | null;
};

export type HookTokenStore = {
  create(token: HookTokenRow): Promise<void>;
  get(id: string): Promise<HookTokenRow | undefined>;
  byHash(token_hash: string): Promise<HookTokenRow | undefined>;
  /** Every token of a target, oldest first. */
  list(
    type: TargetType,
    target_id: string,
    page?: { limit: number; offset: number },
  ): Promise<HookTokenRow[]>;
  count(type: TargetType, target_id: string): Promise<number>;
  /** A token that was revoked before keeps its time. */
  revoke(id: string, at: number): Promise<void>;
  /** Nobody waits for it: stored with the next commit. */
  used(id: string, at: number): Promise<void>;
};

/** How long the answer to a request with an idempotency key is repeated (design 3). */
export const CLAIM_MS = 24 * 3_600_000;

/**
 * The claim of one request on an idempotency key: `scope` is where the key counts, `expires_at` is the
 * time of the request plus CLAIM_MS. It is stored in the operation that accepts the work.
 */
export type IdempotencyClaim = { scope: string; key: string; request_hash: string; expires_at: number };

export type ClaimOutcome =
  | { outcome: "new" }
  | { outcome: "replay"; status: number; response: string }
  | { outcome: "mismatch" };

export type IdempotencyStore = {
  /** Forgets up to `limit` claims that have expired at `now`; the number forgotten. */
  prune(now: number, limit: number): Promise<number>;
};
