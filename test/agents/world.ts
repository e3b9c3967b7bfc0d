import { afterEach } from "bun:test";
import { Elysia } from "elysia";
import { approvalRoutes } from "../../src/agents/approval-routes.ts";
import { createAsk } from "../../src/agents/ask.ts";
import { attachmentRoutes } from "../../src/agents/attachment-routes.ts";
import { createAttachments } from "../../src/agents/attachments.ts";
import { conversationRoutes } from "../../src/agents/conversation-routes.ts";
import { createConversations } from "../../src/agents/conversations.ts";
import { tellingEnds, tellingRemovals } from "../../src/agents/ended.ts";
import { agentRoutes } from "../../src/agents/routes.ts";
import type { CreateAgent } from "../../src/agents/schema.ts";
import { createAgents } from "../../src/agents/service.ts";
import { streamRoutes } from "../../src/agents/stream-routes.ts";
import { createTurns } from "../../src/agents/turns.ts";
import { createDirect } from "../../src/door/direct.ts";
import { createResponses } from "../../src/door/responses.ts";
import { doorRoutes } from "../../src/door/routes.ts";
import { createDoor } from "../../src/door/service.ts";
import { createEgress } from "../../src/egress/egress.ts";
import { createEvents } from "../../src/events/service.ts";
import { createExecutions } from "../../src/executions/service.ts";
import { createWaiters } from "../../src/executions/waiters.ts";
import type { EnqueueRequest } from "../../src/hooks/service.ts";
import { bodies, edge } from "../../src/http/edge.ts";
import { createGate } from "../../src/http/gate.ts";
import { createMetrics } from "../../src/http/metrics.ts";
import { defineJob, done } from "../../src/jobs/job.ts";
import { createRunner } from "../../src/jobs/runner.ts";
import { createLog } from "../../src/lib/log.ts";
import { createModels } from "../../src/models/index.ts";
import { sqliteAgents } from "../../src/storage/sqlite/agents.ts";
import { sqliteAttachments } from "../../src/storage/sqlite/attachments.ts";
import { sqliteConversationRecords } from "../../src/storage/sqlite/conversation-records.ts";
import { sqliteConversations } from "../../src/storage/sqlite/conversations.ts";
import { sqliteEvents } from "../../src/storage/sqlite/events.ts";
import { sqliteExecutions } from "../../src/storage/sqlite/executions.ts";
import { sqliteJobs } from "../../src/storage/sqlite/jobs.ts";
import { sqliteResponses } from "../../src/storage/sqlite/responses.ts";
import type { Storage } from "../../src/storage/sqlite/storage.ts";
import { sqliteTurnSteps } from "../../src/storage/sqlite/turn-steps.ts";
import { sqliteWorkflows } from "../../src/storage/sqlite/workflows.ts";
import { createWorkflows } from "../../src/workflows/service.ts";
import { settled, TestClock } from "../helpers/clock.ts";
import { connectionsOf } from "../helpers/connections.ts";
import { nodeServices } from "../helpers/node-services.ts";
import { memoryStorage } from "../helpers/storage.ts";
import { subscribe as subscribeTo } from "../helpers/subscribe.ts";
import { plainVault } from "../helpers/vault.ts";
import { chatServer } from "../models/chat-server.ts";

export const CALLER = { key_id: "key", workspace_id: "w", project_id: "p" };
export const OTHER = { key_id: "other", workspace_id: "w", project_id: "q" };
/** Exists nowhere. */
export const NOWHERE = "01900000-0000-7000-8000-000000000000";

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/**
 * Agents with all that talking to them needs, over real SQLite; `storage` may be one that an earlier world
 * left. Without `model: "server"` they answer by the offline model.
 */
