import type { Services } from "../services.ts";

export type FirstRun = {
  workspace_id: string;
  project_id: string;
  /** The key as it is shown this once; undefined when none was made. */
  key?: string;
  /** Whether there is any key to use. */
  has_key: boolean;
  /** The sample agent of a new installation. */
  agent_id?: string;
};

const GUIDE = {
  name: "Errand guide",
  description: "A sample agent. Talk to it, change it or delete it.",
  system_prompt:
    "You are the guide of a fresh Errand installation. Errand hosts agents, runs durable workflows, takes " +
    "incoming webhooks and sends signed outgoing ones. Answer briefly and practically; when you are not sure, say so.",
  welcome_message: "Hello. Ask me what Errand can do.",
  suggested_messages: [
    { title: "A tour", label: "What is there", action: "What can you do?" },
    { title: "A workflow", label: "By webhook", action: "How do I start a workflow by a webhook?" },
  ],
};

/**
 * Makes a new folder usable: workspace, project, a sample agent and, where `makeKey` says so and there is
 * none yet, a key. On a folder that is in use already it changes nothing.
 */
export async function firstRun(services: Services, { makeKey }: { makeKey: boolean }): Promise<FirstRun> {
  const { workspaces, keys, agents } = services;
  const isNew = (await workspaces.list()).length === 0;
  const scope = await workspaces.ensureDefault();
  const existing = await keys.admin.list();
  const made =
    existing.length === 0 && makeKey ? await keys.admin.create({ name: "first key", ...scope }) : undefined;
  const guide = isNew
    ? await agents.create(
        { key_id: made?.id ?? "first run", ...scope },
        { workspace_id: scope.workspace_id },
        GUIDE,
      )
    : undefined;
  return {
    ...scope,
    key: made?.key,
    has_key: existing.length > 0 || made !== undefined,
    agent_id: guide?.id,
  };
}
