import { and, count, desc, eq, or } from "drizzle-orm";
import type { AgentRow, AgentStore, AgentTarget } from "../../agents/store.ts";
import type { Connection } from "./connection.ts";
import { contains } from "./contains.ts";
import { deleteHookTokens } from "./hooks.ts";
import type { Storage } from "./storage.ts";
import { agents } from "./tables.ts";

const values = (agent: AgentRow) => agent as unknown as typeof agents.$inferInsert;
const row = (found: typeof agents.$inferSelect) => found as unknown as AgentRow;

function update(db: Connection, agent: AgentRow): AgentRow | undefined {
  const { name, description, visibility, settings, updated_at } = values(agent);
  const set = { name, description, visibility, settings, updated_at, version: agent.version };
  const before = and(eq(agents.id, agent.id), eq(agents.version, agent.version - 1));
  const updated = db.orm.update(agents).set(set).where(before).returning().get();
  return updated && row(updated);
}

function remove(db: Connection, id: string): boolean {
  deleteHookTokens(db, "agents", id);
  return db.orm.delete(agents).where(eq(agents.id, id)).returning({ id: agents.id }).get() !== undefined;
}

export const agentWrites = {
  "agents.create": (db: Connection, agent: AgentRow): void => {
    db.orm.insert(agents).values(values(agent)).run();
  },
  "agents.update": update,
  "agents.remove": remove,
};

export const sqliteAgents = ({ reader, writer }: Storage): AgentStore => ({
  create: (agent) => writer.submit("agents.create", agent),
  update: (agent) => writer.submit("agents.update", agent),
  remove: (id) => writer.submit("agents.remove", id),
  async get(id) {
    const found = reader.get<Omit<AgentTarget, "settings"> & { settings: string }>(
      "SELECT * FROM agents WHERE id = ?",
      id,
    );
    return found && { ...found, settings: JSON.parse(found.settings) };
  },
  async list(project_id, { limit, offset, search }) {
    const found = and(
      eq(agents.project_id, project_id),
      search ? or(contains(agents.name, search), contains(agents.description, search)) : undefined,
    );
    const items = reader.orm.select().from(agents).where(found).orderBy(desc(agents.id));
    return {
      items: items.limit(limit).offset(offset).all().map(row),
      total: reader.orm.select({ n: count() }).from(agents).where(found).get()!.n,
    };
  },
});
