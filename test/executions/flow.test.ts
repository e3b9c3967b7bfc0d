import { describe, expect, test } from "bun:test";
import type { JsonObject } from "../../src/lib/json.ts";
import { settled } from "../helpers/clock.ts";
import { server } from "../nodes/setup.ts";
import { aNode, call, condition, failing, forEach, parallel, stop, wait } from "./nodes.ts";
import { apiCall, CALLER, setVariables, world } from "./setup.ts";

const positions = (run: { steps: { position: string; status: string }[] }) =>
  run.steps.map((step) => `${step.position} ${step.status}`);

describe("a condition", () => {
  const graded = (when: unknown, more: object = {}) => [
    setVariables("first", { score: "{{ score }}" }),
    condition("check", when, [setVariables("good", { word: "good" })], {
      else_if: [
        // biome-ignore lint/suspicious/noThenProperty: a list, which nothing takes for a promise
        { if: "{{ score > 5 }}", then: [setVariables("fair", { word: "fair" })] },
      ],
      else: [setVariables("bad", { word: "bad" })],
      ...more,
    }),
    setVariables("last", { word: "{{ vars.word }}", branch: "{{ check.branch }}" }),
  ];

  test.each([
    [9, "then", "good"],
    [6, "else_if.0", "fair"],
    [1, "else", "bad"],
  ])("with %p runs the branch %p, whose variables count afterwards", async (score, branch, word) => {
    const { workflow, start, until } = world();
    for (const when of ["{{ score > 8 }}", { score: { gt: 8 } }, { "first.score": { gt: "{{ 8 }}" } }]) {
      const run = await until(
        (await start(await workflow({ nodes: graded(when) }), { score })).id,
        "success",
      );
      expect(run.output_data).toEqual({ word, branch });
      expect(positions(run)).toEqual(["0 success", "1 success", `1.${branch}.0 success`, "2 success"]);
    }
  });

  test("of effect-free nodes is still accepted, run and told in one commit", async () => {
    const { workflow, start, storage } = world();
    const target = await workflow({ nodes: graded("{{ score > 8 }}") });
    const before = storage.writer.health().operations;
    await start(target, { score: 9 });
    expect(storage.writer.health().operations - before).toBe(1);
  });

  test("that nothing fits runs nothing", async () => {
    const { workflow, start, until } = world();
    const nodes = [condition("check", "{{ no }}", [setVariables("x", { a: 1 })])];
    const run = await until((await start(await workflow({ nodes }), { no: false })).id, "success");
    expect(run.output_data).toEqual({ branch: null, output: null });
  });

  test("fails with the inner node to blame, and can be gone on after", async () => {
    const { workflow, start, until } = world();
    const nodes = [condition("check", true, [failing("inner")])];
    const failed = await until((await start(await workflow({ nodes }))).id, "failed");
    expect(failed.error).toMatchObject({ code: "TEMPLATE", node: "inner" });
    expect(positions(failed)).toEqual(["0 failed", "0.then.0 failed"]);
    const tolerant = [
      aNode("condition", "check", nodes[0]!.input_config, { on_error: "continue" }),
      setVariables("after", { code: "{{ check.error.code }}" }),
    ];
    const run = await until((await start(await workflow({ nodes: tolerant }))).id, "success");
    expect(run.output_data).toEqual({ code: "TEMPLATE" });
  });
});

