import type { JsonObject } from "../lib/json.ts";
import type { ConnectionType } from "./types.ts";

export type ConnectionRow = {
  id: string;
  workspace_id: string;
  project_id: string;
  name: string;
  type: ConnectionType;
  settings: JsonObject;
  /** Sealed. */
  secret: string;
  created_at: number;
  updated_at: number | null;
};

export type ConnectionStore = {
  /** "taken": the project has one of this name. */
  create(connection: ConnectionRow): Promise<"created" | "taken">;
  /** Undefined: it is gone, or it is no longer as `before` was. */
  update(
    connection: ConnectionRow,
    before: Pick<ConnectionRow, "secret" | "name">,
  ): Promise<ConnectionRow | "taken" | undefined>;
  remove(id: string): Promise<boolean>;
  get(id: string): Promise<ConnectionRow | undefined>;
  byName(project_id: string, name: string): Promise<ConnectionRow | undefined>;
  /** By name. */
  list(
    project_id: string,
    page: { type?: ConnectionType; limit: number; offset: number },
  ): Promise<{ items: ConnectionRow[]; total: number }>;
};
