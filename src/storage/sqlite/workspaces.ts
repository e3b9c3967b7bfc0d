import { asc, eq } from "drizzle-orm";
import type { ProjectRow, WorkspaceRow, WorkspaceStore } from "../../workspaces/store.ts";
import type { Connection } from "./connection.ts";
import type { Storage } from "./storage.ts";
import { projects, workspaces } from "./tables.ts";

type Pair = { workspace: WorkspaceRow; project: ProjectRow };

function create(db: Connection, { workspace, project }: Pair): void {
  db.orm.insert(workspaces).values(workspace).run();
  db.orm.insert(projects).values(project).run();
}

const oldest = "ORDER BY created_at, id LIMIT 1";

function ensure(db: Connection, { workspace, project }: Pair): { workspace_id: string; project_id: string } {
  const kept = db.get<{ id: string }>(`SELECT id FROM workspaces ${oldest}`);
  if (!kept) {
    create(db, { workspace, project });
    return { workspace_id: workspace.id, project_id: project.id };
  }
  const first = db.get<{ id: string }>(`SELECT id FROM projects WHERE workspace_id = ? ${oldest}`, kept.id);
  if (first) return { workspace_id: kept.id, project_id: first.id };
  db.orm
    .insert(projects)
    .values({ ...project, workspace_id: kept.id })
    .run();
  return { workspace_id: kept.id, project_id: project.id };
}

export const workspaceWrites = {
  "workspaces.create": create,
  "workspaces.ensure": ensure,
  "workspaces.update": (
    db: Connection,
    { id, patch }: { id: string; patch: Partial<WorkspaceRow> },
  ): WorkspaceRow | undefined =>
    Object.keys(patch).length === 0
      ? db.orm.select().from(workspaces).where(eq(workspaces.id, id)).get()
      : db.orm.update(workspaces).set(patch).where(eq(workspaces.id, id)).returning().get(),
  "workspaces.createProject": (db: Connection, project: ProjectRow): void => {
    db.orm.insert(projects).values(project).run();
  },
};

export const sqliteWorkspaces = ({ reader, writer }: Storage): WorkspaceStore => ({
  create: (workspace, project) => writer.submit("workspaces.create", { workspace, project }),
  ensure: (workspace, project) => writer.submit("workspaces.ensure", { workspace, project }),
  update: (id, patch) => writer.submit("workspaces.update", { id, patch }),
  createProject: (project) => writer.submit("workspaces.createProject", project),
  get: async (id) => reader.orm.select().from(workspaces).where(eq(workspaces.id, id)).get(),
  getProject: async (id) => reader.orm.select().from(projects).where(eq(projects.id, id)).get(),
  list: async () =>
    reader.orm.select().from(workspaces).orderBy(asc(workspaces.created_at), asc(workspaces.id)).all(),
  projects: async (workspace_id) =>
    reader.orm
      .select()
      .from(projects)
      .where(workspace_id === undefined ? undefined : eq(projects.workspace_id, workspace_id))
      .orderBy(asc(projects.created_at), asc(projects.id))
      .all(),
});