describe("for_each", () => {
  test("runs its nodes for every item, in order, with the loop in scope", async () => {
    const { workflow, start, until } = world();
    const nodes = [
      forEach("each", "{{ list }}", [
        setVariables("one", {
          is: "{{ loop.index }}:{{ loop.item.n }}",
          edge: "{{ loop.first or loop.last }}",
        }),
      ]),
    ];
    const list = [{ n: "a" }, { n: "b" }, { n: "c" }];
    const run = await until((await start(await workflow({ nodes }), { list })).id, "success");
    expect(run.output_data).toEqual({
      count: 3,
      errors: [],
      results: [
        { is: "0:a", edge: true },
        { is: "1:b", edge: false },
        { is: "2:c", edge: true },
      ],
    });
  });

  test("keeps as many items under way as it is told", async () => {
    const { workflow, start, until } = world();
    let most = 0;
    let now = 0;
    using target = server(async () => {
      most = Math.max(most, ++now);
      await settled(4);
      now--;
      return Response.json({});
    });
    const nodes = [forEach("each", [1, 2, 3, 4, 5, 6, 7], [apiCall("call", target.url)], { parallelism: 3 })];
    const run = await until((await start(await workflow({ nodes }))).id, "success");
    expect(most).toBe(3);
    expect(run.steps).toHaveLength(8);
    const keys = target.got.map((call) => call.headers["idempotency-key"]);
    expect(new Set(keys).size).toBe(7);
    expect(keys).toContain(`${run.id}/0.items.6.0`);
  });

  test("stops at the first item that fails, or goes on and tells of it", async () => {
    const { workflow, start, until } = world();
    const body = [setVariables("one", { half: "{{ loop.item.half }}" })];
    const list = [{ half: 1 }, { other: 2 }, { half: 3 }] as JsonObject[];
    const strict = await workflow({ nodes: [forEach("each", "{{ list }}", body)] });
    const failed = await until((await start(strict, { list })).id, "failed");
    expect(failed.error).toMatchObject({ code: "TEMPLATE", node: "one" });
    expect(positions(failed)).toEqual(["0 failed", "0.items.0.0 success", "0.items.1.0 failed"]);
    const lenient = await workflow({
      nodes: [forEach("each", "{{ list }}", body, { on_item_error: "continue" })],
    });
    const run = await until((await start(lenient, { list })).id, "success");
    expect(run.output_data).toMatchObject({
      results: [{ half: 1 }, null, { half: 3 }],
      errors: [{ index: 1, code: "TEMPLATE" }],
    });
  });

  test("takes 10,000 items, and no more", async () => {
    const { workflow, start, until, storage } = world();
    const nodes = [
      forEach("each", "{{ list }}", [setVariables("one", { n: "{{ loop.item }}" })]),
      setVariables("last", { count: "{{ each.count }}" }),
    ];
    const target = await workflow({ nodes });
    const before = storage.writer.health().operations;
    const { id } = await start(target, { list: Array.from({ length: 10_000 }, (_, n) => n) });
    for (let n = 0; n < 2_000 && (await world({ storage }).store.get(id))?.state !== "success"; n++)
      await Bun.sleep(1);
    const run = await until(id, "success");
    expect(run.output_data).toEqual({ count: 10_000 });
    expect(run.steps_completed).toBe(10_002);
    // A commit for each chunk, not for each item and not one for all.
    const commits = storage.writer.health().operations - before;
    expect(commits).toBeGreaterThan(30);
    expect(commits).toBeLessThan(60);
    const more = await start(target, { list: Array.from({ length: 10_001 }, (_, n) => n) });
    expect((await until(more.id, "failed")).error).toMatchObject({ code: "TOO_MANY_ITEMS", node: "each" });
  });

  test("of what is no list fails with the field named", async () => {
    const { workflow, start, until } = world();
    const nodes = [forEach("each", "{{ list }}", [setVariables("one", { n: 1 })])];
    const run = await until((await start(await workflow({ nodes }), { list: "text" })).id, "failed");
    expect(run.error).toMatchObject({ code: "INVALID_CONFIG" });
    expect(JSON.stringify(run.error)).toContain("items: expected array");
  });

  test("a retry of one item waits while the others go on", async () => {
    const { workflow, start, until, clock } = world();
    let refused = 0;
    using target = server((_, body) =>
      body.includes("2") && refused++ === 0 ? new Response(null, { status: 503 }) : Response.json(body),
    );
    const step = apiCall("call", target.url);
    Object.assign(step.input_config, { body: "{{ loop.item }}" });
    const nodes = [forEach("each", [1, 2, 3], [step], { parallelism: 2 })];
    const { id } = await start(await workflow({ nodes }));
    const waiting = await until(id, "waiting");
    expect(positions(waiting)).toEqual([
      "0 started",
      "0.items.0.0 success",
      "0.items.1.0 retrying",
      "0.items.2.0 success",
    ]);
    await clock.advance(1_000);
    expect((await until(id, "success")).output_data).toMatchObject({ count: 3, errors: [] });
    expect(target.got).toHaveLength(4);
  });
});

