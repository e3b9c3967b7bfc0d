import { and, asc, count, eq, isNull, type SQL } from "drizzle-orm";
import type { KeyFilter, KeyRow, KeyStore } from "../../keys/store.ts";
import type { Connection } from "./connection.ts";
import type { Storage } from "./storage.ts";
import { keys } from "./tables.ts";

function rotate(
  db: Connection,
  { old, key }: { old: { id: string; expires_at: number }; key: KeyRow },
): boolean {
  const ending = db.orm
    .update(keys)
    .set({ expires_at: old.expires_at })
    .where(and(eq(keys.id, old.id), isNull(keys.revoked_at)))
    .returning({ id: keys.id })
    .get();
  if (!ending) return false;
  db.orm.insert(keys).values(key).run();
  return true;
}

export const keyWrites = {
  "keys.create": (db: Connection, key: KeyRow): void => {
    db.orm.insert(keys).values(key).run();
  },
  "keys.rotate": rotate,
  "keys.revoke": (db: Connection, { id, at }: { id: string; at: number }): boolean =>
    db.run("UPDATE keys SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?", at, id) === 1,
  "keys.remove": (db: Connection, id: string): void => {
    db.run("DELETE FROM keys WHERE id = ?", id);
  },
  "keys.used": (db: Connection, { id, at }: { id: string; at: number }): void => {
    db.run("UPDATE keys SET last_used_at = ? WHERE id = ?", at, id);
  },
};

const matching = ({ workspace_id, project_id }: KeyFilter): SQL | undefined =>
  and(
    workspace_id === undefined ? undefined : eq(keys.workspace_id, workspace_id),
    project_id === undefined ? undefined : eq(keys.project_id, project_id),
  );

export const sqliteKeys = ({ reader, writer }: Storage): KeyStore => ({
  create: (key) => writer.submit("keys.create", key),
  rotate: (old, key) => writer.submit("keys.rotate", { old, key }),
  revoke: (id, at) => writer.submit("keys.revoke", { id, at }),
  remove: (id) => writer.submit("keys.remove", id),
  used: (id, at) => writer.submit("keys.used", { id, at }, "lazy"),
  get: async (id) => reader.orm.select().from(keys).where(eq(keys.id, id)).get(),
  byPublicId: async (public_id) => reader.get<KeyRow>("SELECT * FROM keys WHERE public_id = ?", public_id),
  list: async (filter, { limit, offset } = { limit: -1, offset: 0 }) =>
    reader.orm
      .select()
      .from(keys)
      .where(matching(filter))
      .orderBy(asc(keys.created_at), asc(keys.id))
      .limit(limit)
      .offset(offset)
      .all(),
  count: async (filter) =>
    reader.orm.select({ count: count() }).from(keys).where(matching(filter)).get()?.count ?? 0,
});
