import { and, count, desc, eq, or } from "drizzle-orm";
import type { AgentRow, AgentStore, AgentTarget, AgentVersionRow } from "../../agents/store.ts";
import type { Connection } from "./connection.ts";
import { contains } from "./contains.ts";
import { deleteHookTokens } from "./hooks.ts";
import type { Storage } from "./storage.ts";
import { agents } from "./tables.ts";
import { deleteTriggersOf } from "./triggers.ts";

const values = (agent: AgentRow) => agent as unknown as typeof agents.$inferInsert;
const row = (found: typeof agents.$inferSelect) => found as unknown as AgentRow;

const MOST_VERSIONS = 100;

/** In the commit that makes the agent so. */
function keepVersion(db: Connection, agent: AgentRow): void {
  db.run(
    `INSERT INTO agent_versions (agent_id, version, name, description, visibility, settings, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?)`,
    agent.id,
    agent.version,
    agent.name,
    agent.description,
    agent.visibility,
    JSON.stringify(agent.settings),
    agent.updated_at ?? agent.created_at,
  );
  db.run(
    "DELETE FROM agent_versions WHERE agent_id = ? AND version <= ?",
    agent.id,
    agent.version - MOST_VERSIONS,
  );
}

function update(db: Connection, agent: AgentRow): AgentRow | undefined {
  const { name, description, visibility, settings, updated_at } = values(agent);
  const set = { name, description, visibility, settings, updated_at, version: agent.version };
  const before = and(eq(agents.id, agent.id), eq(agents.version, agent.version - 1));
  const updated = db.orm.update(agents).set(set).where(before).returning().get();
  if (updated) keepVersion(db, agent);
  return updated && row(updated);
}

function remove(db: Connection, id: string): boolean {
  deleteHookTokens(db, "agents", id);
  deleteTriggersOf(db, id);
  db.run("DELETE FROM agent_versions WHERE agent_id = ?", id);
  return db.orm.delete(agents).where(eq(agents.id, id)).returning({ id: agents.id }).get() !== undefined;
}

export const agentWrites = {
  "agents.create": (db: Connection, agent: AgentRow): void => {
    db.orm.insert(agents).values(values(agent)).run();
    keepVersion(db, agent);
  },
  "agents.update": update,
  "agents.remove": remove,
};

type VersionText = Omit<AgentVersionRow, "settings"> & { settings: string };
const version = (found: VersionText): AgentVersionRow => ({
  ...found,
  settings: JSON.parse(found.settings),
});
const VERSION = "SELECT version, name, description, visibility, settings, created_at FROM agent_versions";

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
  versions: async (id, { limit, offset }) => ({
    items: reader
      .all<VersionText>(
        `${VERSION} WHERE agent_id = ? ORDER BY version DESC LIMIT ? OFFSET ?`,
        id,
        limit,
        offset,
      )
      .map(version),
    total: reader.get<{ n: number }>("SELECT count(*) AS n FROM agent_versions WHERE agent_id = ?", id)!.n,
  }),
  async version(id, number) {
    const found = reader.get<VersionText>(`${VERSION} WHERE agent_id = ? AND version = ?`, id, number);
    return found && version(found);
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