describe("parallel", () => {
  test("runs its branches beside each other, none of which sees another's variables", async () => {
    const { workflow, start, until } = world();
    const nodes = [
      setVariables("before", { x: "outer" }),
      parallel("both", {
        left: [setVariables("l1", { x: "left" }), setVariables("l2", { saw: "{{ vars.x }}" })],
        right: [setVariables("r1", { saw: "{{ vars.x }}" })],
      }),
      setVariables("after", {
        x: "{{ vars.x }}",
        left: "{{ both.left.saw }}",
        right: "{{ both.right.saw }}",
      }),
    ];
    const run = await until((await start(await workflow({ nodes }))).id, "success");
    expect(run.output_data).toEqual({ x: "outer", left: "left", right: "outer" });
  });

  test("gives each branch its turn after every node, however short they are", async () => {
    const { workflow, start, until } = world();
    const long = [1, 2, 3, 4].map((n) => setVariables(`b${n}`, { n }));
    const branches = { long: [...long, failing("late")], short: [failing("early")] };
    const { id } = await start(await workflow({ nodes: [parallel("both", branches)] }));
    expect((await until(id, "failed")).error).toMatchObject({ node: "early" });
  });

  test("stops the others when one fails, unless all must", async () => {
    const { workflow, start, until } = world();
    using hanging = server(() => new Promise<Response>(() => {}));
    const branches = { bad: [failing("b1")], slow: [apiCall("s1", hanging.url)] };
    const run = await until(
      (await start(await workflow({ nodes: [parallel("both", branches)] }))).id,
      "failed",
    );
    expect(run.error).toMatchObject({ code: "TEMPLATE", node: "b1" });
    expect(run.steps.every((step) => step.completed_at !== null)).toBe(true);
    const lenient = parallel(
      "both",
      { bad: [failing("b1")], good: [setVariables("g1", { y: 1 })] },
      { fail_on: "all" },
    );
    const other = await until((await start(await workflow({ nodes: [lenient] }))).id, "success");
    expect(other.output_data).toMatchObject({ bad: { error: { code: "TEMPLATE" } }, good: { y: 1 } });
  });
});

describe("what a list waits for", () => {
  test("is taken up when it comes, while another list still works", async () => {
    const { workflow, start, until, executions, clock } = world();
    const { promise: answered, resolve: answer } = Promise.withResolvers<Response>();
    using slow = server(() => answered);
    using told = server(() => Response.json({}));
    const heard = async (count: number) => {
      for (let n = 0; n < 500 && told.got.length < count; n++) {
        await settled(2);
        await Bun.sleep(0);
      }
      return told.got.map(({ body }) => body);
    };
    const tells = (name: string, body: unknown) =>
      aNode("api_call", name, { method: "POST", url: told.url, body });
    const child = await workflow({ nodes: [wait("pause", { seconds: 60 }), setVariables("c", { x: 1 })] });
    const branches = {
      slow: [apiCall("s1", slow.url)],
      caller: [
        wait("approval", { callback: { nodes: [tells("where", "{{ callback.url }}")] } }),
        tells("called", "called by {{ approval.body.by }}"),
      ],
      child: [call("sub", child.id), tells("ended", "child {{ sub.workflow_output.x }}")],
    };
    const { id } = await start(await workflow({ nodes: [parallel("all", branches)] }));
    const [where] = await heard(1);
    const url = new URL(String(where));
    await executions.callBack(url.pathname.split("/").at(-1)!, [url.searchParams.get("token")!], {
      by: "Ada",
    });
    expect(await heard(2)).toContain("called by Ada");
    await clock.advance(61_000);
    expect(await heard(3)).toContain("child 1");
    expect((await executions.get(CALLER, id)).status).toBe("running");
    answer(Response.json({}));
    const run = await until(id, "success");
    expect(run.steps.filter(({ status }) => status !== "success")).toEqual([]);
    expect(told.got).toHaveLength(3);
  });
});

