import { createEgress } from "../../src/egress/egress.ts";
import { createEvents } from "../../src/events/service.ts";
import { createExecutions } from "../../src/executions/service.ts";
import { createWaiters } from "../../src/executions/waiters.ts";
import { defineJob, done } from "../../src/jobs/job.ts";
import { createRunner } from "../../src/jobs/runner.ts";
import type { JsonObject } from "../../src/lib/json.ts";
import { sqliteEvents } from "../../src/storage/sqlite/events.ts";
import { sqliteExecutions } from "../../src/storage/sqlite/executions.ts";
import { sqliteJobs } from "../../src/storage/sqlite/jobs.ts";
import type { Storage } from "../../src/storage/sqlite/storage.ts";
import { sqliteWorkflows } from "../../src/storage/sqlite/workflows.ts";
import type { CreateWorkflow } from "../../src/workflows/schema.ts";
import { createWorkflows } from "../../src/workflows/service.ts";
import { settled, TestClock } from "../helpers/clock.ts";
import { connectionsOf } from "../helpers/connections.ts";
import { nodeServices } from "../helpers/node-services.ts";
import { memoryStorage } from "../helpers/storage.ts";
import { subscribe as subscribeTo } from "../helpers/subscribe.ts";
import { plainVault } from "../helpers/vault.ts";

export const CALLER = { key_id: "key", workspace_id: "w", project_id: "p" };

/** The whole engine over real SQLite; `storage` may be one that an earlier world left behind. */
export function world(options: { storage?: Storage; clock?: TestClock } = {}) {
  const storage = options.storage ?? memoryStorage();
  const clock = options.clock ?? new TestClock();
  const reports: string[] = [];
  const report = (message: string) => void reports.push(message);
  const runner = createRunner({ store: sqliteJobs(storage), clock, report });
  const delivered: string[] = [];
  runner.register(
    defineJob({
      kind: "delivery.attempt",
      lane: "deliveries",
      per_key: 8,
      run: async (ref) => {
        delivered.push(ref);
        return done;
      },
    }),
  );
  const events = createEvents({ store: sqliteEvents(storage), runner });
  const connections = connectionsOf(storage, clock);
  const workflows = createWorkflows({ store: sqliteWorkflows(storage), connections, clock });
  const waiters = createWaiters(clock);
  const store = sqliteExecutions(storage);
  const egress = createEgress({ allow: ["loopback"] });
  const services = nodeServices(storage, clock, { egress });
  const engine = { store, events, runner, clock, services, report };
  const executions = createExecutions({
    ...engine,
    vault: plainVault,
    baseUrl: () => "http://localhost",
    waiters,
    workflows,
  });
  runner.register(executions.job);

  async function workflow(body: CreateWorkflow) {
    const made = await workflows.create(CALLER, { workspace_id: "w" }, body);
    return (await workflows.target(made.id))!;
  }
  async function start(
    target: Awaited<ReturnType<typeof workflow>>,
    input: JsonObject = {},
    more: object = {},
  ) {
    const answer = await executions.start(target, {
      input,
      source: "test",
      metadata: {},
      hop: 0,
      answer: ({ execution_id }) => ({ status: 202, body: { execution_id } }),
      ...more,
    });
    return { ...answer, id: String(answer.body["execution_id"]) };
  }
  /** Waits, in turns of the event loop, until the execution has one of these states. */
  async function until(id: string, ...states: string[]) {
    for (let n = 0; n < 500; n++) {
      const found = await store.get(id);
      if (found && states.includes(found.state)) return executions.get(CALLER, id);
      await settled(2);
      await Bun.sleep(0);
    }
    throw new Error(`still ${(await store.get(id))?.state}`);
  }
  /** Everybody who listens to these kinds gets a delivery. */
  const subscribe = (...kinds: string[]) => subscribeTo(storage, ...kinds);
  const eventRows = () =>
    storage.reader.all<{ kind: string; data: string; subject_id: string }>(
      "SELECT * FROM events ORDER BY id",
    );
  return {
    storage,
    clock,
    runner,
    connections,
    workflows,
    executions,
    store,
    events,
    reports,
    delivered,
    waiters,
    workflow,
    start,
    until,
    subscribe,
    eventRows,
  };
}

export const setVariables = (name: string, variables: object, options?: object) => ({
  node_type_name: "set_variables",
  name,
  input_config: { variables, ...(options ? { _options: options } : {}) },
});

export const apiCall = (name: string, url: string, options?: object) => ({
  node_type_name: "api_call",
  name,
  input_config: { url, method: "POST", ...(options ? { _options: options } : {}) },
});
