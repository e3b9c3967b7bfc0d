import type { Caller } from "../keys/schema.ts";
import { iso } from "../lib/clock.ts";
import { notFound } from "../lib/errors.ts";
import type { Agent, Paging, UpdateAgent } from "./schema.ts";
import type { AgentRow, AgentStore, AgentVersionRow } from "./store.ts";

/** What an agent was, by the number of its change; each update makes one, and the newest is what it is. */
export function agentVersions(deps: {
  store: AgentStore;
  inScope(caller: Caller, id: string): Promise<AgentRow>;
  update(caller: Caller, id: string, body: UpdateAgent): Promise<Agent>;
}) {
  const { store, inScope, update } = deps;

  async function versionOf(id: string, number: string): Promise<AgentVersionRow> {
    const version = /^[1-9]\d{0,8}$/.test(number) ? await store.version(id, Number(number)) : undefined;
    if (!version) throw notFound("version", number.slice(0, 20));
    return version;
  }

  return {
    /** Newest first; the last hundred are kept. */
    async versions(caller: Caller, id: string, page: Paging) {
      const agent = await inScope(caller, id);
      const { items, total } = await store.versions(id, page);
      return { items: items.map((version) => present(agent, version)), total, ...page };
    },

    async version(caller: Caller, id: string, number: string) {
      const agent = await inScope(caller, id);
      return present(agent, await versionOf(id, number));
    },

    /**
     * Makes the agent what it was, as a new version. What it refers to must still be there; who may see it
     * stays as it is, so that nothing becomes public by the way.
     */
    async restore(caller: Caller, id: string, number: string): Promise<Agent> {
      await inScope(caller, id);
      const { name, description, settings } = await versionOf(id, number);
      return update(caller, id, { name, description, ...settings } as UpdateAgent);
    },
  };
}

const present = (agent: AgentRow, version: AgentVersionRow) => ({
  agent_id: agent.id,
  version: version.version,
  is_current: version.version === agent.version,
  name: version.name,
  description: version.description,
  visibility: version.visibility,
  ...version.settings,
  created_at: iso(version.created_at),
});