describe("a wait", () => {
  test("is a row: nothing runs until its time", async () => {
    const { workflow, start, until, clock, runner } = world();
    const nodes = [
      setVariables("a", { x: 1 }),
      wait("pause", { seconds: 3_600 }),
      setVariables("b", { x: "{{ a.x }}" }),
    ];
    const { id } = await start(await workflow({ nodes }));
    const waiting = await until(id, "waiting");
    expect(positions(waiting)).toEqual(["0 success", "1 waiting"]);
    await settled();
    expect(runner.inFlight().runs).toBe(0);
    await clock.advance(3_599_000);
    expect((await until(id, "waiting")).steps).toHaveLength(2);
    await clock.advance(3_000);
    const run = await until(id, "success");
    expect(run.output_data).toEqual({ x: 1 });
    expect(run.steps[1]?.output).toEqual({ resumed_by: "time", body: null });
  });

  test("until a moment that has passed holds nothing up; what is no moment fails", async () => {
    const { workflow, start, until } = world();
    const target = await workflow({ nodes: [wait("pause", { until: "{{ when }}" })] });
    const run = await until((await start(target, { when: "2020-01-01T00:00:00Z" })).id, "success");
    expect(run.output_data).toEqual({ resumed_by: "time", body: null });
    const failed = await until((await start(target, { when: "tomorrow" })).id, "failed");
    expect(failed.error).toMatchObject({ code: "INVALID_CONFIG" });
  });

  test("for a caller tells its address first, and goes on with what was sent", async () => {
    const { workflow, start, until, executions, storage } = world();
    const nodes = [
      wait("approval", { callback: { nodes: [setVariables("told", { url: "{{ callback.url }}" })] } }),
      setVariables("after", { by: "{{ approval.resumed_by }}", yes: "{{ approval.body.yes }}" }),
    ];
    const { id } = await start(await workflow({ nodes }));
    const waiting = await until(id, "waiting");
    const url = new URL((waiting.steps[1]!.output as { url: string }).url);
    const wait_id = url.pathname.split("/").at(-1)!;
    const token = url.searchParams.get("token")!;
    expect(url.pathname).toBe(`/webhooks/waits/${wait_id}`);
    expect(executions.callBack(wait_id, ["wrong"], null)).rejects.toMatchObject({ code: "unauthorized" });
    expect(executions.callBack(wait_id, [], null)).rejects.toMatchObject({ code: "unauthorized" });
    expect(executions.recognise(wait_id, ["wrong"])).rejects.toMatchObject({ code: "unauthorized" });
    expect(executions.recognise(wait_id, [token])).resolves.toBeUndefined();
    expect(executions.callBack(id, [token], null)).rejects.toMatchObject({ code: "unauthorized" });
    await executions.callBack(wait_id, [token], { yes: true });
    const run = await until(id, "success");
    expect(run.output_data).toEqual({ by: "callback", yes: true });
    expect(executions.callBack(wait_id, [token], null)).rejects.toMatchObject({ code: "gone" });
    expect(storage.reader.all("SELECT * FROM jobs")).toEqual([]);
  });

  test("for a caller who does not call ends at its time", async () => {
    const { workflow, start, until, clock } = world();
    const nodes = [wait("approval", { callback: { timeout_seconds: 60 } })];
    const { id } = await start(await workflow({ nodes }));
    await until(id, "waiting");
    await clock.advance(61_000);
    expect((await until(id, "success")).output_data).toEqual({ resumed_by: "timeout", body: null });
  });
});

