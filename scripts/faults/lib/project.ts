import { type Errand, type Key, run } from "../../lib/errand.ts";

/** A project that holds one of everything; every text in it carries `mark`. */
export type Project = {
  mark: string;
  key: Key;
  /** Ids by what path templates and bodies call them. */
  ids: Ids;
  /** Tokens and addresses that were shown once. */
  agentToken: string;
  workflowToken: string;
  callback: string;
  /** What the project asks with. */
  ask(method: string, path: string, body?: unknown): Promise<{ status: number; text: string; json: unknown }>;
};

export type Ids = {
  workspace: string;
  project: string;
  key: string;
  agent: string;
  conversation: string;
  /** The client's own name of the conversation. */
  thread: string;
  message: string;
  approval: string;
  attachment: string;
  workflow: string;
  execution: string;
  waiting: string;
  wait: string;
  connection: string;
  agentToken: string;
  workflowToken: string;
  webhook: string;
  delivery: string;
  event: string;
  trigger: string;
  triggerPath: string;
  call: string;
};

/** Which of a project's ids a name in a path stands for. */
export function idAt(path: string, name: string, ids: Ids): string {
  const after = path.slice(0, path.indexOf(`{${name}}`));
  const places: [RegExp, keyof Ids][] = [
    [/conversations\/$|\/stream\/$/, "conversation"],
    [/messages\/$/, "message"],
    [/approvals\/$/, "approval"],
    [/attachments\/$/, "attachment"],
    [/agents\/\{id\}\/webhook-tokens\/$/, "agentToken"],
    [/workflows\/\{id\}\/webhook-tokens\/$/, "workflowToken"],
    [/deliveries\/$/, "delivery"],
    [/triggers\/\{trigger_id\}\/events\/$/, "call"],
    [/triggers\/$/, "trigger"],
    [/agents\/webhook\/$/, "triggerPath"],
    [/agents\/(anonymous\/)?$|\/models\/$/, "agent"],
    [/workflows\/(anonymous\/)?$/, "workflow"],
    [/executions\/$/, "execution"],
    [/waits\/$/, "wait"],
    [/connections\/$/, "connection"],
    [/v1\/webhooks\/$/, "webhook"],
    [/events\/$/, "event"],
    [/keys\/$/, "key"],
  ];
  if (/versions\/$/.test(after)) return "1";
  const place = places.find(([pattern]) => pattern.test(after));
  return place ? ids[place[1]] : ids.agent;
}

const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/** A workspace, or a project in an existing one, with a key of its own. */
export async function newScope(data: string, name: string, workspace?: string): Promise<Key> {
  const command = async (...args: string[]) => {
    const made = await run([...args, "--json", "--data", data]);
    if (made.code !== 0) throw new Error(`${args.join(" ")}: ${made.stderr}`);
    return JSON.parse(made.stdout) as { id: string } & Key;
  };
  if (workspace === undefined) {
    const { id } = await command("workspaces", "create", name);
    return command("keys", "create", "--name", name, "--workspace", id);
  }
  const { id } = await command("workspaces", "projects", "create", name, "--workspace", workspace);
  return command("keys", "create", "--name", name, "--workspace", workspace, "--project", id);
}

