import { describe, expect, test } from "bun:test";
import { settled } from "../helpers/clock.ts";
import { server } from "../nodes/setup.ts";
import { call, condition, failing, forEach, wait } from "./nodes.ts";
import { apiCall, CALLER, setVariables, world } from "./setup.ts";

const NO_CONTEXT = { hop: 0 };
const idOf = (answer: { body: object }) => String((answer.body as { execution_id: string }).execution_id);

describe("a retry", () => {
  test("goes on from the step that failed over what was done, inside of loops as well", async () => {
    const { workflow, start, until, executions } = world();
    let broken = true;
    using target = server((_, body) =>
      broken && body.includes("2") ? new Response(null, { status: 400 }) : Response.json({ body }),
    );
    const step = apiCall("call", target.url);
    Object.assign(step.input_config, { body: "{{ loop.item }}" });
    const nodes = [
      setVariables("first", { n: 1 }),
      forEach("each", [1, 2, 3], [step]),
      setVariables("last", { n: "{{ first.n }}", count: "{{ each.count }}" }),
    ];
    const { id } = await start(await workflow({ nodes }));
    expect((await until(id, "failed")).error).toMatchObject({ node: "call" });
    broken = false;
    const answer = await executions.retry(CALLER, id, undefined, NO_CONTEXT);
    expect(answer).toMatchObject({ status: 202, body: { status: "queued", origin_execution_id: id } });
    const run = await until(idOf(answer), "success");
    expect(run.output_data).toEqual({ n: 1, count: 3 });
    expect(run).toMatchObject({ trigger_source: "retry", origin_execution_id: id, steps_completed: 6 });
    expect(target.got.map((call) => call.body)).toEqual(["1", "2", "2", "3"]);
    expect((await executions.get(CALLER, id)).status).toBe("failed");
  });

  test("from a node runs that one and all after it", async () => {
    const { workflow, start, until, executions } = world();
    using target = server(() => Response.json({}));
    const nodes = [
      apiCall("a", target.url),
      apiCall("b", target.url),
      setVariables("c", { s: "{{ a.status }}" }),
    ];
    const { id } = await start(await workflow({ nodes }));
    await until(id, "success");
    expect(executions.retry(CALLER, id, undefined, NO_CONTEXT)).rejects.toMatchObject({ code: "conflict" });
    expect(executions.retry(CALLER, id, "nobody", NO_CONTEXT)).rejects.toMatchObject({
      code: "invalid_input",
    });
    const run = await until(idOf(await executions.retry(CALLER, id, "b", NO_CONTEXT)), "success");
    expect(run.output_data).toEqual({ s: 200 });
    expect(target.got).toHaveLength(3);
  });

  test("with one idempotency key is one run; one of another project or under way is refused", async () => {
    const { workflow, start, until, executions, storage } = world();
    const { id } = await start(await workflow({ nodes: [failing("a")] }));
    await until(id, "failed");
    const context = { hop: 0, idempotency: { scope: "s", key: "k", request_hash: "h", expires_at: 1e15 } };
    const [one, two] = await Promise.all([
      executions.retry(CALLER, id, undefined, context),
      executions.retry(CALLER, id, undefined, context),
    ]);
    expect(idOf(one)).toBe(idOf(two));
    expect(storage.reader.all("SELECT id FROM executions")).toHaveLength(2);
    const stranger = { ...CALLER, project_id: "other" };
    expect(executions.retry(stranger, id, undefined, NO_CONTEXT)).rejects.toMatchObject({
      code: "forbidden",
    });
    const waiting = await start(await workflow({ nodes: [wait("pause", { seconds: 60 })] }));
    await until(waiting.id, "waiting");
    expect(executions.retry(CALLER, waiting.id, undefined, NO_CONTEXT)).rejects.toMatchObject({
      code: "conflict",
    });
  });
});

describe("a replay", () => {
  test("runs all of it, with the input it had or another, which is checked", async () => {
    const { workflow, start, until, executions } = world();
    const target = await workflow({
      input_schema: { properties: { n: { title: "N", type: "number" } } },
      nodes: [setVariables("a", { n: "{{ n }}" })],
    });
    const { id } = await start(target, { n: 1 });
    const same = await until(idOf(await executions.replay(CALLER, id, undefined, NO_CONTEXT)), "success");
    expect(same.output_data).toEqual({ n: 1 });
    const other = await until(idOf(await executions.replay(CALLER, id, { n: 2 }, NO_CONTEXT)), "success");
    expect(other).toMatchObject({ output_data: { n: 2 }, origin_execution_id: id, trigger_source: "replay" });
    expect(executions.replay(CALLER, id, { n: "x" }, NO_CONTEXT)).rejects.toMatchObject({
      code: "invalid_input",
    });
  });
});