describe("calling another workflow", () => {
  test("that is quick goes on at once with its output", async () => {
    const { workflow, start, until } = world();
    const child = await workflow({ nodes: [setVariables("c", { doubled: "{{ n | times: 2 }}" })] });
    const nodes = [
      call("sub", child.id, { n: "{{ n }}" }),
      setVariables("after", { got: "{{ sub.workflow_output.doubled }}" }),
    ];
    const run = await until((await start(await workflow({ nodes }), { n: 4 })).id, "success");
    expect(run.output_data).toEqual({ got: 8 });
  });

  test("that waits is waited for, without asking again and again", async () => {
    const { workflow, start, until, clock, storage, executions } = world();
    const child = await workflow({
      nodes: [wait("pause", { seconds: 600 }), setVariables("c", { x: "done" })],
    });
    const { id } = await start(await workflow({ nodes: [call("sub", child.id)] }));
    await until(id, "waiting");
    const [other] = storage.reader.all<{ id: string }>("SELECT id FROM executions WHERE parent_id = ?", id);
    await until(other!.id, "waiting");
    const before = storage.writer.health().operations;
    await clock.advance(500_000);
    expect(storage.writer.health().operations).toBe(before);
    await clock.advance(101_000);
    const run = await until(id, "success");
    expect(run.output_data).toEqual({
      execution_id: other!.id,
      status: "success",
      workflow_output: { x: "done" },
    });
    expect((await executions.get(CALLER, other!.id)).parent_execution_id).toBe(id);
  });

  test("that fails fails the step; one that is not waited for does not matter", async () => {
    const { workflow, start, until } = world();
    const child = await workflow({ nodes: [failing("c")] });
    const failed = await until(
      (await start(await workflow({ nodes: [call("sub", child.id)] }))).id,
      "failed",
    );
    expect(failed.error).toMatchObject({ code: "WORKFLOW_FAILED", node: "sub" });
    const loose = await workflow({ nodes: [call("sub", child.id, {}, { wait: false })] });
    const run = await until((await start(loose)).id, "success");
    expect(run.output_data).toMatchObject({ status: "queued", workflow_output: null });
  });

  test("of another project, or of none, fails as if there were none", async () => {
    const { workflow, workflows, start, until } = world();
    const foreign = await workflows.create(
      { ...CALLER, project_id: "other" },
      { workspace_id: "w" },
      { nodes: [] },
    );
    for (const named of [foreign.id, crypto.randomUUID(), "no id"]) {
      const run = await until((await start(await workflow({ nodes: [call("sub", named)] }))).id, "failed");
      expect(run.error).toMatchObject({ code: "WORKFLOW_NOT_FOUND" });
    }
  });

  test("in a cycle ends when it is too deep, and the rest of the runs go on", async () => {
    const { workflow, workflows, start, until, storage } = world();
    const target = await workflow({ nodes: [] });
    await workflows.update(CALLER, target.id, { nodes: [call("again", target.id)] });
    const { id } = await start((await workflows.target(target.id))!);
    const run = await until(id, "failed");
    expect(JSON.stringify(run.error)).toContain("TOO_DEEP");
    const states = storage.reader.all<{ state: string }>("SELECT state FROM executions");
    expect(states).toHaveLength(9);
    expect(new Set(states.map(({ state }) => state))).toEqual(new Set(["failed"]));
    expect(storage.reader.all("SELECT * FROM jobs")).toEqual([]);
  });

  test("is cancelled with the run that waits for it", async () => {
    const { workflow, start, until, executions, storage } = world();
    const child = await workflow({ nodes: [wait("pause", { seconds: 600 })] });
    const { id } = await start(await workflow({ nodes: [call("sub", child.id)] }));
    await until(id, "waiting");
    const [other] = storage.reader.all<{ id: string }>("SELECT id FROM executions WHERE parent_id = ?", id);
    await until(other!.id, "waiting");
    await executions.cancel(CALLER, id);
    expect(await executions.get(CALLER, other!.id)).toMatchObject({ status: "cancelled" });
    expect(storage.reader.all("SELECT * FROM jobs")).toEqual([]);
  });
});