export function world(
  options: {
    storage?: Storage;
    model?: "offline" | "server";
    ended?: (turn_id: string) => void;
    allow?: string[];
  } = {},
) {
  const storage = options.storage ?? memoryStorage();
  const clock = new TestClock();
  const reports: string[] = [];
  const report = (message: string) => void reports.push(message);
  const server = chatServer();
  const egress = createEgress({ allow: options.allow ?? [] });
  const publicEgress = createEgress();
  closing.push(server.close, egress.close, publicEgress.close);
  const openai_base_url = options.model === "server" ? server.url : undefined;
  const none = { default_model: undefined, openai_api_key: undefined, ollama_host: undefined };
  const models = createModels({ config: { ...none, openai_base_url }, egress, clock });

  const runner = createRunner({ store: sqliteJobs(storage), clock, report });
  runner.register(
    defineJob({ kind: "delivery.attempt", lane: "deliveries", per_key: 8, run: async () => done }),
  );
  const events = createEvents({ store: sqliteEvents(storage), runner });
  const connections = connectionsOf(storage, clock);
  const workflows = createWorkflows({
    store: sqliteWorkflows(storage),
    connections,
    clock,
  });
  const engine = {
    store: sqliteExecutions(storage),
    events,
    runner,
    clock,
    // Agents are made after the engine that their tools run on.
    services: nodeServices(storage, clock, { egress, models, askAgent: (question) => askAgent(question) }),
    report,
  };
  const waiters = createWaiters(clock);
  const executions = createExecutions({
    ...engine,
    vault: plainVault,
    baseUrl: () => "http://localhost",
    waiters,
    workflows,
  });
  runner.register(executions.job);
  const agents = createAgents({
    store: sqliteAgents(storage),
    workflows,
    connections,
    clock,
    halt: (id) => turns.haltAgent(id),
  });
  const told = { ended: options.ended ?? (() => {}), due: (id: string) => runner.wake(id) };
  const store = tellingEnds(sqliteConversations(storage), told);
  const records = tellingRemovals(sqliteConversationRecords(storage), told);
  const attachments = createAttachments({
    store: sqliteAttachments(storage),
    agents,
    egress,
    publicEgress,
    clock,
  });
  const turns = createTurns({
    store,
    records,
    attachments,
    steps: sqliteTurnSteps(storage),
    workflows,
    executions,
    agents,
    models,
    connections,
    events,
    runner,
    clock,
    report,
  });
  runner.register(turns.job);
  const askAgent = createAsk({ agents, turns, waiters, clock });
  const conversations = createConversations({ store, records, agents, turns, events, runner, clock });

  const direct = createDirect({ agents, workflows, executions, models, connections, clock, report });
  const responses = createResponses({ store: sqliteResponses(storage), clock });
  const door = createDoor({ agents, turns, attachments, models, direct, clock });

  const log = createLog({ level: "error", format: "json", clock, write: () => {}, terminal: false });
  const authenticate = async (token: string) => ({ mine: CALLER, other: OTHER })[token];
  const app = new Elysia({ normalize: false })
    .use(edge({ log, authenticate }))
    .use(bodies)
    .use(agentRoutes({ agents }))
    .use(conversationRoutes({ conversations }))
    .use(attachmentRoutes({ attachments }))
    .use(approvalRoutes({ turns }))
    .use(streamRoutes({ turns, conversations }))
    .use(doorRoutes({ door, responses }));
  const maxBodyBytes = 1024 * 1024;
  const metrics = createMetrics();
  const gate = createGate({ app, authenticate, log, metrics, maxBodyBytes, state: () => "ready" });

  async function ask(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
    const sent = body === undefined ? undefined : JSON.stringify(body);
    // As they come from a socket: a request made here has neither host nor length by itself.
    const framing = {
      "content-type": "application/json",
      "content-length": String(Buffer.byteLength(sent ?? "")),
    };
    const request = new Request(`http://localhost${path}`, {
      method,
      headers: {
        host: "localhost",
        authorization: "Bearer mine",
        ...(sent === undefined ? {} : framing),
        ...headers,
      },
      body: sent,
    });
    return send(request);
  }
  const send = (request: Request) => gate(request, undefined);
  async function call(...args: Parameters<typeof ask>) {
    const response = await ask(...args);
    const text = await response.text();
    const { status, headers } = response;
    return { status, headers, body: text === "" ? undefined : JSON.parse(text) };
  }
  /** An agent of the caller's project; only what matters need be said. */
  const anAgent = async (more: Partial<CreateAgent> = {}, caller = CALLER) =>
    (
      await agents.create(
        caller,
        { workspace_id: "w" },
        { name: "Guide", auto_generate_title: false, ...more },
      )
    ).id;

  /** A message that came by webhook. */
  const enqueue = async (agent_id: string, message: string, more: Partial<EnqueueRequest> = {}) => {
    const answer = await turns.enqueue((await agents.target(agent_id))!, {
      message,
      user_id: null,
      metadata: {},
      context: {},
      source: "webhook",
      hop: 0,
      answer: ({ execution_id }) => ({ status: 202, body: { execution_id } }),
      ...more,
    } as EnqueueRequest);
    return { ...answer, id: String(answer.body["execution_id"]) };
  };
  /** Waits, in turns of the event loop, until the turn has one of these states. */
  async function until(id: string, ...states: string[]) {
    for (let n = 0; n < 500; n++) {
      const found = await turns.status(id);
      if (found && states.includes(found.status)) return found;
      await settled(2);
    }
    throw new Error(`still ${(await turns.status(id))?.status}`);
  }
  /** Everybody who listens to these kinds gets a delivery. */
  const subscribe = (...kinds: string[]) => subscribeTo(storage, ...kinds);
  const rows = (table: string) => storage.reader.all(`SELECT * FROM ${table} ORDER BY id`);
  const eventRows = () =>
    storage.reader
      .all<{ kind: string; data: string }>("SELECT kind, data FROM events ORDER BY id")
      .map(({ kind, data }) => ({ kind, data: JSON.parse(data) }));
  return {
    storage,
    clock,
    reports,
    server,
    runner,
    workflows,
    connections,
    executions,
    agents,
    conversations,
    turns,
    door,
    store,
    ask,
    send,
    call,
    anAgent,
    enqueue,
    until,
    subscribe,
    rows,
    eventRows,
  };
}

/** The body of a chat client that says `content`. */
export const chat = (content: unknown, id?: string) => ({
  ...(id === undefined ? {} : { id }),
  messages: [{ role: "user", content }],
});
