import type { WorkflowSettings } from "./schema.ts";

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
  settings: WorkflowSettings | null;
  /** What runs, where a version was published; else the draft, `definition_hash`, does. */
  published_version: number | null;
  published_hash: string | null;
  created_at: number;
  updated_at: number | null;
};

/** What firing a workflow needs of it. `definition_hash` is of what runs: the published version, else the draft. */
export type WorkflowTarget = Pick<
  WorkflowRow,
  "id" | "workspace_id" | "project_id" | "user_id" | "name" | "definition_hash" | "num_runs" | "run_ms_total"
> & { settings: WorkflowSettings };

export type VersionRow = {
  workflow_id: string;
  version: number;
  definition_hash: string;
  description: string;
  created_by: string;
  created_at: number;
};

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
  /**
   * A definition replaces the one that it was made from and no other. "changed": someone else's came first.
   */
  update(
    id: string,
    patch: WorkflowPatch,
    definition?: DefinitionRow & { replaces: string },
  ): Promise<WorkflowRow | "changed" | undefined>;
  /** Shallow: null clears. Undefined: no such workflow. */
  set(id: string, patch: Partial<WorkflowSettings>): Promise<WorkflowSettings | undefined>;
  /** Public reads, counted when there is time. */
  viewed(id: string): Promise<void>;
  /** The draft as it is then, under the next number; published at once where asked. Undefined: no such workflow. */
  keep(
    version: Omit<VersionRow, "version" | "definition_hash"> & { publish: boolean },
  ): Promise<VersionRow | undefined>;
  /** Null: the draft runs. False: no such version. */
  publish(id: string, version: number | null): Promise<boolean>;
  /** The draft becomes what the version is. False: no such version. */
  restore(id: string, version: number, updated_at: number): Promise<boolean>;
  version(id: string, version: number): Promise<VersionRow | undefined>;
  /** Newest first. */
  versions(
    id: string,
    page: { limit: number; offset: number },
  ): Promise<{ items: VersionRow[]; total: number }>;
  /** With its versions and hook tokens; its executions stay on record. */
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
