import { and, count, eq, ne } from "drizzle-orm";
import type { ConnectionRow, ConnectionStore } from "../../connections/store.ts";
import type { Connection } from "./connection.ts";
import type { Storage } from "./storage.ts";
import { connections } from "./tables.ts";

const row = (found: typeof connections.$inferSelect) => found as ConnectionRow;

function isTaken(db: Connection, { id, project_id, name }: ConnectionRow): boolean {
  const named = and(
    eq(connections.project_id, project_id),
    eq(connections.name, name),
    ne(connections.id, id),
  );
  return db.orm.select({ id: connections.id }).from(connections).where(named).get() !== undefined;
}

function create(db: Connection, connection: ConnectionRow): "created" | "taken" {
  if (isTaken(db, connection)) return "taken";
  db.orm.insert(connections).values(connection).run();
  return "created";
}

type Before = Pick<ConnectionRow, "secret" | "name">;

function update(
  db: Connection,
  { connection, before }: { connection: ConnectionRow; before: Before },
): ConnectionRow | "taken" | undefined {
  if (isTaken(db, connection)) return "taken";
  const { name, settings, secret, updated_at } = connection;
  // Every change seals anew, so an equal secret means that nobody else wrote meanwhile.
  const same = and(
    eq(connections.id, connection.id),
    eq(connections.secret, before.secret),
    eq(connections.name, before.name),
  );
  const updated = db.orm
    .update(connections)
    .set({ name, settings, secret, updated_at })
    .where(same)
    .returning()
    .get();
  return updated && row(updated);
}

export const connectionWrites = {
  "connections.create": create,
  "connections.update": update,
  "connections.remove": (db: Connection, id: string): boolean =>
    db.orm.delete(connections).where(eq(connections.id, id)).returning({ id: connections.id }).get() !==
    undefined,
};

const parsed = (found: (Omit<ConnectionRow, "settings"> & { settings: string }) | undefined) =>
  found && { ...found, settings: JSON.parse(found.settings) };
type Stored = Omit<ConnectionRow, "settings"> & { settings: string };

export const sqliteConnections = ({ reader, writer }: Storage): ConnectionStore => ({
  create: (connection) => writer.submit("connections.create", connection),
  update: (connection, before) => writer.submit("connections.update", { connection, before }),
  remove: (id) => writer.submit("connections.remove", id),
  // Both are asked for every step that uses one.
  get: async (id) => parsed(reader.get<Stored>("SELECT * FROM connections WHERE id = ?", id)),
  byName: async (project_id, name) =>
    parsed(
      reader.get<Stored>("SELECT * FROM connections WHERE project_id = ? AND name = ?", project_id, name),
    ),
  async list(project_id, { type, limit, offset }) {
    const ours = and(eq(connections.project_id, project_id), type && eq(connections.type, type));
    const items = reader.orm.select().from(connections).where(ours).orderBy(connections.name);
    return {
      items: items.limit(limit).offset(offset).all().map(row),
      total: reader.orm.select({ n: count() }).from(connections).where(ours).get()!.n,
    };
  },
});
