import { describe, expect, test } from "bun:test";
import { sqliteExecutions } from "../../src/storage/sqlite/executions.ts";
import { settled } from "../helpers/clock.ts";
import { server } from "../nodes/setup.ts";
import { aNode } from "./nodes.ts";
import { apiCall, CALLER, setVariables, world } from "./setup.ts";

describe("a run", () => {
  test("goes through its nodes in order and maps its output", async () => {
    const { workflow, start, until } = world();
    const target = await workflow({
      nodes: [
        setVariables("a", { n: "{{ n }}" }),
        setVariables("b", { text: "n is {{ a.n }}", again: "{{ vars.n }}" }),
      ],
      output_mapping: { said: "{{ b.text }}", n: "{{ b.again }}" },
    });
    const { id } = await start(target, { n: 5 });
    const run = await until(id, "success");
    expect(run.output_data).toEqual({ said: "n is 5", n: 5 });
    expect(run.steps.map((step) => [step.name, step.status, step.attempts])).toEqual([
      ["a", "success", 1],
      ["b", "success", 1],
    ]);
    expect(run.steps_completed).toBe(2);
  });

  test("that is over before it is stored has its steps in its own row, and they are read like any others", async () => {
    const { workflow, start, storage } = world();
    const routed = { on_error: "route", error_nodes: [setVariables("mended", { y: 2 })] };
    const target = await workflow({
      nodes: [setVariables("risky", { x: "{{ nothing }}" }, routed), setVariables("last", { z: 3 })],
    });
    const { id } = await start(target);
    expect(storage.reader.all("SELECT * FROM steps")).toEqual([]);
    const { steps } = sqliteExecutions(storage);
    const all = await steps(id);
    expect(all.map(({ position, state, output }) => [position, state, output])).toEqual([
      ["0", "failed", '{"y":2}'],
      ["0.on_error.0", "success", '{"y":2}'],
      ["1", "success", '{"z":3}'],
    ]);
    const revs = all.map(({ rev }) => rev).sort((a, b) => a - b);
    expect((await steps(id, revs[0])).map(({ rev }) => rev)).toEqual(revs.slice(1));
    expect(await steps(id, revs.at(-1))).toEqual([]);
  });

  test("whose steps are long together has each in a row of its own", async () => {
    const { workflow, start, executions, storage } = world();
    const long = setVariables("a", { text: "{{ x }}{{ x }}{{ x }}{{ x }}" });
    const target = await workflow({ nodes: [long, { ...long, name: "b" }, { ...long, name: "c" }] });
    const { id } = await start(target, { x: "x".repeat(60_000) });
    expect(storage.reader.get("SELECT count(*) AS apart FROM steps")).toEqual({ apart: 3 });
    expect(storage.reader.get("SELECT steps FROM executions")).toEqual({ steps: null });
    const { status, steps } = await executions.get(CALLER, id);
    expect([status, ...steps.map(({ name }) => name)]).toEqual(["success", "a", "b", "c"]);
  });

  test("comes to the same whether its nodes say something of their steps or nothing", async () => {
    const { workflow, start, executions } = world();
    const first = [
      setVariables("a", { list: ["{{ n }}", -0, null] }),
      {
        ...aNode("render_template", "b", { template: "{{ a.list }}" }),
        output_mapping: { t: "{{ output.text }}" },
      },
      aNode("string_to_json", "c", { text: "{{ b.t }}" }),
    ];
    const lasts = [
      aNode("list_operations", "last", { list: "{{ c.json }}", operations: [{ operation: "reverse" }] }),
      aNode("list_operations", "last", { list: "{{ b.t }}" }),
      aNode("string_to_json", "last", { text: "no {{ n }}" }),
      setVariables("last", { x: "{{ nothing }}" }),
      { ...setVariables("last", { x: 1 }), output_mapping: { y: "{{ output.z }}" } },
    ];
    const told = async (nodes: object[]) => {
      const { id } = await start(await workflow({ nodes: nodes as never }), { n: 5 });
      const { status, output_data, error, steps, steps_completed } = await executions.get(CALLER, id);
      return { status, output_data, error, steps, steps_completed };
    };
    const statuses: string[] = [];
    for (const last of lasts) {
      const nodes = [...first, last];
      const plain = await told(nodes);
      expect(
        await told(
          nodes.map(({ input_config, ...node }) => ({
            ...node,
            input_config: { ...input_config, _options: {} },
          })),
        ),
      ).toEqual(plain);
      statuses.push(plain.status);
    }
    expect(statuses).toEqual(["success", "failed", "failed", "failed", "failed"]);
  });

  test("without a mapping gives the last node's output, without nodes nothing", async () => {
    const { workflow, start, until } = world();
    const one = await start(await workflow({ nodes: [setVariables("a", { x: 1 })] }));
    expect((await until(one.id, "success")).output_data).toEqual({ x: 1 });
    const none = await start(await workflow({}));
    expect((await until(none.id, "success")).output_data).toBeNull();
  });

  test("keeps the definition it began with", async () => {
    const { workflow, start, until, workflows, clock } = world();
    using slow = server(async () => new Response(null, { status: 503 }));
    const target = await workflow({
      nodes: [apiCall("call", slow.url), setVariables("after", { v: "old" })],
    });
    const { id } = await start(target);
    await until(id, "waiting");
    await workflows.update(CALLER, target.id, { nodes: [setVariables("after", { v: "new" })] });
    slow.got.length = 0;
    await clock.advance(1_000);
    const run = await until(id, "waiting", "failed");
    expect(run.steps[0]?.name).toBe("call");
  });

  test("fails with the node and the path named when a template refers to nothing", async () => {
    const { workflow, start, until } = world();
    const { id } = await start(await workflow({ nodes: [setVariables("a", { x: "{{ b.c }}" })] }));
    const run = await until(id, "failed");
    expect(run.error).toMatchObject({ code: "TEMPLATE", node: "a" });
    expect(JSON.stringify(run.error)).toContain("{{ b }} refers to nothing");
  });

  test("refuses input that does not fit, before anything is stored", async () => {
    const { workflow, start, storage } = world();
    const target = await workflow({
      input_schema: { properties: { n: { title: "N", type: "number" } }, required: ["n"] },
      nodes: [],
    });
    expect(start(target, { n: "five" })).rejects.toMatchObject({
      code: "invalid_input",
      extra: { faults: [{ field: "input_data.n", expected: "number", received: "string" }] },
    });
    await settled();
    expect(storage.reader.all("SELECT * FROM executions")).toEqual([]);
  });

  test("whose output is too large fails and says so", async () => {
    const { workflow, start, until } = world();
    const target = await workflow({
      nodes: [setVariables("big", { a: "{{ x }}", b: "{{ x }}", c: "{{ x }}", d: "{{ x }}", e: "{{ x }}" })],
    });
    const { id } = await start(target, { x: "y".repeat(250_000) });
    expect((await until(id, "failed")).error).toMatchObject({ code: "OUTPUT_TOO_LARGE", node: "big" });
  });
});

