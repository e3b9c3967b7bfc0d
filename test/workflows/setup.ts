import { Elysia } from "elysia";
import { bodies, edge } from "../../src/http/edge.ts";
import { createLog } from "../../src/lib/log.ts";
import { sqliteWorkflows } from "../../src/storage/sqlite/workflows.ts";
import { workflowRoutes } from "../../src/workflows/routes.ts";
import { createWorkflows } from "../../src/workflows/service.ts";
import { TestClock } from "../helpers/clock.ts";
import { connectionsOf } from "../helpers/connections.ts";
import { memoryStorage } from "../helpers/storage.ts";

export const CALLER = { key_id: "key", workspace_id: "w", project_id: "p" };
export const OTHER = { key_id: "other", workspace_id: "w", project_id: "q" };

/** Workflows over real SQLite, and their routes for two keys, "mine" and "other". */
export function setup() {
  const clock = new TestClock();
  const storage = memoryStorage();
  const workflows = createWorkflows({
    store: sqliteWorkflows(storage),
    connections: connectionsOf(storage, clock),
    clock,
  });
  const log = createLog({ level: "error", format: "json", clock, write: () => {}, terminal: false });
  const authenticate = async (token: string) => ({ mine: CALLER, other: OTHER })[token];
  const app = new Elysia({ normalize: false })
    .use(edge({ log, authenticate }))
    .use(bodies)
    .use(workflowRoutes({ workflows }));

  async function call(method: string, path: string, body?: unknown, key: string | null = "mine") {
    const response = await app.handle(
      new Request(`http://localhost${path}`, {
        method,
        headers: {
          ...(key === null ? {} : { authorization: `Bearer ${key}` }),
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        body: body === undefined ? undefined : JSON.stringify(body),
      }),
    );
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      body: text === "" ? undefined : JSON.parse(text),
    };
  }
  return { clock, storage, workflows, call };
}

export const greet = {
  node_type_name: "set_variables",
  name: "greet",
  input_config: { variables: { text: "Hi {{ name }}" } },
};
