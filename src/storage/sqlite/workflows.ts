import { and, count, desc, eq, or } from "drizzle-orm";
import { NO_SETTINGS } from "../../workflows/defaults.ts";
import type { WorkflowSettings } from "../../workflows/schema.ts";
import type {
  DefinitionRow,
  VersionRow,
  WorkflowPatch,
  WorkflowRow,
  WorkflowStore,
  WorkflowTarget,
} from "../../workflows/store.ts";
import type { Connection } from "./connection.ts";
import { contains } from "./contains.ts";
import { deleteHookTokens } from "./hooks.ts";
import type { Storage } from "./storage.ts";
import { definitions, workflows, workflowVersions } from "./tables.ts";

const keepDefinition = (db: Connection, definition: DefinitionRow) =>
  db.orm.insert(definitions).values(definition).onConflictDoNothing().run();

function create(db: Connection, args: { workflow: WorkflowRow; definition: DefinitionRow }): void {
  keepDefinition(db, args.definition);
  db.orm.insert(workflows).values(args.workflow).run();
}

type Updating = { id: string; patch: WorkflowPatch; definition?: DefinitionRow & { replaces: string } };

function update(db: Connection, { id, patch, definition }: Updating): WorkflowRow | "changed" | undefined {
  const isThis = eq(workflows.id, id);
  if (!definition) return db.orm.update(workflows).set(patch).where(isThis).returning().get();
  const { replaces, ...kept } = definition;
  const asRead = and(isThis, eq(workflows.definition_hash, replaces));
  const updated = db.orm.update(workflows).set(patch).where(asRead).returning().get();
  if (updated) keepDefinition(db, kept);
  return updated ?? (db.get("SELECT 1 FROM workflows WHERE id = ?", id) ? "changed" : undefined);
}

function set(
  db: Connection,
  { id, patch }: { id: string; patch: Partial<WorkflowSettings> },
): WorkflowSettings | undefined {
  const row = db.orm
    .select({ settings: workflows.settings })
    .from(workflows)
    .where(eq(workflows.id, id))
    .get();
  if (!row) return undefined;
  const settings = { ...NO_SETTINGS, ...row.settings, ...patch };
  db.orm.update(workflows).set({ settings }).where(eq(workflows.id, id)).run();
  return settings;
}

type Keeping = Omit<VersionRow, "version" | "definition_hash"> & { publish: boolean };

function keepVersion(db: Connection, { publish, ...rest }: Keeping): VersionRow | undefined {
  const { workflow_id } = rest;
  const draft = db.get<{ definition_hash: string }>(
    "SELECT definition_hash FROM workflows WHERE id = ?",
    workflow_id,
  );
  if (!draft) return undefined;
  const last = db.get<{ version: number | null }>(
    "SELECT max(version) AS version FROM workflow_versions WHERE workflow_id = ?",
    workflow_id,
  );
  const row = { ...rest, ...draft, version: (last?.version ?? 0) + 1 };
  db.orm.insert(workflowVersions).values(row).run();
  if (publish) publishVersion(db, { id: workflow_id, version: row.version });
  return row;
}

function publishVersion(db: Connection, { id, version }: { id: string; version: number | null }): boolean {
  const found = version === null ? undefined : findVersion(db, id, version);
  if (version !== null && !found) return false;
  const patch = { published_version: version, published_hash: found?.definition_hash ?? null };
  return db.orm.update(workflows).set(patch).where(eq(workflows.id, id)).returning().get() !== undefined;
}

type Restoring = { id: string; version: number; updated_at: number };

function restore(db: Connection, { id, version, updated_at }: Restoring): boolean {
  const found = findVersion(db, id, version);
  if (!found) return false;
  const patch = { definition_hash: found.definition_hash, updated_at };
  return db.orm.update(workflows).set(patch).where(eq(workflows.id, id)).returning().get() !== undefined;
}