describe("respond_to_webhook", () => {
  test("is on record as soon as it was said, and the first one counts", async () => {
    const { workflow, start, until } = world();
    const respond = (name: string, body: string) =>
      aNode("respond_to_webhook", name, { status: 201, headers: { "X-Kind": "{{ kind }}" }, body });
    const nodes = [
      respond("first", "{{ kind }} it is"),
      respond("second", "too late"),
      wait("pause", { seconds: 60 }),
    ];
    const { id } = await start(await workflow({ nodes }), { kind: "tea" });
    const run = await until(id, "waiting");
    expect(run.response).toEqual({ status: 201, headers: { "x-kind": "tea" }, body: "tea it is" });
    expect(run.steps.map((step) => step.output)).toEqual([{ sent: true }, { sent: false }, null]);
  });

  test("in a quick program is part of the one commit", async () => {
    const { workflow, start, executions } = world();
    const { id } = await start(
      await workflow({ nodes: [aNode("respond_to_webhook", "r", { body: { a: 1 } })] }),
    );
    expect((await executions.get(CALLER, id)).response).toEqual({ status: 200, headers: {}, body: { a: 1 } });
  });

  test("sets no header that is the connection's, the server's or no header at all", async () => {
    const { workflow, start, executions } = world();
    const bad = { "bad name": "x", "X-A": "a\r\nB: c", "X-B": "🐛" };
    const reserved = { "Set-Cookie": "a=b", "Content-Length": "3", "Content-Encoding": "gzip" };
    for (const [name, value] of Object.entries({ ...bad, ...reserved })) {
      const nodes = [aNode("respond_to_webhook", "r", { headers: { [name]: "{{ value }}" } })];
      const { id } = await start(await workflow({ nodes }), { value });
      const { status, error, response } = await executions.get(CALLER, id);
      expect([name, status, response]).toEqual([name, "failed", null]);
      expect(error).toMatchObject({ code: "BAD_HEADER", node: "r" });
    }
  });
});

describe("stop_workflow", () => {
  test("ends the run from any depth, as a success with its output or as a failure with its message", async () => {
    const { workflow, start, until } = world();
    using hanging = server(() => new Promise<Response>(() => {}));
    const nodes = (config: object) => [
      parallel("both", {
        slow: [apiCall("s1", hanging.url)],
        ending: [forEach("each", [1, 2], [condition("check", "{{ loop.last }}", [stop("halt", config)])])],
      }),
      setVariables("never", { x: 1 }),
    ];
    const good = await workflow({
      nodes: nodes({ output: { early: true } }),
      output_mapping: { x: "{{ never.x }}" },
    });
    const run = await until((await start(good)).id, "success");
    expect(run.output_data).toEqual({ early: true });
    expect(run.steps.every((step) => step.completed_at !== null)).toBe(true);
    const bad = await workflow({ nodes: nodes({ status: "failed", message: "no stock" }) });
    const failed = await until((await start(bad)).id, "failed");
    expect(failed.error).toEqual({ code: "STOPPED", message: "no stock", node: "halt" });
  });
});

