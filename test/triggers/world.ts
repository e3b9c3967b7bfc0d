import { Elysia } from "elysia";
import { createAdmission } from "../../src/hooks/admission.ts";
import { bodies, edge } from "../../src/http/edge.ts";
import { createGate } from "../../src/http/gate.ts";
import { createLimiter } from "../../src/http/limiter.ts";
import { createMetrics } from "../../src/http/metrics.ts";
import { createLog } from "../../src/lib/log.ts";
import { sqliteHooks } from "../../src/storage/sqlite/hooks.ts";
import { sqliteTriggers } from "../../src/storage/sqlite/triggers.ts";
import { createAuthConfigs } from "../../src/triggers/auth-config.ts";
import { createTriggerCalls } from "../../src/triggers/calls.ts";
import { createRecords } from "../../src/triggers/records.ts";
import { triggerDirect, triggerRecognise, triggerRoutes } from "../../src/triggers/routes.ts";
import { createTriggers } from "../../src/triggers/service.ts";
import { world as agentsWorld, CALLER, OTHER } from "../agents/world.ts";
import { testVault } from "../helpers/connections.ts";

export { CALLER, NOWHERE, OTHER } from "../agents/world.ts";

export const MAX_BODY = 64 * 1024;

// biome-ignore lint/suspicious/noExplicitAny: answers of every shape
export type Any = any;

type Sent = {
  body?: unknown;
  type?: string | null;
  headers?: Record<string, string>;
  key?: string;
};

/** Triggers behind the real gate, before real agents, over real SQLite. `direct: false`: calls go by the framework. */
export function world(options: { quota?: number; direct?: boolean } = {}) {
  const agents = agentsWorld();
  const { storage, clock } = agents;
  const store = sqliteTriggers(storage);
  const configs = createAuthConfigs({ vault: testVault(), clock });
  const triggers = createTriggers({
    store,
    agents: agents.agents,
    configs,
    clock,
    baseUrl: () => "https://errand.example/api",
  });
  const limiter = options.quota ? createLimiter({ name: "hook", quota: options.quota, clock }) : undefined;
  const triggerCalls = createTriggerCalls({
    store,
    triggers,
    configs,
    records: createRecords({ store, clock }),
    agents: agents.agents,
    turns: agents.turns,
    admission: createAdmission({ store: sqliteHooks(storage), clock, limiter }),
    clock,
  });
  const logged: string[] = [];
  const log = createLog({
    level: "debug",
    format: "json",
    clock,
    write: (text) => logged.push(text),
    terminal: false,
  });
  const authenticate = async (token: string) => ({ mine: CALLER, other: OTHER })[token];
  const app = new Elysia({ normalize: false })
    .use(edge({ log, authenticate }))
    .use(bodies)
    .use(triggerRoutes({ triggers, triggerCalls }));
  const direct = options.direct === false ? {} : triggerDirect("", { triggerCalls });
  const gate = createGate({
    app,
    direct,
    recognise: triggerRecognise("", { triggerCalls }),
    authenticate,
    log,
    metrics: createMetrics(),
    maxBodyBytes: MAX_BODY,
  });

  async function send(method: string, path: string, { body, type, headers, key }: Sent = {}) {
    const bytes =
      body === undefined
        ? undefined
        : body instanceof Uint8Array
          ? body
          : Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
    const framing: Record<string, string> =
      bytes === undefined
        ? {}
        : {
            ...(type === null ? {} : { "content-type": type ?? "application/json" }),
            "content-length": String(bytes.length),
          };
    const request = new Request(`http://localhost${path}`, {
      method,
      headers: {
        host: "localhost",
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
        ...framing,
        ...headers,
      },
      body: bytes as BodyInit | undefined,
    });
    if (type === null) request.headers.delete("content-type");
    const response = await gate(request);
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      text,
      body: (text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : undefined) as Any,
    };
  }
  const call = (method: string, path: string, body?: unknown, key = "mine") =>
    send(method, path, { body, key });

  type Settings = { auth?: object; config?: object; task?: object; more?: object; agent?: string };
  /** A trigger, and how it is called. */
  async function aTrigger({ auth, config, task, more, agent }: Settings = {}) {
    const agent_id = agent ?? (await agents.anAgent());
    const made = await call("POST", `/agents/${agent_id}/triggers`, {
      trigger_config: { auth_config: auth ?? { type: "none" }, ...config },
      ...(task ? { task_config: task } : {}),
      ...more,
    });
    if (made.status !== 201) throw new Error(`${made.status} ${made.text}`);
    const { id, trigger_config, secret } = made.body;
    const at = `/agents/webhook/${trigger_config.path}/trigger`;
    const events = async (query = "") =>
      (await call("GET", `/agents/${agent_id}/triggers/${id}/events${query}`)).body as Any[];
    return {
      id: String(id),
      agent_id,
      secret: secret as string,
      record: made.body,
      at,
      events,
      fire: (sent: Sent = { body: "Hi", type: "text/plain" }, method = "POST") => send(method, at, sent),
      put: (body: object) => call("PUT", `/agents/triggers/${id}`, body),
    };
  }

  /** What the agents were told, oldest first. */
  const messages = () =>
    storage.reader
      .all<{ parts: string }>("SELECT parts FROM messages WHERE role = 'user' ORDER BY id")
      .map(({ parts }) => (JSON.parse(parts) as { text: string }[])[0]!.text);

  return {
    ...agents,
    triggers,
    app,
    send,
    call,
    aTrigger,
    messages,
    logged: () => {
      log.flush();
      return logged.join("");
    },
  };
}
