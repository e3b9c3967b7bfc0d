import { describe, expect, test } from "bun:test";
import { statSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { newId } from "../../src/lib/ids.ts";
import { forgetHistory } from "../../src/retention/jobs.ts";
import { createRetention } from "../../src/retention/service.ts";
import { openLocalStorage } from "../../src/storage/sqlite/open.ts";
import { sqliteRetention } from "../../src/storage/sqlite/retention.ts";
import type { Storage } from "../../src/storage/sqlite/storage.ts";
import { sqliteWorkflows } from "../../src/storage/sqlite/workflows.ts";
import { createWorkflows } from "../../src/workflows/service.ts";
import { TestClock } from "../helpers/clock.ts";
import { connectionsOf } from "../helpers/connections.ts";
import { discardAfterEach, scratchFolder } from "../helpers/folder.ts";
import { memoryStorage } from "../helpers/storage.ts";

discardAfterEach();

const DAY = 86_400_000;
const CALLER = { key_id: "key", workspace_id: "w", project_id: "p" };
type Values = Record<string, string | number | null>;

/** How many rows each commit from now on drops. */
function slicesOf(storage: Storage): number[] {
  const slices: number[] = [];
  const { submit } = storage.writer;
  storage.writer.submit = (async (name: never, args: never, mode: never) => {
    const answer = await submit(name, args, mode);
    slices.push((answer as unknown as { rows: number }).rows);
    return answer;
  }) as never;
  return slices;
}

/** Retention over real SQLite, and rows of every kind; times are days before now. */
function world(storage: Storage = memoryStorage()) {
  const clock = new TestClock();
  const retention = createRetention({ store: sqliteRetention(storage), clock });
  const workflows = createWorkflows({
    store: sqliteWorkflows(storage),
    connections: connectionsOf(storage, clock),
    clock,
  });
  const ago = (days: number) => clock.now() - days * DAY;
  function insert(table: string, values: Values): string {
    const names = Object.keys(values);
    storage.reader.run(
      `INSERT INTO ${table} (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})`,
      ...Object.values(values),
    );
    return String(values["id"]);
  }
  const execution = (made: { days?: number; ended?: number | null; state?: string } & Values = {}) => {
    const { days = 40, ended = days, state = "success", ...more } = made;
    return insert("executions", {
      id: newId(),
      workflow_id: "wf",
      workspace_id: "w",
      project_id: "p",
      definition_hash: "h",
      state,
      source: "api",
      metadata: "{}",
      input: "{}",
      hop: 0,
      external_calls: 0,
      tokens: 0,
      steps_completed: 0,
      created_at: ago(days),
      ended_at: ended === null ? null : ago(ended),
      ...more,
    });
  };
  const steps = (execution_id: string, count: number, output = "1") => {
    for (let seq = 0; seq < count; seq++) {
      insert("steps", {
        execution_id,
        position: String(seq),
        seq,
        name: "n",
        node_type_name: "t",
        state: "success",
        attempts: 1,
        output,
        started_at: 0,
      });
    }
  };
  const event = (days = 40) =>
    insert("events", {
      id: newId(),
      project_id: "p",
      kind: "workflow.execution.started",
      subject_id: "s",
      data: "{}",
      created_at: ago(days),
    });
  const delivery = (event_id: string, state: string, days = 40) => {
    const id = newId();
    const isOver = !["pending", "retrying", "paused", "held"].includes(state);
    insert("deliveries", {
      id,
      event_id,
      subscription_id: "sub",
      kind: "workflow.execution.started",
      state,
      hop: 1,
      body: "{}",
      attempts: 1,
      attempts_max: 6,
      created_at: ago(days),
      ended_at: isOver ? ago(days) : null,
    });
    insert("attempts", { delivery_id: id, number: 1, started_at: ago(days), response_time_ms: 1 });
    return id;
  };
  const conversation = (status: string, days = 40) => {
    const id = newId();
    const turn_id = newId();
    const common = { conversation_id: id, created_at: ago(days) };
    insert("conversations", {
      id,
      agent_id: "a",
      workspace_id: "w",
      project_id: "p",
      owner: "p",
      client_id: id,
      status,
      metadata: "{}",
      message_count: 1,
      started_at: ago(days),
      updated_at: ago(days),
      completed_at: status === "completed" ? ago(days) : null,
    });
    insert("turns", {
      id: turn_id,
      agent_id: "a",
      workspace_id: "w",
      project_id: "p",
      state: "success",
      source: "stream",
      hop: 0,
      ended_at: ago(days),
      ...common,
    });
    insert("messages", { id: newId(), turn_id, role: "user", parts: "[]", state: "complete", ...common });
    return id;
  };
  const ids = (table: string) =>
    storage.reader
      .all<{ id: string }>(`SELECT id FROM ${table}`)
      .map(({ id }) => id)
      .sort();
  const count = (table: string) => storage.reader.get<{ n: number }>(`SELECT count(*) AS n FROM ${table}`)!.n;
  const prune = (days = 30, more: object = {}) => retention.prune({ before: ago(days), ...more });
  return {
    storage,
    clock,
    retention,
    workflows,
    ago,
    insert,
    execution,
    steps,
    event,
    delivery,
    conversation,
    ids,
    count,
    prune,
  };
}

describe("calls of triggers", () => {
  test("go when they are old, with what they said, but not before what came of them has ended", async () => {
    const { insert, conversation, storage, ids, ago, prune } = world();
    const called = (more: Values = {}, days = 40) =>
      insert("trigger_events", {
        id: newId(),
        trigger_id: "t",
        agent_id: "a",
        state: "accepted",
        request: "{}",
        response: "{}",
        created_at: ago(days),
        ...more,
      });
    const conversation_id = conversation("active");
    const turn_id = storage.reader.get<{ id: string }>("SELECT id FROM turns")!.id;
    called({ turn_id, conversation_id });
    for (const state of ["rejected", "refused", "ignored"]) called({ state });
    const kept = [called({}, 29)];
    expect(await prune(30, { isDryRun: true })).toMatchObject({ trigger_events: 4 });
    storage.reader.run("UPDATE turns SET ended_at = NULL, state = 'waiting'");
    const waiting = called({ turn_id, conversation_id });
    storage.reader.run("DELETE FROM trigger_events WHERE turn_id = ? AND id <> ?", turn_id, waiting);
    kept.push(waiting);
    expect(await prune()).toMatchObject({ trigger_events: 3 });
    expect(ids("trigger_events")).toEqual(kept.sort());
  });
});

describe("executions", () => {
  test("go with their steps when they ended long ago, and stay while they are not over", async () => {
    const { execution, steps, ids, count, prune } = world();
    for (const state of ["success", "failed", "cancelled"]) steps(execution({ state }), 3);
    const kept = [
      execution({ state: "queued", ended: null }),
      execution({ state: "running", ended: null }),
      execution({ state: "waiting", ended: null }),
      execution({ days: 400, ended: 1 }),
      execution({ days: 29 }),
    ];
    expect(await prune()).toMatchObject({ executions: 3 });
    expect([ids("executions"), count("steps")]).toEqual([kept.sort(), 0]);
  });

  test("stay as long as their workflow says, longer or shorter, and no more of them than it says", async () => {
    const { workflows, execution, ids, prune, storage } = world();
    const made = async (retention: object) => {
      const { id } = await workflows.create(CALLER, { workspace_id: "w" }, {});
      await workflows.updateSettings(CALLER, id, { retention });
      return id;
    };
    const [longer, shorter, fewer] = [
      await made({ days: 365 }),
      await made({ days: 2 }),
      await made({ max_executions: 2 }),
    ];
    const kept = [execution({ workflow_id: longer }), execution({ workflow_id: shorter, days: 1 })];
    execution({ workflow_id: shorter, days: 3 });
    for (const days of [9, 8]) execution({ workflow_id: fewer, days });
    for (const days of [7, 6]) kept.push(execution({ workflow_id: fewer, days }));
    kept.push(execution({ workflow_id: fewer, days: 20, state: "waiting", ended: null }));
    expect(await prune()).toMatchObject({ executions: 3 });
    expect(ids("executions")).toEqual(kept.sort());
    expect(storage.reader.get("SELECT count(*) AS n FROM workflows")).toEqual({ n: 3 });
  });

  test("without an age go only where their workflow asks for it", async () => {
    const { retention, workflows, execution, event, ids } = world();
    const { id } = await workflows.create(CALLER, { workspace_id: "w" }, {});
    await workflows.updateSettings(CALLER, id, { retention: { days: 7 } });
    const kept = execution();
    execution({ workflow_id: id });
    event();
    expect(await retention.prune({})).toMatchObject({ executions: 1, events: 0 });
    expect(ids("executions")).toEqual([kept]);
  });

  test("with more steps or longer values than a slice takes go in several", async () => {
    const { execution, steps, storage, count, prune } = world();
    const slices = slicesOf(storage);
    steps(execution(), 1_700);
    steps(execution(), 40, "x".repeat(1024 * 1024));
    expect(await prune()).toMatchObject({ executions: 2 });
    expect([count("executions"), count("steps")]).toEqual([0, 0]);
    expect(Math.max(...slices)).toBeLessThanOrEqual(500);
    expect(slices.length).toBeGreaterThan(10);
  });

  test("with long steps in their own row go a few at a time", async () => {
    const { execution, storage, prune } = world();
    const slices = slicesOf(storage);
    for (let n = 0; n < 10; n++) execution({ steps: "x".repeat(1024 * 1024) });
    expect(await prune()).toMatchObject({ executions: 10 });
    expect(slices.filter((rows) => rows > 0)).toEqual([4, 4, 2]);
  });

  test("are the same whatever lies between: an independent reckoning agrees", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.record({
            days: fc.integer({ min: 1, max: 60 }),
            ran: fc.integer({ min: 0, max: 60 }),
            state: fc.constantFrom("queued", "running", "waiting", "success", "failed", "cancelled"),
            workflow_id: fc.constantFrom("a", "b"),
          }),
          { maxLength: 40 },
        ),
        fc.integer({ min: 1, max: 60 }),
        async (rows, limit) => {
          const { execution, ids, prune } = world();
          const kept: string[] = [];
          for (const { ran, ...row } of rows) {
            const ended = ["success", "failed", "cancelled"].includes(row.state)
              ? Math.max(0, row.days - ran)
              : null;
            const id = execution({ ...row, ended });
            if (ended === null || ended <= limit) kept.push(id);
          }
          const dry = await prune(limit, { isDryRun: true });
          expect(ids("executions")).toHaveLength(rows.length);
          expect(await prune(limit)).toEqual(dry);
          expect(ids("executions")).toEqual(kept.sort());
        },
      ),
      { numRuns: 30 },
    );
  });
});