describe("options of a node", () => {
  test("run_if skips it, pinned_output stands for it", async () => {
    const { workflow, start, until } = world();
    const target = await workflow({
      nodes: [
        setVariables("skipped", { x: 1 }, { run_if: "{{ go }}" }),
        setVariables("pinned", { x: 1 }, { pinned_output: { x: "pin" } }),
      ],
    });
    const { id } = await start(target, { go: false });
    const run = await until(id, "success");
    expect(run.steps.map((step) => step.status)).toEqual(["skipped", "success"]);
    expect(run.output_data).toEqual({ x: "pin" });
  });

  test("on_error goes on with the error, or with a default", async () => {
    const { workflow, start, until } = world();
    const target = await workflow({
      nodes: [
        setVariables("a", { x: "{{ nothing.here }}" }, { on_error: "continue" }),
        setVariables("b", { x: "{{ nothing.here }}" }, { on_error: "default", default_output: { x: 7 } }),
        setVariables("c", { code: "{{ a.error.code }}", x: "{{ b.x }}" }),
      ],
    });
    const run = await until((await start(target)).id, "success");
    expect(run.output_data).toEqual({ code: "TEMPLATE", x: 7 });
    expect(run.steps.map((step) => step.status)).toEqual(["failed", "failed", "success"]);
  });

  test("timeout_seconds ends a call that hangs", async () => {
    const { workflow, start, until, clock } = world();
    using hanging = server(() => new Promise<Response>(() => {}));
    const target = await workflow({
      nodes: [apiCall("call", hanging.url, { timeout_seconds: 5, retry: { max_attempts: 1 } })],
    });
    const { id } = await start(target);
    while (hanging.got.length === 0) await Bun.sleep(0);
    await clock.advance(5_000);
    expect((await until(id, "failed")).error).toMatchObject({ code: "TIMEOUT", node: "call" });
  });
});

