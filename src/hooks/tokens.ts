import type { Caller } from "../keys/schema.ts";
import { type Clock, iso, isoOrNull } from "../lib/clock.ts";
import { forbidden, notFound } from "../lib/errors.ts";
import { parseExpiry } from "../lib/expiry.ts";
import { isUuid, newId } from "../lib/ids.ts";
import { sha256Hex } from "../lib/secrets.ts";
import type { CreateHookToken, HookTokenRecord, ListHookTokens, NewHookToken } from "./schema.ts";
import type { HookTokenRow, HookTokenStore, TargetType } from "./store.ts";
import { makeHookToken } from "./token.ts";

export type HookTarget = { id: string; workspace_id: string; project_id: string };
export type FindTarget<T extends HookTarget = HookTarget> = { target(id: string): Promise<T | undefined> };

export type HookTokens = ReturnType<typeof createHookTokens>;

const ONE: Record<TargetType, string> = { agents: "agent", workflows: "workflow" };

/** The tokens that open incoming webhooks (interface 5.2). Several of one target may live: rotation. */
export function createHookTokens(deps: {
  store: HookTokenStore;
  agents: FindTarget;
  workflows: FindTarget;
  clock: Clock;
  /** Where others reach this server, without a slash at the end; asked when a token is made. */
  baseUrl(): string;
}) {
  const { store, clock } = deps;

  async function find(type: TargetType, id: string): Promise<HookTarget> {
    const target = isUuid(id) ? await deps[type].target(id) : undefined;
    if (!target) throw notFound(ONE[type], id);
    return target;
  }

  async function inScope(caller: Caller, type: TargetType, id: string): Promise<HookTarget> {
    const target = await find(type, id);
    if (target.project_id !== caller.project_id) throw forbidden(`This key cannot reach that ${ONE[type]}.`);
    return target;
  }

  async function issue(
    type: TargetType,
    target: HookTarget,
    request: CreateHookToken,
  ): Promise<NewHookToken> {
    const now = clock.now();
    const token = makeHookToken();
    const row: HookTokenRow = {
      id: newId(),
      target_type: type,
      target_id: target.id,
      workspace_id: target.workspace_id,
      project_id: target.project_id,
      name: request.name ?? "Webhook token",
      token_hash: sha256Hex(token),
      last_four: token.slice(-4),
      created_at: now,
      expires_at: parseExpiry(request.expires_at, now),
      revoked_at: null,
      last_used_at: null,
    };
    await store.create(row);
    return { ...present(row), token, url: `${deps.baseUrl()}/webhooks/${type}/${target.id}?token=${token}` };
  }

  async function revoke(type: TargetType, target_id: string, token_id: string): Promise<void> {
    const token = isUuid(token_id) ? await store.get(token_id) : undefined;
    const itsOwn = token?.target_type === type && token.target_id === target_id;
    if (!itsOwn) throw notFound("webhook token", token_id);
    await store.revoke(token_id, clock.now());
  }

  const present = (row: HookTokenRow): HookTokenRecord => ({
    id: row.id,
    target_type: row.target_type,
    target_id: row.target_id,
    name: row.name,
    last_four: row.last_four,
    status: tokenStatus(row, clock.now()),
    created_at: iso(row.created_at),
    expires_at: isoOrNull(row.expires_at),
    revoked_at: isoOrNull(row.revoked_at),
    last_used_at: isoOrNull(row.last_used_at),
  });

  return {
    /** The answer is the only place that ever shows the token. */
    create: async (
      caller: Caller,
      type: TargetType,
      id: string,
      request: CreateHookToken,
    ): Promise<NewHookToken> => issue(type, await inScope(caller, type, id), request),

    async list(caller: Caller, type: TargetType, id: string, page: ListHookTokens) {
      await inScope(caller, type, id);
      const [rows, total] = [await store.list(type, id, page), await store.count(type, id)];
      return { items: rows.map(present), total, ...page };
    },

    /** From the next request on the token opens nothing. */
    async revoke(caller: Caller, type: TargetType, id: string, token_id: string): Promise<void> {
      await inScope(caller, type, id);
      await revoke(type, id, token_id);
    },

    /** The same verbs for whoever holds the data folder: the command line. */
    admin: {
      create: async (type: TargetType, id: string, request: CreateHookToken = {}): Promise<NewHookToken> =>
        issue(type, await find(type, id), request),
      async list(type: TargetType, id: string): Promise<HookTokenRecord[]> {
        await find(type, id);
        return (await store.list(type, id)).map(present);
      },
      async revoke(token_id: string): Promise<void> {
        const token = isUuid(token_id) ? await store.get(token_id) : undefined;
        if (!token) throw notFound("webhook token", token_id);
        await store.revoke(token_id, clock.now());
      },
    },
  };
}

export function tokenStatus(
  token: Pick<HookTokenRow, "revoked_at" | "expires_at">,
  now: number,
): HookTokenRecord["status"] {
  if (token.revoked_at !== null) return "revoked";
  return token.expires_at !== null && token.expires_at <= now ? "expired" : "active";
}
