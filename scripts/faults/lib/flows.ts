import type { Errand, Key } from "../../lib/errand.ts";

/** Something that was answered well: a row that must be found from then on. */
export type Promised = { sql: string; values: string[]; kind: "execution" | "turn" | "other" };

export type Ids = { workflow: string; agent: string; hook: string; agentHook: string; webhook: string };
export type World = { errand: Errand; ids: Ids; say(promised: Promised): void };

/** What a user does, in which every write and sync may be the last. */
export type Flow = { name: string; act(world: World): Promise<void> };

/** Answered otherwise than well. */
export class Refused extends Error {
  constructor(readonly status: number) {
    super(`answered ${status}`);
  }
}

export async function good<T extends { status: number }>(asked: Promise<T>): Promise<T> {
  const answer = await asked;
  if (answer.status >= 300) throw new Refused(answer.status);
  return answer;
}

async function times(count: number, act: () => Promise<void>): Promise<void> {
  for (let n = 0; n < count; n++) await act();
}

async function hook({ say, ids }: World, url: string, body: object): Promise<void> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const answer = (await response.json()) as { execution_id: string };
  if (response.status !== 202) throw new Refused(response.status);
  const kind = url === ids.agentHook ? "turn" : "execution";
  say({ kind, sql: `SELECT state FROM ${kind}s WHERE id = ?`, values: [answer.execution_id] });
}

/** Says that the row is as it was asked for, or is not there any more. */
const other = (sql: string, ...values: string[]): Promised => ({ kind: "other", sql, values });

export const FLOWS: Flow[] = [
  { name: "webhook", act: (world) => times(4, () => hook(world, world.ids.hook, { input_data: {} })) },
  {
    name: "webhook with an outside effect",
    act: (world) => times(2, () => hook(world, world.ids.hook, { input_data: { call: true } })),
  },
  {
    name: "agent webhook",
    act: (world) => times(2, () => hook(world, world.ids.agentHook, { message: "Hello" })),
  },
  {
    name: "agent stream",
    async act({ errand, ids, say }) {
      const id = crypto.randomUUID();
      const response = await fetch(`${errand.url}/api/agents/${ids.agent}/stream`, {
        method: "POST",
        headers: errand.headers,
        body: JSON.stringify({ id, messages: [{ role: "user", content: "Hello" }] }),
      });
      if (response.status !== 200) throw new Refused(response.status);
      for await (const _ of response.body!) {
        // The message is on record before the first byte of the answer.
        say(other("SELECT 1 FROM conversations WHERE client_id = ? AND message_count > 0", id));
      }
    },
  },
  {
    name: "edits",
    async act({ errand, ids, say }) {
      const description = crypto.randomUUID();
      const path = `/api/workflows/${ids.workflow}`;
      await good(errand.api("PUT", path, { description }));
      say(other("SELECT 1 FROM workflows WHERE id = ? AND description = ?", ids.workflow, description));
      const { body } = await good(errand.api<{ id: string }>("POST", `${path}/webhook-tokens`, {}));
      say(other("SELECT 1 FROM hook_tokens WHERE id = ?", body.id));
      await good(errand.api("PUT", `/api/agents/${ids.agent}`, { description }));
      say(other("SELECT 1 FROM agents WHERE id = ? AND description = ?", ids.agent, description));
    },
  },
  {
    name: "rotation of a secret",
    async act({ errand, ids, say }) {
      await good(errand.api("POST", `/api/v1/webhooks/${ids.webhook}/secret/rotate`, {}));
      say(other("SELECT 1 FROM subscriptions WHERE id = ? AND previous_secret IS NOT NULL", ids.webhook));
    },
  },
  {
    name: "removals",
    async act({ errand, ids, say }) {
      const remove = async (path: string, table: string, id: string) => {
        await good(errand.api("DELETE", `${path}/${id}`));
        say(other(`SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM ${table} WHERE id = ?)`, id));
      };
      await remove("/api/v1/webhooks", "subscriptions", ids.webhook);
      await remove("/api/workflows", "workflows", ids.workflow);
      await remove("/api/agents", "agents", ids.agent);
    },
  },
];

/** A workflow and an agent with a webhook each, and a subscription to what comes of them. */
export async function arrange(errand: Errand, key: Key, receiver: string): Promise<Ids> {
  const scope = `workspace_id=${key.workspace_id}`;
  const call = {
    node_type_name: "api_call",
    name: "tell",
    input_config: { method: "POST", url: receiver, _options: { run_if: "{{ inputs.call }}" } },
  };
  const text = {
    node_type_name: "set_variables",
    name: "greet",
    input_config: { variables: { text: "Hello" } },
  };
  const input_schema = { properties: { call: { title: "Call", type: "boolean", default: false } } };
  const workflow = await good(
    errand.api<{ id: string }>("POST", `/api/workflows?${scope}`, {
      name: "w",
      input_schema,
      nodes: [text, call],
    }),
  );
  const agent = await good(errand.api<{ id: string }>("POST", `/api/agents?${scope}`, { name: "a" }));
  const token = async (path: string) =>
    (await good(errand.api<{ url: string }>("POST", `${path}/webhook-tokens`, {}))).body.url;
  const events = ["workflow.execution.completed", "agent.message.sent"];
  const webhook = await good(
    errand.api<{ id: string }>("POST", "/api/v1/webhooks", { name: "s", url: receiver, events }),
  );
  return {
    workflow: workflow.body.id,
    agent: agent.body.id,
    hook: await token(`/api/workflows/${workflow.body.id}`),
    agentHook: await token(`/api/agents/${agent.body.id}`),
    webhook: webhook.body.id,
  };
}

/** Takes away what is left of it. */
export async function clear(errand: Errand, ids: Ids): Promise<void> {
  await errand.api("DELETE", `/api/v1/webhooks/${ids.webhook}`);
  await errand.api("DELETE", `/api/workflows/${ids.workflow}`);
  await errand.api("DELETE", `/api/agents/${ids.agent}`);
}
