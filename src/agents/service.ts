import type { Connections } from "../connections/service.ts";
import type { Caller } from "../keys/schema.ts";
import { checkScope } from "../keys/scope.ts";
import { type Clock, iso, isoOrNull } from "../lib/clock.ts";
import { forbidden, invalid, notFound } from "../lib/errors.ts";
import { isUuid, newId } from "../lib/ids.ts";
import { checkReferences } from "./references.ts";
import { responseFormatFaults } from "./response-format.ts";
import {
  type Agent,
  type AgentSettings,
  type CreateAgent,
  DEFAULT_SETTINGS,
  type InWorkspace,
  type ListAgents,
  PUBLIC_FIELDS,
  type PublicAgent,
  type UpdateAgent,
} from "./schema.ts";
import type { AgentRow, AgentStore, AgentTarget } from "./store.ts";
import { agentVersions } from "./versions.ts";

export type Agents = ReturnType<typeof createAgents>;

export type { AgentTarget } from "./store.ts";

type Belongs = (id: string, project_id: string) => Promise<"ok" | "foreign" | "missing">;

/** Agents by key (interface 4.1), and what everyone may know of the public ones. */
export function createAgents({
  store,
  workflows,
  connections,
  clock,
  halt,
}: {
  store: AgentStore;
  workflows: { belongs: Belongs };
  connections: Pick<Connections, "referenceFault">;
  clock: Clock;
  /** Ends what an agent that is gone is answering. */
  halt(id: string): Promise<void>;
}) {
  async function find(id: string): Promise<AgentTarget> {
    const agent = isUuid(id) ? await store.get(id) : undefined;
    if (!agent) throw notFound("agent", id);
    return agent;
  }

  async function inScope(caller: Caller, id: string): Promise<AgentTarget> {
    const agent = await find(id);
    if (agent.project_id !== caller.project_id) throw forbidden("This key cannot reach that agent.");
    return agent;
  }

  async function check(caller: Caller, body: UpdateAgent, id?: string): Promise<void> {
    const faults = responseFormatFaults(body.response_format);
    const ref = body.model_config?.connection;
    const field = "model_config.connection";
    const fault =
      ref === undefined ? undefined : await connections.referenceFault(caller, ref, ["model"], field);
    if (fault) faults.push(fault);
    if (faults.length > 0) throw invalid(faults);
    await checkReferences({ store, workflows }, { id, project_id: caller.project_id }, body);
  }

  async function update(caller: Caller, id: string, body: UpdateAgent): Promise<Agent> {
    await inScope(caller, id);
    await check(caller, body, id);
    for (;;) {
      // Read anew each time: a change of other fields at the same moment is merged, not taken back.
      const row = await inScope(caller, id);
      const updated = await store.update({
        ...row,
        name: body.name ?? row.name,
        description: body.description === undefined ? row.description : (body.description ?? ""),
        visibility: body.visibility === undefined ? row.visibility : (body.visibility ?? "private"),
        settings: settingsOf(body, row.settings),
        version: row.version + 1,
        updated_at: clock.now(),
      });
      if (updated) return present(updated);
    }
  }

  /** A public agent; a private one is not there for those without a key. */
  async function publicTarget(id: string): Promise<AgentTarget> {
    const agent = await find(id);
    if (agent.visibility !== "public") throw notFound("agent", id);
    return agent;
  }

  return {
    inScope,
    publicTarget,

    async target(id: string): Promise<AgentTarget | undefined> {
      return isUuid(id) ? store.get(id) : undefined;
    },

    async create(caller: Caller, scope: InWorkspace, body: CreateAgent): Promise<Agent> {
      checkScope(caller, scope);
      await check(caller, body);
      const row: AgentRow = {
        id: newId(),
        workspace_id: caller.workspace_id,
        project_id: caller.project_id,
        name: body.name,
        description: body.description ?? "",
        visibility: body.visibility ?? "private",
        settings: settingsOf(body, DEFAULT_SETTINGS),
        version: 1,
        created_at: clock.now(),
        updated_at: null,
      };
      await store.create(row);
      return present(row);
    },

    get: async (caller: Caller, id: string): Promise<Agent> => present(await inScope(caller, id)),

    /** The caller's project, newest first. */
    async list(caller: Caller, { workspace_id, project_id, search_query, ...page }: ListAgents) {
      checkScope(caller, { workspace_id, project_id });
      const { items, total } = await store.list(caller.project_id, { ...page, search: search_query });
      return { items: items.map(present), total, ...page };
    },

    update,
    ...agentVersions({ store, inScope, update }),

    async remove(caller: Caller, id: string): Promise<void> {
      await inScope(caller, id);
      await store.remove(id);
      await halt(id);
    },

    async publicInfo(id: string): Promise<PublicAgent> {
      const agent = present(await publicTarget(id));
      return Object.fromEntries(PUBLIC_FIELDS.map((field) => [field, agent[field]])) as PublicAgent;
    },
  };
}

/** Fields that are sent replace those before; null goes back to the default. */
function settingsOf(body: UpdateAgent, before: AgentSettings): AgentSettings {
  const settings: Record<string, unknown> = { ...before };
  for (const field of Object.keys(DEFAULT_SETTINGS) as (keyof AgentSettings)[]) {
    const sent = body[field];
    if (sent !== undefined) settings[field] = sent ?? DEFAULT_SETTINGS[field];
  }
  return settings as AgentSettings;
}

function present({ settings, version: _, ...row }: AgentRow): Agent {
  const { id, workspace_id, project_id, name, description, visibility } = row;
  return {
    id,
    workspace_id,
    project_id,
    name,
    description,
    visibility,
    ...settings,
    created_at: iso(row.created_at),
    updated_at: isoOrNull(row.updated_at),
  };
}
