import { Elysia } from "elysia";
import { createAdmission } from "../../src/hooks/admission.ts";
import { createForms } from "../../src/hooks/forms.ts";
import { createResults } from "../../src/hooks/results.ts";
import { incomingRecognise, incomingRoutes } from "../../src/hooks/routes.ts";
import { createHooks } from "../../src/hooks/service.ts";
import { createHookTokens } from "../../src/hooks/tokens.ts";
import { bodies, edge } from "../../src/http/edge.ts";
import { createGate } from "../../src/http/gate.ts";
import { createLimiter } from "../../src/http/limiter.ts";
import { createMetrics } from "../../src/http/metrics.ts";
import { createLog } from "../../src/lib/log.ts";
import { sqliteHooks } from "../../src/storage/sqlite/hooks.ts";
import type { WorkflowTarget } from "../../src/workflows/service.ts";
import { CALLER as AGENTS_CALLER, world as agentsWorld } from "../agents/world.ts";
import { CALLER, world as executionsWorld } from "../executions/setup.ts";

/** Incoming webhooks behind the real gate, before real agents and real workflows, each over its own SQLite. */
export function live(options: { quota?: number } = {}) {
  const executions = executionsWorld();
  const { clock, waiters } = executions;
  const agents = agentsWorld({ ended: waiters.ended, model: "server" });
  const store = sqliteHooks(executions.storage);
  const targets = { agents: agents.agents, workflows: executions.workflows, clock };
  const hookTokens = createHookTokens({ store, ...targets, baseUrl: () => "https://errand.example" });
  const limiter = options.quota ? createLimiter({ name: "hook", quota: options.quota, clock }) : undefined;
  const incoming = {
    admission: createAdmission({ store, clock, limiter }),
    results: createResults({ turns: agents.turns, executions: executions.executions, waiters }),
    ...targets,
    turns: agents.turns,
    executions: executions.executions,
    inputSchema: async (workflow: WorkflowTarget) =>
      (await executions.workflows.definition(workflow.definition_hash)).input_schema,
  };
  const hooks = createHooks(incoming);
  const forms = createForms(incoming);
  const logged: string[] = [];
  const log = createLog({
    level: "debug",
    format: "json",
    clock,
    write: (text) => logged.push(text),
    terminal: false,
  });
  const authenticate = async () => undefined;
  const app = new Elysia({ normalize: false })
    .use(edge({ log, authenticate }))
    .group("/webhooks", (incoming) => incoming.use(incomingRoutes({ hooks, forms })))
    .use(bodies);
  const gate = createGate({
    app,
    recognise: incomingRecognise({ hooks }),
    authenticate,
    log,
    metrics: createMetrics(),
    maxBodyBytes: 64 * 1024,
  });

  type Sent = { body?: unknown; type?: string; headers?: Record<string, string>; signal?: AbortSignal };
  async function ask(method: string, path: string, { body, type, headers, signal }: Sent = {}) {
    const text = body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body);
    const framing: Record<string, string> =
      text === undefined
        ? {}
        : {
            "content-type": type ?? "application/json",
            "content-length": String(Buffer.byteLength(text)),
          };
    return gate(
      new Request(`http://localhost${path}`, {
        method,
        headers: { host: "localhost", ...framing, ...headers },
        body: text,
        signal,
      }),
    );
  }
  async function send(...args: Parameters<typeof ask>) {
    const response = await ask(...args);
    const text = await response.text();
    const isJson = text !== "" && response.headers.get("content-type")?.startsWith("application/json");
    return {
      status: response.status,
      headers: response.headers,
      text,
      // biome-ignore lint/suspicious/noExplicitAny: answers of every shape
      body: (isJson ? JSON.parse(text) : undefined) as any,
    };
  }
  type Workflow = Parameters<typeof executions.workflow>[0];
  const aWorkflow = async (body: Workflow) => {
    const { id } = await executions.workflow(body);
    const { token } = await hookTokens.admin.create("workflows", id);
    return { id, token, path: `/webhooks/workflows/${id}`, url: `/webhooks/workflows/${id}?token=${token}` };
  };
  const anAgent = async () => {
    const id = await agents.anAgent();
    const { token } = await hookTokens.admin.create("agents", id);
    return { id, token, path: `/webhooks/agents/${id}`, url: `/webhooks/agents/${id}?token=${token}` };
  };
  return {
    clock,
    waiters,
    hookTokens,
    executions,
    agents,
    model: agents.server,
    app,
    ask,
    send,
    aWorkflow,
    anAgent,
    callers: { agents: AGENTS_CALLER, workflows: CALLER },
    logged: () => {
      log.flush();
      return logged.join("");
    },
  };
}
