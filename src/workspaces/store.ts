export type WorkspaceRow = { id: string; name: string; owner_email: string | null; created_at: number };
export type ProjectRow = { id: string; workspace_id: string; name: string; created_at: number };

export type WorkspaceStore = {
  /** A workspace is never without a project. */
  create(workspace: WorkspaceRow, project: ProjectRow): Promise<void>;
  /** The oldest workspace and its oldest project; where one is missing, the given one is stored. */
  ensure(workspace: WorkspaceRow, project: ProjectRow): Promise<{ workspace_id: string; project_id: string }>;
  /** Undefined: there is no such workspace. */
  update(
    id: string,
    patch: Partial<Pick<WorkspaceRow, "name" | "owner_email">>,
  ): Promise<WorkspaceRow | undefined>;
  createProject(project: ProjectRow): Promise<void>;
  get(id: string): Promise<WorkspaceRow | undefined>;
  getProject(id: string): Promise<ProjectRow | undefined>;
  list(): Promise<WorkspaceRow[]>;
  projects(workspace_id?: string): Promise<ProjectRow[]>;
};
