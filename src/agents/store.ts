import type { AgentSettings } from "./schema.ts";

export type AgentRow = {
  id: string;
  workspace_id: string;
  project_id: string;
  name: string;
  description: string;
  visibility: "private" | "public";
  settings: AgentSettings;
  /** Counts the updates; a turn says which it was made by. */
  version: number;
  created_at: number;
  updated_at: number | null;
};

/** What talking to an agent needs of it. */
export type AgentTarget = AgentRow & {
  /** Answers that `recent_turn_ms` is the sum of; older ones weigh less. */
  recent_turns: number;
  recent_turn_ms: number;
};

/** What an agent was; of the newest version, what it is. */
export type AgentVersionRow = Pick<
  AgentRow,
  "name" | "description" | "visibility" | "settings" | "version" | "created_at"
>;

export type AgentStore = {
  create(agent: AgentRow): Promise<void>;
  /** Undefined: it is gone, or it is no longer of the version before the given one. */
  update(agent: AgentRow): Promise<AgentRow | undefined>;
  /** With its hook tokens; its conversations stay on record. */
  remove(id: string): Promise<boolean>;
  /** One prepared read: this is asked for every message. */
  get(id: string): Promise<AgentTarget | undefined>;
  /** Newest first. */
  versions(
    id: string,
    page: { limit: number; offset: number },
  ): Promise<{ items: AgentVersionRow[]; total: number }>;
  version(id: string, version: number): Promise<AgentVersionRow | undefined>;
  /** Newest first. */
  list(
    project_id: string,
    page: { limit: number; offset: number; search?: string },
  ): Promise<{ items: AgentRow[]; total: number }>;
};