describe("a call elsewhere", () => {
  test("that fails is tried again at its times, with one idempotency key, and holds nothing meanwhile", async () => {
    const { workflow, start, until, clock, runner } = world();
    using flaky = server(() => new Response(null, { status: flaky.got.length < 3 ? 503 : 200 }));
    const { id } = await start(await workflow({ nodes: [apiCall("call", flaky.url)] }));
    await until(id, "waiting");
    await settled();
    expect(runner.inFlight().runs).toBe(0);
    await clock.advance(1_000);
    await until(id, "waiting");
    await clock.advance(2_000);
    const run = await until(id, "success");
    expect(run.steps[0]).toMatchObject({ attempts: 3, status: "success" });
    expect(new Set(flaky.got.map((call) => call.headers["idempotency-key"]))).toEqual(new Set([`${id}/0`]));
    expect(run.credits_used).toBe(1);
  });

  test("has its credentials kept out of the stored step", async () => {
    const { workflow, start, until } = world();
    using echo = server(() => new Response("ok"));
    const call = apiCall("call", echo.url);
    Object.assign(call.input_config, { headers: { authorization: "Bearer very-secret-token" } });
    const run = await until((await start(await workflow({ nodes: [call] }))).id, "success");
    expect(echo.got[0]?.headers["authorization"]).toBe("Bearer very-secret-token");
    expect(JSON.stringify(run)).not.toContain("very-secret-token");
  });
});

describe("starting", () => {
  const claim = (hash: string) => ({ scope: "s", key: "k", request_hash: hash, expires_at: 1e15 });

  test("twice with one idempotency key makes one execution and one answer", async () => {
    const { workflow, start, storage } = world();
    const target = await workflow({ nodes: [] });
    const first = await start(target, {}, { idempotency: claim("h") });
    const again = await start(target, {}, { idempotency: claim("h") });
    expect(again).toMatchObject({ replayed: true, id: first.id, status: 202 });
    expect(start(target, {}, { idempotency: claim("other") })).rejects.toMatchObject({ code: "conflict" });
    await settled();
    expect(storage.reader.all("SELECT id FROM executions")).toEqual([{ id: first.id }]);
  });

  test("past the cap of the workflow queues, and everything still ends", async () => {
    const { workflow, start, until, storage } = world();
    const target = await workflow({ nodes: [setVariables("a", { n: "{{ n }}" })] });
    const started = await Promise.all(Array.from({ length: 600 }, (_, n) => start(target, { n })));
    expect(storage.reader.get<{ n: number }>("SELECT count(*) AS n FROM executions")?.n).toBe(600);
    for (const { id } of started) await until(id, "success");
    expect(storage.reader.all("SELECT * FROM jobs")).toEqual([]);
  });

  test("with a wait for the result answers the ended run, or 202 when it takes too long", async () => {
    const { workflow, executions, clock } = world();
    const quick = await workflow({ nodes: [setVariables("a", { x: 1 })] });
    const ask = { input_data: {}, response_type: "result" as const, timeout_seconds: 5 };
    expect(await executions.startByKey(CALLER, quick.id, ask, { hop: 0 })).toMatchObject({
      status: 200,
      body: { status: "success", output_data: { x: 1 } },
    });
    using hanging = server(() => new Promise<Response>(() => {}));
    const slow = await workflow({ nodes: [apiCall("call", hanging.url)] });
    const waiting = executions.startByKey(CALLER, slow.id, ask, { hop: 0 });
    while (hanging.got.length === 0) await Bun.sleep(0);
    await clock.advance(5_000);
    expect(await waiting).toMatchObject({ status: 202, body: { status: "running" } });
  });
});

