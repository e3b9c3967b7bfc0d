import type { JsonObject } from "../lib/json.ts";

export type TriggerRow = {
  id: string;
  agent_id: string;
  workspace_id: string;
  project_id: string;
  name: string;
  description: string;
  /** UUID in its address. */
  path: string;
  /** Null: any. */
  method: string | null;
  /** `auth_config` without its secret. */
  auth: JsonObject & { type: string };
  /** Sealed; null where the type has none. */
  secret: string | null;
  /** Sealed; counts until `previous_until`. */
  previous_secret: string | null;
  previous_until: number | null;
  response_code: number;
  /** Templates. */
  message: string;
  conversation_id: string | null;
  is_active: boolean;
  /** Counts the updates. */
  version: number;
  created_at: number;
  updated_at: number | null;
};

/** The request as the templates see it and the record shows it: its credentials are removed. */
export type TriggerRequest = {
  method: string;
  path: string;
  query: JsonObject;
  headers: Record<string, string>;
  body: unknown;
};

/**
 * What called a trigger. `rejected`: its sender was recognised and the request refused all the same;
 * `refused`: its sender was not recognised; `ignored`: the agent was to be told nothing.
 */
export type TriggerEventRow = {
  id: string;
  trigger_id: string;
  agent_id: string;
  state: "accepted" | "ignored" | "rejected" | "refused";
  request: TriggerRequest;
  response: { status: number; body: unknown };
  error: { code: string; message: string } | null;
  turn_id: string | null;
  conversation_id: string | null;
  redelivery_of: string | null;
  created_at: number;
};

/** With how the turn stands that came of it. */
export type TriggerEventStanding = TriggerEventRow & {
  turn_state: string | null;
  turn_error: string | null;
  turn_ended_at: number | null;
};

type Page = { limit: number; offset: number };

export type TriggerStore = {
  /** False: the agent is gone. */
  create(trigger: TriggerRow): Promise<boolean>;
  get(id: string): Promise<TriggerRow | undefined>;
  /** One prepared read: this is asked for every call. */
  byPath(path: string): Promise<TriggerRow | undefined>;
  /** Undefined: it is gone, or it is no longer of the version before the given one. */
  update(trigger: TriggerRow): Promise<TriggerRow | undefined>;
  remove(id: string): Promise<boolean>;
  /** Oldest first, of an agent or of a whole project. */
  list(
    of: { agent_id: string } | { project_id: string },
    page: Page,
  ): Promise<{ items: TriggerRow[]; total: number }>;
  /**
   * Keeps what no turn came of; at most so many of one trigger that were rejected or refused, the newest. Nobody
   * waits for it. Accepted ones are stored with their turn.
   */
  note(event: TriggerEventRow, most: number): Promise<void>;
  /** Newest first. */
  events(
    trigger_id: string,
    page: Page & { status?: string },
  ): Promise<{ items: TriggerEventStanding[]; total: number }>;
  event(id: string): Promise<TriggerEventStanding | undefined>;
  /** Forgets up to `limit` events of a trigger; how many. */
  forget(trigger_id: string, limit: number): Promise<number>;
};