describe("deliveries, events and conversations", () => {
  test("deliveries that are settled go with their attempts; what is still to be sent stays, and its event", async () => {
    const { event, delivery, ids, count, prune } = world();
    for (const state of ["success", "failed", "filtered", "cancelled", "batched"]) delivery(event(), state);
    const waiting = ["pending", "retrying", "paused", "held"].map((state) => {
      const event_id = event();
      return { event_id, id: delivery(event_id, state) };
    });
    event();
    const young = event(3);
    expect(await prune()).toMatchObject({ deliveries: 5, events: 6 });
    expect(ids("deliveries")).toEqual(waiting.map(({ id }) => id).sort());
    expect(ids("events")).toEqual([...waiting.map(({ event_id }) => event_id), young].sort());
    expect(count("attempts")).toBe(4);
  });

  test("conversations that are completed go whole, others stay", async () => {
    const { conversation, ids, count, prune } = world();
    conversation("completed");
    const kept = [conversation("active"), conversation("completed", 3)];
    expect(await prune()).toMatchObject({ conversations: 1 });
    expect(ids("conversations")).toEqual(kept.sort());
    expect([count("turns"), count("messages")]).toEqual([2, 2]);
  });

  test("more than a slice of what stays does not hide what goes behind it", async () => {
    const { event, delivery, prune, count } = world();
    for (let n = 0; n < 600; n++) delivery(event(50), "paused", 50);
    for (let n = 0; n < 600; n++) delivery(event(40), "success", 40);
    expect(await prune()).toMatchObject({ deliveries: 600, events: 600 });
    expect(count("deliveries")).toBe(600);
  });
});

