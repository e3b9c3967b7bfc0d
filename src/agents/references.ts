import { forbidden, invalidField, notFound } from "../lib/errors.ts";
import { isUuid } from "../lib/ids.ts";
import type { UpdateAgent } from "./schema.ts";
import type { AgentStore } from "./store.ts";

type Belongs = (id: string, project_id: string) => Promise<"ok" | "foreign" | "missing">;

type Deps = { store: Pick<AgentStore, "get">; workflows: { belongs: Belongs } };

/**
 * What an agent refers to must be of its own project (interface 2.2, 5.1), and no agent may come to ask
 * itself. `id` is the agent's own, once it has one.
 */
export async function checkReferences(
  { store, workflows }: Deps,
  { id, project_id }: { id?: string; project_id: string },
  body: UpdateAgent,
): Promise<void> {
  const belongs: Belongs = async (other) => {
    const agent = isUuid(other) ? await store.get(other) : undefined;
    if (!agent) return "missing";
    return agent.project_id === project_id ? "ok" : "foreign";
  };
  const check = async (what: string, reference: string, ask: Belongs) => {
    const found = await ask(reference, project_id);
    if (found === "missing") throw notFound(what, reference);
    if (found === "foreign") throw forbidden(`This key cannot reach that ${what}.`);
  };
  for (const { workflow_id } of body.tools ?? []) await check("workflow", workflow_id, workflows.belongs);
  for (const [index, { agent_id }] of (body.sub_agents ?? []).entries()) {
    await check("agent", agent_id, belongs);
    if (id !== undefined && (await leadsTo(store, agent_id, id, new Set())))
      throw invalidField(
        `sub_agents.${index}.agent_id`,
        "an agent that never asks this one",
        "one that does",
      );
  }
  for (const { dataset_id } of body.datasets ?? []) throw notFound("dataset", dataset_id);
}

/** Whether `from`, or an agent that it may ask, is `id`. */
async function leadsTo(
  store: Pick<AgentStore, "get">,
  from: string,
  id: string,
  seen: Set<string>,
): Promise<boolean> {
  if (from === id) return true;
  if (seen.has(from)) return false;
  seen.add(from);
  const agent = await store.get(from);
  for (const { agent_id } of agent?.settings.sub_agents ?? []) {
    if (await leadsTo(store, agent_id, id, seen)) return true;
  }
  return false;
}
