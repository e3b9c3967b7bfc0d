import { and, asc, count, eq } from "drizzle-orm";
import type { HookTokenRow, HookTokenStore, TargetType } from "../../hooks/store.ts";
import type { Connection } from "./connection.ts";
import type { Storage } from "./storage.ts";
import { hookTokens } from "./tables.ts";

/** For use inside the operation that deletes the target. */
export function deleteHookTokens(db: Connection, type: TargetType, target_id: string): void {
  db.run("DELETE FROM hook_tokens WHERE target_type = ? AND target_id = ?", type, target_id);
}

export const hookWrites = {
  "hooks.createToken": (db: Connection, token: HookTokenRow): void => {
    db.orm.insert(hookTokens).values(token).run();
  },
  "hooks.revokeToken": (db: Connection, { id, at }: { id: string; at: number }): void => {
    db.run("UPDATE hook_tokens SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?", at, id);
  },
  "hooks.tokenUsed": (db: Connection, { id, at }: { id: string; at: number }): void => {
    db.run("UPDATE hook_tokens SET last_used_at = ? WHERE id = ?", at, id);
  },
};

const of = (type: TargetType, target_id: string) =>
  and(eq(hookTokens.target_type, type), eq(hookTokens.target_id, target_id));

export const sqliteHooks = ({ reader, writer }: Storage): HookTokenStore => ({
  create: (token) => writer.submit("hooks.createToken", token),
  get: async (id) => reader.orm.select().from(hookTokens).where(eq(hookTokens.id, id)).get(),
  byHash: async (token_hash) =>
    reader.kept("hook_tokens", token_hash, () =>
      reader.get<HookTokenRow>("SELECT * FROM hook_tokens WHERE token_hash = ?", token_hash),
    ),
  list: async (type, target_id, { limit, offset } = { limit: -1, offset: 0 }) =>
    reader.orm
      .select()
      .from(hookTokens)
      .where(of(type, target_id))
      .orderBy(asc(hookTokens.id))
      .limit(limit)
      .offset(offset)
      .all(),
  count: async (type, target_id) =>
    reader.orm.select({ count: count() }).from(hookTokens).where(of(type, target_id)).get()?.count ?? 0,
  revoke: (id, at) => writer.submit("hooks.revokeToken", { id, at }),
  used: (id, at) => writer.submit("hooks.tokenUsed", { id, at }, "lazy"),
});