describe("cancelling", () => {
  test("aborts what runs, ends the run once and tells of it", async () => {
    const { workflow, start, executions, subscribe, eventRows, storage } = world();
    subscribe("workflow.*");
    using hanging = server(() => new Promise<Response>(() => {}));
    const { id } = await start(await workflow({ nodes: [apiCall("call", hanging.url)] }));
    while (hanging.got.length === 0) await Bun.sleep(0);
    expect(await executions.cancel(CALLER, id)).toMatchObject({
      status: "cancelled",
      error: { code: "CANCELLED" },
    });
    await settled();
    expect(executions.cancel(CALLER, id)).rejects.toMatchObject({ code: "conflict" });
    const ends = eventRows().filter((row) => row.kind !== "workflow.execution.started");
    expect(ends.map((row) => [row.kind, JSON.parse(row.data).status])).toEqual([
      ["workflow.execution.failed", "cancelled"],
    ]);
    expect(storage.reader.all("SELECT * FROM jobs WHERE ref = ?", id)).toEqual([]);
  });
});

describe("events", () => {
  test("tell of start, steps and end, each once and in order", async () => {
    const { workflow, start, until, subscribe, eventRows, delivered } = world();
    subscribe("*");
    const target = await workflow({ nodes: [setVariables("a", { x: 1 }), setVariables("b", { y: 2 })] });
    const { id } = await start(target, { q: 1 });
    await until(id, "success");
    await settled();
    const rows = eventRows();
    expect(rows.map((row) => row.kind)).toEqual([
      "workflow.execution.started",
      "workflow.step.completed",
      "workflow.step.completed",
      "workflow.execution.completed",
    ]);
    expect(JSON.parse(rows[3]!.data)).toMatchObject({
      workflow_id: target.id,
      execution_id: id,
      status: "success",
      input_data: { q: 1 },
      output_data: { y: 2 },
      credits_used: 0,
      steps_completed: 2,
    });
    expect(delivered).toHaveLength(4);
  });
});

describe("a quick program", () => {
  test("is one commit: accepted, run and told, with no job", async () => {
    const { workflow, start, storage, store, subscribe, executions } = world();
    subscribe("workflow.*");
    const target = await workflow({ nodes: [setVariables("a", { x: "{{ n }}" })] });
    const before = storage.writer.health().operations;
    const { id } = await start(target, { n: 1 });
    expect(storage.writer.health().operations - before).toBe(1);
    expect((await store.get(id))?.state).toBe("success");
    expect(await executions.get(CALLER, id)).toMatchObject({
      output_data: { x: 1 },
      steps: [{ status: "success" }],
    });
    expect(storage.reader.all("SELECT kind FROM jobs WHERE lane = 'runs'")).toEqual([]);
    expect((await workflowRow(storage, target.id)).num_runs).toBe(1);
  });

  test("that is long, or reaches outside, is queued like every other", async () => {
    const { workflow, start, until, storage } = world();
    const nodes = Array.from({ length: 21 }, (_, n) => setVariables(`n${n}`, { n }));
    const target = await workflow({ nodes });
    const before = storage.writer.health().operations;
    const { id } = await start(target);
    await until(id, "success");
    expect(storage.writer.health().operations - before).toBe(2);
  });
});

const workflowRow = async (storage: ReturnType<typeof world>["storage"], id: string) =>
  storage.reader.get<{ num_runs: number }>("SELECT num_runs FROM workflows WHERE id = ?", id)!;

describe("what a run may take", () => {
  test("is 8 MiB of outputs in all, however small each of them", async () => {
    const { workflow, start, until } = world();
    const nodes = Array.from({ length: 30 }, (_, n) => setVariables(`n${n}`, { a: "{{ x }}", b: "{{ x }}" }));
    const { id } = await start(await workflow({ nodes }), { x: "y".repeat(200_000) });
    const run = await until(id, "failed");
    expect(run.error).toMatchObject({ code: "RUN_TOO_LARGE" });
    expect(run.steps_completed).toBeLessThan(25);
  });
});

test("a call to an address of one's own carries on the count of hops, whatever the workflow says", async () => {
  const { workflow, start, until } = world();
  using echo = server(() => new Response("ok"));
  const call = apiCall("call", echo.url);
  Object.assign(call.input_config, { headers: { "X-Service-Hop": "0" } });
  await until((await start(await workflow({ nodes: [call] }), {}, { hop: 4 })).id, "success");
  expect(echo.got[0]?.headers["x-service-hop"]).toBe("5");
});