/** Asks with a key; the body as text, and read where it is JSON. */
export const askWith =
  (url: string, key: string | undefined): Project["ask"] =>
  async (method, path, body) => {
    const response = await fetch(url + path, {
      method,
      headers: {
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, text, json: parsed(text) };
  };

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Fills the key's project: by the API alone, as a user would. `receiver` answers deliveries. */
export async function populate(errand: Errand, key: Key, mark: string, receiver: string): Promise<Project> {
  const ask = askWith(errand.url, key.key);
  const good = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const answer = await ask(method, path, body);
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
    return answer.json as T;
  };
  type Made = { id: string };
  const scope = `workspace_id=${key.workspace_id}`;

  const workflow = await good<Made>("POST", `/api/workflows?${scope}`, {
    name: `Flow ${mark}`,
    description: mark,
    nodes: [{ node_type_name: "set_variables", name: "say", input_config: { variables: { said: mark } } }],
    output_mapping: { said: "{{ say.said }}" },
  });
  await good("POST", `/api/workflows/${workflow.id}/versions`, { description: mark });
  const waiting = await good<Made>("POST", `/api/workflows?${scope}`, {
    name: `Waiting ${mark}`,
    nodes: [
      {
        node_type_name: "wait",
        name: "hold",
        input_config: {
          callback: {
            nodes: [
              {
                node_type_name: "set_variables",
                name: "tell",
                input_config: { variables: { url: "{{ callback.url }}" } },
              },
            ],
          },
        },
      },
    ],
  });
  const agent = await good<Made>("POST", `/api/agents?${scope}`, {
    name: `Agent ${mark}`,
    description: mark,
    system_prompt: mark,
    auto_generate_title: false,
    tools: [{ workflow_id: workflow.id, run_behavior: "request_confirmation" }],
  });
  await good("POST", `/api/connections?${scope}`, {
    name: mark,
    type: "bearer",
    config: { token: `secret-${mark}` },
  });
  const [connection] = await good<Made[]>("GET", `/api/connections?${scope}`);
  const webhook = await good<Made>("POST", "/api/v1/webhooks", {
    name: mark,
    url: receiver,
    events: ["workflow.execution.completed"],
  });
  const agentToken = await good<Made & { token: string }>("POST", `/api/agents/${agent.id}/webhook-tokens`, {
    name: mark,
  });
  const workflowToken = await good<Made & { token: string }>(
    "POST",
    `/api/workflows/${workflow.id}/webhook-tokens`,
    {
      name: mark,
    },
  );

  const trigger = await good<Made & { trigger_config: { path: string } }>(
    "POST",
    `/api/agents/${agent.id}/triggers`,
    {
      name: mark,
      description: mark,
      trigger_config: { auth_config: { type: "bearer", token: `token-${mark}` } },
      task_config: { message: mark },
    },
  );
  const { path } = trigger.trigger_config;
  const called = await fetch(`${errand.url}/api/agents/webhook/${path}/trigger`, {
    method: "POST",
    headers: { authorization: `Bearer token-${mark}`, "content-type": "application/json" },
    body: JSON.stringify({ mark }),
  });
  if (called.status !== 202) throw new Error(`trigger: ${called.status} ${await called.text()}`);
  const calls = await good<Made[] | { events: Made[] }>(
    "GET",
    `/api/agents/${agent.id}/triggers/${trigger.id}/events`,
  );

  const execution = await good<Made>("POST", `/api/workflows/${workflow.id}/executions`, {
    metadata: { mark },
    response_type: "result",
  });
  const held = await good<{ execution_id: string }>("POST", `/api/workflows/${waiting.id}/executions`, {});
  const callback = await until(async () => {
    const found = /"(http[^"]*\/webhooks\/waits\/[^"]+)"/.exec(
      (await ask("GET", `/api/executions/${held.execution_id}`)).text,
    );
    return found?.[1];
  });

  const thread = `thread-${mark}`;
  const stream = `/api/agents/${agent.id}/stream`;
  const words = (text: string, more: object = {}) => ({
    id: thread,
    messages: [{ role: "user", content: text, ...more }],
  });
  const picture = [{ url: `data:image/png;base64,${PIXEL}`, name: "a.png" }];
  await ask("POST", stream, words(`I am ${mark}`, { experimental_attachments: picture }));
  await ask("POST", stream, words("/tool {}"));
  const talk = await good<{
    id: string;
    messages: { id: string; parts: { attachment_id?: string }[] }[];
    pending_approvals: { approval_id: string }[];
  }>("GET", `/api/agents/${agent.id}/conversations/${thread}`);

  const logged = await until(async () => {
    const log = await good<{ logs: (Made & { status: string })[] }>(
      "GET",
      `/api/v1/webhooks/${webhook.id}/logs`,
    );
    return log.logs.find(({ status }) => status === "success");
  });
  const [event] = await good<Made[]>("GET", "/api/v1/events");
  const me = await good<{ key_id: string }>("GET", "/api/me");
  return {
    mark,
    key,
    ask,
    agentToken: agentToken.token,
    workflowToken: workflowToken.token,
    callback,
    ids: {
      workspace: key.workspace_id,
      project: key.project_id,
      key: me.key_id,
      agent: agent.id,
      conversation: talk.id,
      thread,
      message: talk.messages[1]!.id,
      approval: talk.pending_approvals[0]!.approval_id,
      attachment: talk.messages[0]!.parts.find((part) => part.attachment_id)!.attachment_id!,
      workflow: workflow.id,
      execution: execution.id,
      waiting: held.execution_id,
      wait: new URL(callback).pathname.split("/").at(-1)!,
      connection: connection!.id,
      agentToken: agentToken.id,
      workflowToken: workflowToken.id,
      webhook: webhook.id,
      delivery: logged.id,
      event: event!.id,
      trigger: trigger.id,
      triggerPath: path,
      call: (Array.isArray(calls) ? calls : calls.events)[0]!.id,
    },
  };
}

/** Asks again and again until there is an answer; gives up after ten seconds. */
export async function until<T>(look: () => Promise<T | undefined>): Promise<T> {
  const end = performance.now() + 10_000;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    if (performance.now() > end) throw new Error("gave up waiting");
    await Bun.sleep(10);
  }
}