describe("time limits", () => {
  test("of a flow node count its waits, and end what runs inside", async () => {
    const { workflow, start, until, clock } = world();
    const nodes = [
      forEach(
        "each",
        [1, 2],
        [wait("pause", { seconds: 3_600 })],
        {},
        { timeout_seconds: 10, on_error: "continue" },
      ),
      setVariables("after", { code: "{{ each.error.code }}" }),
    ];
    const { id } = await start(await workflow({ nodes }));
    await until(id, "waiting");
    await clock.advance(11_000);
    expect((await until(id, "success")).output_data).toEqual({ code: "TIMEOUT" });
  });

  test("of a run end it wherever it is, also a node that hangs", async () => {
    const { workflow, workflows, start, until, clock } = world();
    using hanging = server(() => new Promise<Response>(() => {}));
    const target = await workflow({ nodes: [condition("c", true, [apiCall("call", hanging.url)])] });
    await workflows.updateSettings(CALLER, target.id, { run_timeout_seconds: 20 });
    const { id } = await start((await workflows.target(target.id))!);
    while (hanging.got.length === 0) await Bun.sleep(0);
    await clock.advance(20_000);
    expect((await until(id, "failed")).error).toMatchObject({ code: "RUN_TIMEOUT", node: null });
  });
});

describe("on_error: route", () => {
  test("runs nodes of its own with the error in scope, and goes on with what they give", async () => {
    const { workflow, start, until } = world();
    const nodes = [
      failing("risky", {
        on_error: "route",
        error_nodes: [setVariables("rescue", { said: "{{ error.code }} at {{ error.node }}" })],
      }),
      setVariables("after", { said: "{{ risky.said }}" }),
    ];
    const run = await until((await start(await workflow({ nodes }))).id, "success");
    expect(run.output_data).toEqual({ said: "TEMPLATE at risky" });
    expect(positions(run)).toEqual(["0 failed", "0.on_error.0 success", "1 success"]);
  });
});

describe("a failure workflow", () => {
  test("is started with what happened, once, and not for its own failures", async () => {
    const { workflow, workflows, start, until, storage } = world();
    const alarm = await workflow({ nodes: [failing("also")] });
    const target = await workflow({ nodes: [failing("a")] });
    await workflows.updateSettings(CALLER, alarm.id, { failure_workflow_id: target.id });
    await workflows.updateSettings(CALLER, target.id, { failure_workflow_id: alarm.id });
    const { id } = await start((await workflows.target(target.id))!, { n: 1 });
    await settled();
    const rows = storage.reader.all<{ id: string; workflow_id: string; input: string }>(
      "SELECT * FROM executions WHERE source = 'failure'",
    );
    expect(rows.map((row) => row.workflow_id)).toEqual([alarm.id]);
    await until(rows[0]!.id, "failed");
    expect(JSON.parse(rows[0]!.input)).toMatchObject({
      execution_id: id,
      workflow_id: target.id,
      error: { code: "TEMPLATE", node: "a" },
      input_data: { n: 1 },
    });
    expect(storage.reader.all("SELECT id FROM executions")).toHaveLength(2);
  });
});

describe("concurrency", () => {
  test("lets so many runs of a key go at once, and the others wait their turn", async () => {
    const { workflow, workflows, start, until } = world();
    const waiting: (() => void)[] = [];
    using target = server(
      () => new Promise<Response>((resolve) => waiting.push(() => resolve(Response.json({})))),
    );
    const made = await workflow({ nodes: [apiCall("call", target.url)] });
    await workflows.updateSettings(CALLER, made.id, { concurrency: { limit: 1, key: "{{ customer }}" } });
    const fresh = (await workflows.target(made.id))!;
    const started = [];
    for (const customer of ["a", "a", "b"]) started.push(await start(fresh, { customer }));
    while (target.got.length < 2) await Bun.sleep(0);
    await settled();
    expect(target.got).toHaveLength(2);
    while (target.got.length < 3) {
      waiting.shift()?.();
      await Bun.sleep(0);
    }
    for (const each of waiting) each();
    for (const { id } of started) await until(id, "success");
  });
});