describe("one node alone", () => {
  test("runs with given input and outputs, by its name at any depth, and stores nothing", async () => {
    const { workflow, executions, storage } = world();
    const target = await workflow({
      nodes: [
        setVariables("first", { n: "{{ n }}" }),
        forEach("each", [1], [setVariables("inner", { got: "{{ first.n }} {{ loop.item }}" })]),
      ],
    });
    const body = { node: "inner", outputs: { first: { n: 7 }, loop: { item: "x" } } };
    expect(await executions.testStep(CALLER, target.id, body)).toMatchObject({
      status: "success",
      output: { got: "7 x" },
      input: { variables: { got: "7 x" } },
      error: null,
    });
    const failed = await executions.testStep(CALLER, target.id, { node: "inner" });
    expect(failed).toMatchObject({ status: "failed", error: { code: "TEMPLATE", node: "inner" } });
    expect(storage.reader.all("SELECT * FROM executions")).toEqual([]);
    expect(storage.reader.all("SELECT * FROM steps")).toEqual([]);
  });

  test("that is sent along is checked like a workflow's, and may hold others", async () => {
    const { workflow, executions } = world();
    const { id } = await workflow({ nodes: [] });
    const node = condition("check", "{{ n > 1 }}", [setVariables("yes", { x: 1 })]);
    expect(await executions.testStep(CALLER, id, { node, input_data: { n: 2 } })).toMatchObject({
      status: "success",
      output: { branch: "then", output: { x: 1 } },
      steps: [{ position: "0" }, { position: "0.then.0" }],
    });
    expect(executions.testStep(CALLER, id, { node: { ...node, name: "1 2" } })).rejects.toMatchObject({
      extra: { faults: [{ field: "node.name" }] },
    });
    expect(executions.testStep(CALLER, id, { node: "nobody" })).rejects.toMatchObject({
      code: "invalid_input",
    });
  });

  test("waits for nobody: times are taken as come, callers as having called, other workflows run there and then", async () => {
    const { workflow, executions, storage } = world();
    const { id } = await workflow({ nodes: [] });
    const trial = (node: object, more: object = {}) =>
      executions.testStep(CALLER, id, { node: node as never, ...more });
    const pause = condition("c", true, [wait("pause", { seconds: 86_400 }), setVariables("a", { x: 1 })]);
    expect(await trial(pause)).toMatchObject({
      status: "success",
      output: { output: { x: 1 } },
      steps: [{}, { status: "success", output: { resumed_by: "time" } }, { status: "success" }],
    });
    const approval = wait("approval", {
      callback: { nodes: [setVariables("told", { url: "{{ callback.url }}" })] },
    });
    expect(await trial(approval, { callback_body: { yes: true } })).toMatchObject({
      status: "success",
      output: { resumed_by: "callback", body: { yes: true } },
    });
    const child = await workflow({
      nodes: [wait("pause", { seconds: 5 }), setVariables("c", { twice: "{{ n | times: 2 }}" })],
    });
    expect(await trial(call("sub", child.id, { n: 4 }))).toMatchObject({
      status: "success",
      output: { status: "success", workflow_output: { twice: 8 } },
    });
    expect(await trial(call("sub", "nobody"))).toMatchObject({ error: { code: "WORKFLOW_NOT_FOUND" } });
    expect(storage.reader.all("SELECT id FROM executions UNION SELECT id FROM waits")).toEqual([]);
  });

  test("that calls workflows in a circle ends when it is too deep", async () => {
    const { workflow, workflows, executions } = world();
    const { id } = await workflow({ nodes: [] });
    await workflows.update(CALLER, id, { nodes: [call("again", id)] });
    const { error } = await executions.testStep(CALLER, id, { node: "again" });
    expect(error).toMatchObject({
      code: "WORKFLOW_FAILED",
      message: expect.stringMatching(/^Execution \S+ ended failed: TOO_DEEP: [^:]+$/),
    });
  });

  test("that holds others has their retries at once", async () => {
    const { workflow, executions } = world();
    const { id } = await workflow({ nodes: [] });
    using target = server(() => new Response(null, { status: target.got.length > 2 ? 200 : 503 }));
    const each = forEach("each", [1], [apiCall("ask", target.url)]);
    expect(await executions.testStep(CALLER, id, { node: each })).toMatchObject({ status: "success" });
    expect(target.got).toHaveLength(3);
  });

  test("that hangs is given up after a minute, and one that fails is not tried again", async () => {
    const { workflow, executions, clock } = world();
    using hanging = server(() =>
      hanging.got.length > 1 ? new Response(null, { status: 503 }) : new Promise<Response>(() => {}),
    );
    const { id } = await workflow({ nodes: [apiCall("call", hanging.url)] });
    const slow = executions.testStep(CALLER, id, { node: "call" });
    while (hanging.got.length === 0) await Bun.sleep(0);
    await clock.advance(60_000);
    expect(await slow).toMatchObject({ status: "failed", error: { code: "TIMEOUT" } });
    expect(await executions.testStep(CALLER, id, { node: "call" })).toMatchObject({
      status: "failed",
      error: { code: "HTTP_STATUS" },
    });
    expect(hanging.got).toHaveLength(2);
  });
});

