import { and, count, desc, eq, or } from "drizzle-orm";
import type {
  DefinitionRow,
  WorkflowPatch,
  WorkflowRow,
  WorkflowStore,
  WorkflowTarget,
} from "../../workflows/store.ts";
import type { Connection } from "./connection.ts";
import { contains } from "./contains.ts";
import { deleteHookTokens } from "./hooks.ts";
import type { Storage } from "./storage.ts";
import { definitions, workflows } from "./tables.ts";

const keep = (db: Connection, definition: DefinitionRow) =>
  db.orm.insert(definitions).values(definition).onConflictDoNothing().run();

function create(db: Connection, args: { workflow: WorkflowRow; definition: DefinitionRow }): void {
  keep(db, args.definition);
  db.orm.insert(workflows).values(args.workflow).run();
}

function update(
  db: Connection,
  { id, patch, definition }: { id: string; patch: WorkflowPatch; definition?: DefinitionRow },
): WorkflowRow | undefined {
  if (definition) keep(db, definition);
  return db.orm.update(workflows).set(patch).where(eq(workflows.id, id)).returning().get();
}

function remove(db: Connection, id: string): boolean {
  deleteHookTokens(db, "workflows", id);
  return (
    db.orm.delete(workflows).where(eq(workflows.id, id)).returning({ id: workflows.id }).get() !== undefined
  );
}

export const workflowWrites = {
  "workflows.create": create,
  "workflows.update": update,
  "workflows.remove": remove,
};

export const sqliteWorkflows = ({ reader, writer }: Storage): WorkflowStore => ({
  create: (workflow, definition) => writer.submit("workflows.create", { workflow, definition }),
  update: (id, patch, definition) => writer.submit("workflows.update", { id, patch, definition }),
  remove: (id) => writer.submit("workflows.remove", id),
  get: async (id) => reader.orm.select().from(workflows).where(eq(workflows.id, id)).get(),
  target: async (id) =>
    reader.shared(`workflow ${id}`, () =>
      reader.get<WorkflowTarget>(
        `SELECT id, workspace_id, project_id, user_id, name, definition_hash, num_runs, run_ms_total
         FROM workflows WHERE id = ?`,
        id,
      ),
    ),
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