const findVersion = (db: Connection, workflow_id: string, version: number): VersionRow | undefined =>
  db.get<VersionRow>(
    "SELECT * FROM workflow_versions WHERE workflow_id = ? AND version = ?",
    workflow_id,
    version,
  );

function remove(db: Connection, id: string): boolean {
  deleteHookTokens(db, "workflows", id);
  db.run("DELETE FROM workflow_versions WHERE workflow_id = ?", id);
  return (
    db.orm.delete(workflows).where(eq(workflows.id, id)).returning({ id: workflows.id }).get() !== undefined
  );
}

export const workflowWrites = {
  "workflows.create": create,
  "workflows.update": update,
  "workflows.set": set,
  "workflows.viewed": (db: Connection, id: string): void => {
    db.run("UPDATE workflows SET num_views = num_views + 1 WHERE id = ?", id);
  },
  "workflows.keep": keepVersion,
  "workflows.publish": publishVersion,
  "workflows.restore": restore,
  "workflows.remove": remove,
};

type Counters = Pick<WorkflowTarget, "num_runs" | "run_ms_total">;
type Configured = Omit<WorkflowTarget, keyof Counters>;

function configuredTarget(reader: Connection, id: string): Configured | undefined {
  const row = reader.get<Omit<Configured, "settings"> & { settings: string | null }>(
    `SELECT id, workspace_id, project_id, user_id, name,
       coalesce(published_hash, definition_hash) AS definition_hash, settings
     FROM workflows WHERE id = ?`,
    id,
  );
  return row && { ...row, settings: row.settings === null ? NO_SETTINGS : JSON.parse(row.settings) };
}

export const sqliteWorkflows = ({ reader, writer }: Storage): WorkflowStore => ({
  create: (workflow, definition) => writer.submit("workflows.create", { workflow, definition }),
  update: (id, patch, definition) => writer.submit("workflows.update", { id, patch, definition }),
  set: (id, patch) => writer.submit("workflows.set", { id, patch }),
  viewed: (id) => writer.submit("workflows.viewed", id, "lazy"),
  keep: (version) => writer.submit("workflows.keep", version),
  publish: (id, version) => writer.submit("workflows.publish", { id, version }),
  restore: (id, version, updated_at) => writer.submit("workflows.restore", { id, version, updated_at }),
  version: async (id, version) => findVersion(reader, id, version),
  versions: async (id, { limit, offset }) => ({
    items: reader.all<VersionRow>(
      "SELECT * FROM workflow_versions WHERE workflow_id = ? ORDER BY version DESC LIMIT ? OFFSET ?",
      id,
      limit,
      offset,
    ),
    total: reader.get<{ n: number }>("SELECT count(*) AS n FROM workflow_versions WHERE workflow_id = ?", id)!
      .n,
  }),
  remove: (id) => writer.submit("workflows.remove", id),
  get: async (id) => reader.orm.select().from(workflows).where(eq(workflows.id, id)).get(),
  target: async (id) =>
    reader.shared(`workflow ${id}`, () => {
      const configured = reader.kept("workflows", id, () => configuredTarget(reader, id));
      const counted = reader.get<Counters>("SELECT num_runs, run_ms_total FROM workflows WHERE id = ?", id);
      return configured && counted && { ...configured, ...counted };
    }),
  definition: async (hash) =>
    reader.get<{ definition: string }>("SELECT definition FROM definitions WHERE hash = ?", hash)?.definition,
  async list(project_id, { limit, offset, search }) {
    const found = and(
      eq(workflows.project_id, project_id),
      search ? or(contains(workflows.name, search), contains(workflows.description, search)) : undefined,
    );
    const items = reader.orm.select().from(workflows).where(found).orderBy(desc(workflows.id));
    return {
      items: items.limit(limit).offset(offset).all(),
      total: reader.orm.select({ n: count() }).from(workflows).where(found).get()!.n,
    };
  },
});
