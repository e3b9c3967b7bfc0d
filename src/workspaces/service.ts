import { type Clock, iso } from "../lib/clock.ts";
import { invalidField, notFound } from "../lib/errors.ts";
import { newId } from "../lib/ids.ts";
import { addressIn } from "../lib/mail-address.ts";
import type { ProjectRow, WorkspaceRow, WorkspaceStore } from "./store.ts";

export type Workspace = { id: string; name: string; owner_email: string | null; created_at: string };
export type Project = { id: string; workspace_id: string; name: string; created_at: string };

export type Workspaces = ReturnType<typeof createWorkspaces>;

const DEFAULT_NAME = "Default";
const LONGEST_NAME = 200;
const LONGEST_EMAIL = 254;

/** Workspaces and their projects; the command line manages them, keys point into them. */
export function createWorkspaces({ store, clock }: { store: WorkspaceStore; clock: Clock }) {
  const newWorkspace = (name: string, owner_email: string | null): WorkspaceRow => ({
    id: newId(),
    name,
    owner_email,
    created_at: clock.now(),
  });
  const newProject = (workspace_id: string, name: string): ProjectRow => ({
    id: newId(),
    workspace_id,
    name,
    created_at: clock.now(),
  });

  async function get(id: string): Promise<Workspace> {
    const workspace = await store.get(id);
    if (!workspace) throw notFound("workspace", id);
    return present(workspace);
  }

  return {
    get,

    /** Ids of the first workspace and project, made under the name "Default" where there is none. */
    ensureDefault: (): Promise<{ workspace_id: string; project_id: string }> => {
      const workspace = newWorkspace(DEFAULT_NAME, null);
      return store.ensure(workspace, newProject(workspace.id, DEFAULT_NAME));
    },

    /** A workspace with its first project, whose id comes with it. Throws `invalid_input`. */
    async create(request: {
      name: string;
      owner_email?: string | null;
    }): Promise<Workspace & { project_id: string }> {
      const owner_email = checkedOwner(request.owner_email ?? null);
      const workspace = newWorkspace(checkedName(request.name), owner_email);
      const project = newProject(workspace.id, DEFAULT_NAME);
      await store.create(workspace, project);
      return { ...present(workspace), project_id: project.id };
    },

    /** Replaces what is given; null takes the owner away. Throws `not_found`, `invalid_input`. */
    async update(id: string, patch: { name?: string; owner_email?: string | null }): Promise<Workspace> {
      const { name, owner_email } = patch;
      const updated = await store.update(id, {
        ...(name === undefined ? {} : { name: checkedName(name) }),
        ...(owner_email === undefined ? {} : { owner_email: checkedOwner(owner_email) }),
      });
      if (!updated) throw notFound("workspace", id);
      return present(updated);
    },

    list: async (): Promise<Workspace[]> => (await store.list()).map(present),

    /** Throws `not_found` for an unknown workspace, `invalid_input` for a name. */
    async createProject(workspace_id: string, request: { name: string }): Promise<Project> {
      await get(workspace_id);
      const project = newProject(workspace_id, checkedName(request.name));
      await store.createProject(project);
      return present(project);
    },

    /** The projects of one workspace, else of all. */
    projects: async (workspace_id?: string): Promise<Project[]> =>
      (await store.projects(workspace_id)).map(present),

    async getProject(id: string): Promise<Project> {
      const project = await store.getProject(id);
      if (!project) throw notFound("project", id);
      return present(project);
    },
  };
}

function checkedOwner(email: string | null): string | null {
  if (email === null || (addressIn(email) !== undefined && email.length <= LONGEST_EMAIL)) return email;
  throw invalidField("owner_email", "an e-mail address", "another string");
}

function checkedName(name: string): string {
  const trimmed = name.trim();
  if (trimmed !== "" && trimmed.length <= LONGEST_NAME) return trimmed;
  throw invalidField("name", `1 to ${LONGEST_NAME} characters`, `${trimmed.length} characters`);
}

const present = <Row extends { created_at: number }>(row: Row) => ({
  ...row,
  created_at: iso(row.created_at),
});