/** The events of a stream as it came, until it ends or `enough` have come. */
async function read(response: Response, enough = Number.POSITIVE_INFINITY) {
  const events: { event: string; id?: string; data: Record<string, unknown> }[] = [];
  const reader = response.body!.getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    text += new TextDecoder().decode(value);
    const parts = text.split("\n\n");
    text = parts.pop()!;
    for (const part of parts.filter((each) => !each.startsWith(":"))) {
      const fields = Object.fromEntries(
        part.split("\n").map((line) => line.split(/: (.*)/s) as [string, string]),
      );
      events.push({ event: fields["event"]!, id: fields["id"], data: JSON.parse(fields["data"]!) });
    }
    if (events.length >= enough) {
      await reader.cancel();
      break;
    }
  }
  return events;
}

describe("following a run", () => {
  test("tells of its status and steps as they come, and ends with it", async () => {
    const { workflow, start, until, executions, clock } = world();
    const nodes = [setVariables("a", { x: 1 }), wait("pause", { seconds: 60 }), setVariables("b", { y: 2 })];
    const { id } = await start(await workflow({ nodes }));
    await until(id, "waiting");
    const response = await executions.follow(CALLER, id, null);
    expect(response.headers.get("content-type")).toBe("text/event-stream");
    const reading = read(response);
    await settled();
    await clock.advance(61_000);
    const events = await reading;
    const told = events.map(({ event, data }) => `${event} ${data["name"] ?? ""} ${data["status"]}`);
    expect(told.slice(0, 3)).toEqual(["status  waiting", "step a success", "step pause waiting"]);
    expect(told.slice(-2)).toEqual(["step b success", "end  success"]);
    expect(told).toContain("step pause success");
    expect(events.at(-1)?.data["output_data"]).toEqual({ y: 2 });
  });

  test("goes on after a break with what is newer than the last event", async () => {
    const { workflow, start, until, executions } = world();
    const { id } = await start(
      await workflow({ nodes: [setVariables("a", { x: 1 }), setVariables("b", { y: 2 })] }),
    );
    await until(id, "success");
    const all = await read(await executions.follow(CALLER, id, null));
    expect(all.map(({ event }) => event)).toEqual(["status", "step", "step", "end"]);
    const rest = await read(await executions.follow(CALLER, id, all[1]!.id!));
    expect(rest.map(({ event, data }) => [event, data["name"]])).toEqual([
      ["status", undefined],
      ["step", "b"],
      ["end", undefined],
    ]);
    expect(await read(await executions.follow(CALLER, id, "nonsense"))).toHaveLength(4);
  });

  test("by one who goes away leaves the run alone, and nobody follows another project's", async () => {
    const { workflow, start, until, executions, clock } = world();
    const { id } = await start(await workflow({ nodes: [wait("pause", { seconds: 60 })] }));
    await until(id, "waiting");
    expect(await read(await executions.follow(CALLER, id, null), 2)).toHaveLength(2);
    await clock.advance(61_000);
    await until(id, "success");
    const stranger = { ...CALLER, project_id: "other" };
    expect(executions.follow(stranger, id, null)).rejects.toMatchObject({ code: "forbidden" });
  });

  test("is what a start answers that asks for a stream", async () => {
    const { workflow, executions } = world();
    const target = await workflow({ nodes: [setVariables("a", { x: 1 })] });
    const ask = { input_data: {}, response_type: "stream" as const };
    const answer = await executions.startByKey(CALLER, target.id, ask, { hop: 0 });
    expect(answer.follow).toBe(String(answer.body["execution_id"]));
  });
});