describe("definitions", () => {
  test("that no workflow, version or run names go, the second time they are found so", async () => {
    const { workflows, retention, execution, storage, insert } = world();
    const nodes = (name: string) => ({
      nodes: [{ node_type_name: "set_variables", name, input_config: { variables: { a: 1 } } }],
    });
    const { id } = await workflows.create(CALLER, { workspace_id: "w" }, nodes("published"));
    await workflows.publish(CALLER, id, {});
    await workflows.update(CALLER, id, nodes("loose"));
    await workflows.update(CALLER, id, nodes("draft"));
    insert("definitions", { hash: "of a run", definition: "{}" });
    execution({ definition_hash: "of a run" });
    const left = () => storage.reader.get<{ n: number }>("SELECT count(*) AS n FROM definitions")!.n;
    expect([await retention.pruneDefinitions(), left()]).toEqual([0, 4]);
    expect([await retention.pruneDefinitions(), left()]).toEqual([1, 3]);
    expect((await workflows.get(CALLER, id)).nodes[0]!.name).toBe("draft");
    expect((await workflows.version(CALLER, id, "1")).nodes[0]!.name).toBe("published");
  });
});

describe("the disk", () => {
  test("gets back what was deleted", async () => {
    const folder = scratchFolder();
    const file = join(folder, "errand.db");
    const storage = openLocalStorage({ folder, now: 0 });
    const { execution, prune, retention } = world(storage);
    for (let n = 0; n < 40; n++) execution({ input: JSON.stringify("x".repeat(500_000)) });
    storage.reader.raw.run("PRAGMA wal_checkpoint(TRUNCATE)");
    const before = statSync(file).size;
    await prune();
    expect(await retention.reclaim()).toBeGreaterThan(10_000_000);
    storage.reader.raw.run("PRAGMA wal_checkpoint(TRUNCATE)");
    expect(statSync(file).size).toBeLessThan(before / 2);
    expect(await retention.reclaim()).toBe(0);
    await storage.close();
  });
});

describe("the chore", () => {
  test("forgets what is older than the configured days; with 0 it keeps everything", async () => {
    const { retention, execution, clock, count } = world();
    execution();
    await forgetHistory({ retention, days: 0, clock }).run();
    expect(count("executions")).toBe(1);
    await forgetHistory({ retention, days: 30, clock }).run();
    expect(count("executions")).toBe(0);
  });

  test("ends early when the program stops, and the next one goes on", async () => {
    const { execution, count, prune } = world();
    for (let n = 0; n < 20; n++) execution();
    await prune(30, { signal: AbortSignal.abort() });
    expect(count("executions")).toBe(20);
    await prune();
    expect(count("executions")).toBe(0);
  });
});
