export type WorkflowRow = {
  id: string;
  workspace_id: string;
  project_id: string;
  user_id: string;
  name: string;
  description: string;
  dataset_id: string | null;
  images: string[];
  definition_hash: string;
  public_clone: boolean;
  public_runnable: boolean;
  num_likes: number;
  num_runs: number;
  num_views: number;
  run_ms_total: number;
  created_at: number;
  updated_at: number | null;
};

/** What firing a workflow needs of it. */
export type WorkflowTarget = Pick<
  WorkflowRow,
  "id" | "workspace_id" | "project_id" | "user_id" | "name" | "definition_hash" | "num_runs" | "run_ms_total"
>;

/** A program by the hash of its text. */
export type DefinitionRow = { hash: string; definition: string };

export type WorkflowPatch = Partial<
  Pick<
    WorkflowRow,
    | "name"
    | "description"
    | "dataset_id"
    | "images"
    | "definition_hash"
    | "public_clone"
    | "public_runnable"
    | "updated_at"
  >
>;

export type WorkflowStore = {
  create(workflow: WorkflowRow, definition: DefinitionRow): Promise<void>;
  update(id: string, patch: WorkflowPatch, definition?: DefinitionRow): Promise<WorkflowRow | undefined>;
  /** With its hook tokens; its executions stay on record. */
  remove(id: string): Promise<boolean>;
  get(id: string): Promise<WorkflowRow | undefined>;
  /** One prepared read: this is asked for every webhook. */
  target(id: string): Promise<WorkflowTarget | undefined>;
  definition(hash: string): Promise<string | undefined>;
  /** Newest first. */
  list(
    project_id: string,
    page: { limit: number; offset: number; search?: string },
  ): Promise<{ items: WorkflowRow[]; total: number }>;
};
