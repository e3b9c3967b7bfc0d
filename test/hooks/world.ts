import { Database } from "bun:sqlite";
import { Elysia } from "elysia";
import type { StartAnswer, StartRequest } from "../../src/executions/service.ts";
import { createWaiters } from "../../src/executions/waiters.ts";
import { createAdmission } from "../../src/hooks/admission.ts";
import { createForms } from "../../src/hooks/forms.ts";
import { createResults } from "../../src/hooks/results.ts";
import { hookTokenRoutes, incomingRecognise, incomingRoutes } from "../../src/hooks/routes.ts";
import { createHooks, type EnqueueRequest } from "../../src/hooks/service.ts";
import type { ClaimOutcome, IdempotencyClaim } from "../../src/hooks/store.ts";
import { createHookTokens, type HookTarget } from "../../src/hooks/tokens.ts";
import { bodies, edge } from "../../src/http/edge.ts";
import { createGate } from "../../src/http/gate.ts";
import { createMetrics } from "../../src/http/metrics.ts";
import { keyRoutes } from "../../src/keys/routes.ts";
import { createKeys } from "../../src/keys/service.ts";
import { iso } from "../../src/lib/clock.ts";
import { AppError } from "../../src/lib/errors.ts";
import { newId } from "../../src/lib/ids.ts";
import { createLog } from "../../src/lib/log.ts";
import { Connection } from "../../src/storage/sqlite/connection.ts";
import { sqliteHooks } from "../../src/storage/sqlite/hooks.ts";
import { claimIdempotency } from "../../src/storage/sqlite/idempotency.ts";
import { sqliteKeys } from "../../src/storage/sqlite/keys.ts";
import { migrate } from "../../src/storage/sqlite/migrate.ts";
import { operations } from "../../src/storage/sqlite/operations.ts";
import type { Storage } from "../../src/storage/sqlite/storage.ts";
import { sqliteWorkspaces } from "../../src/storage/sqlite/workspaces.ts";
import { createWriter, inProcess, type Writer } from "../../src/storage/sqlite/writer.ts";
import { createWorkspaces } from "../../src/workspaces/service.ts";
import { TestClock } from "../helpers/clock.ts";

type Accepting = { id: string; claim?: IdempotencyClaim & { status: number; response: string } };

/** The least that accepting work means: the claim and a row, both or neither. */
function accept(db: Connection, { id, claim }: Accepting): ClaimOutcome {
  const claimed = claim ? claimIdempotency(db, claim) : { outcome: "new" as const };
  if (claimed.outcome === "new") db.run("INSERT INTO accepted (id) VALUES (?)", id);
  return claimed;
}

const withName = (target: HookTarget | undefined) => target && { ...target, name: "Test" };

/** Keys, hook tokens and incoming webhooks behind the real gate, over real SQLite; two projects in two workspaces. */
export async function setup() {
  const clock = new TestClock();
  const db = new Connection(new Database(":memory:", { strict: true }));
  migrate(db, { now: 0 });
  db.run("CREATE TABLE accepted (id TEXT PRIMARY KEY) STRICT");
  const registry = { ...operations, "test.accept": accept };
  const writer = createWriter(inProcess(db, registry));
  const storage: Storage = { reader: db, writer };
  const submit = writer.submit as unknown as (name: "test.accept", args: Accepting) => Promise<ClaimOutcome>;

  const workspaces = createWorkspaces({ store: sqliteWorkspaces(storage), clock });
  const keys = createKeys({ store: sqliteKeys(storage), workspaces, clock });
  const own = await workspaces.ensureDefault();
  const sibling = await workspaces.createProject(own.workspace_id, { name: "Sibling" });
  const other = await workspaces.create({ name: "Other" });

  const targets = new Map<string, HookTarget>();
  const target = async (id: string) => targets.get(id);
  const aTarget = (owner: { workspace_id: string; project_id: string } = own): string => {
    const id = newId();
    targets.set(id, { id, workspace_id: owner.workspace_id, project_id: owner.project_id });
    return id;
  };

  const started: { target: string; request: StartRequest | EnqueueRequest }[] = [];
  async function start(
    { id: targetId }: HookTarget,
    request: StartRequest | EnqueueRequest,
  ): Promise<StartAnswer> {
    const id = newId();
    const answer = request.answer({ execution_id: id, estimated_completion: iso(clock.now() + 1_000) });
    const { idempotency } = request;
    const claim = idempotency && {
      ...idempotency,
      status: answer.status,
      response: JSON.stringify(answer.body),
    };
    const accepted = await submit("test.accept", { id, claim });
    if (accepted.outcome === "mismatch")
      throw new AppError("conflict", "This key was used with another request.");
    if (accepted.outcome === "replay") {
      return { status: accepted.status, body: JSON.parse(accepted.response), replayed: true };
    }
    started.push({ target: targetId, request });
    return { ...answer, replayed: false };
  }

  const store = sqliteHooks(storage);
  const find = { target };
  const hookTokens = createHookTokens({
    store,
    agents: find,
    workflows: find,
    clock,
    baseUrl: () => "https://errand.example",
  });
  const nothing = { status: async () => undefined };
  const incoming = {
    admission: createAdmission({ store, clock }),
    results: createResults({ turns: nothing, executions: nothing, waiters: createWaiters(clock) }),
    agents: find,
    workflows: { target: async (id: string) => withName(targets.get(id)) },
    turns: { enqueue: start },
    executions: { start },
    inputSchema: async () => ({ title: "", description: "", required: [], properties: {} }),
    clock,
  };
  const hooks = createHooks(incoming);
  const forms = createForms(incoming);

  const log = createLog({ level: "error", format: "json", clock, write: () => {}, terminal: false });
  const app = new Elysia({ normalize: false })
    .use(edge({ log, authenticate: keys.authenticate }))
    .use(bodies)
    .use(new Elysia({ prefix: "/api" }).use(keyRoutes({ keys })).use(hookTokenRoutes({ hookTokens })))
    .group("/webhooks", (incoming) => incoming.use(incomingRoutes({ hooks, forms })));
  const gate = createGate({
    app,
    recognise: incomingRecognise({ hooks }),
    authenticate: keys.authenticate,
    log,
    metrics: createMetrics(),
    maxBodyBytes: 64 * 1024,
  });

  const keyOf = async (owner: { workspace_id: string; project_id: string }) =>
    (
      await keys.admin.create({
        name: "test",
        workspace_id: owner.workspace_id,
        project_id: owner.project_id,
      })
    ).key;

  type Sent = { body?: unknown; key?: string; headers?: Record<string, string> };
  async function send(method: string, path: string, { body, key, headers }: Sent = {}) {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const all: Record<string, string> = { host: "localhost", ...headers };
    if (key !== undefined) all["authorization"] = `Bearer ${key}`;
    if (text !== undefined) {
      all["content-type"] = "application/json";
      all["content-length"] = String(Buffer.byteLength(text));
    }
    const response = await gate(new Request(`http://localhost${path}`, { method, headers: all, body: text }));
    const answer = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      text: answer,
      // biome-ignore lint/suspicious/noExplicitAny: answers of every shape
      body: (answer ? JSON.parse(answer) : undefined) as any,
    };
  }

  return {
    clock,
    db,
    storage,
    writer: writer as Writer,
    workspaces,
    keys,
    hookTokens,
    own,
    sibling: { workspace_id: own.workspace_id, project_id: sibling.id },
    other: { workspace_id: other.id, project_id: other.project_id },
    aTarget,
    forget: (id: string) => targets.delete(id),
    keyOf,
    started,
    send,
    accepted: () => db.all("SELECT id FROM accepted").length,
  };
}
