import { describe, expect, test } from "bun:test";
import type { Patient } from "../../src/cli/doctor/check.ts";
import { givenUp } from "../../src/cli/doctor/given-up.ts";
import { TestClock } from "../helpers/clock.ts";
import { memoryStorage } from "../helpers/storage.ts";
import { server } from "../nodes/setup.ts";
import { drive, dyingAt } from "./crashes.ts";
import { condition, failing, forEach, wait } from "./nodes.ts";
import { apiCall, CALLER, setVariables, world } from "./setup.ts";

describe("what would never end, or take everything, ends with words, and the next run goes on", () => {
  async function failure(made: ReturnType<typeof world>, nodes: object[], input = {}) {
    const { id } = await made.start(await made.workflow({ nodes: nodes as never }), input);
    for (let n = 0; n < 5_000 && (await made.store.get(id))?.ended_at === null; n++) await Bun.sleep(1);
    const run = await made.until(id, "failed");
    const after = await made.start(await made.workflow({ nodes: [setVariables("after", { x: 1 })] }));
    await made.until(after.id, "success");
    expect(made.storage.reader.all("SELECT * FROM jobs")).toEqual([]);
    return run.error as { code: string; message: string; node: string };
  }

  test("loops inside of loops", async () => {
    const list = Array.from({ length: 10_000 }, (_, n) => n);
    const lenient = { on_item_error: "continue" };
    const inner = forEach("inner", "{{ list }}", [setVariables("x", { n: "{{ loop.index }}" })], lenient);
    const error = await failure(world(), [forEach("outer", "{{ list }}", [inner], lenient)], { list });
    expect(error).toMatchObject({ code: expect.stringMatching(/^RUN_TOO_(LONG|LARGE)$/) });
  });

  test("a template that would write without end", async () => {
    const bomb = "{% for a in (1..100000000) %}{{ a }}{% endfor %}";
    expect(await failure(world(), [setVariables("x", { bomb })])).toMatchObject({
      code: "TEMPLATE",
      node: "x",
    });
    const twice = `{% assign s = "${"x".repeat(50_000)}" %}${"{% assign s = s | append: s %}".repeat(30)}{{ s }}`;
    expect(await failure(world(), [setVariables("x", { twice })])).toMatchObject({ code: "TEMPLATE" });
  });

  test("a loop over a call whose answers are too much together", async () => {
    using target = server(() => Response.json("y".repeat(500_000)));
    const made = world();
    const nodes = [
      forEach(
        "each",
        Array.from({ length: 30 }, (_, n) => n),
        [apiCall("call", target.url)],
        { parallelism: 10 },
      ),
    ];
    expect(await failure(made, nodes)).toMatchObject({ code: "RUN_TOO_LARGE" });
  });
});

test("a workflow that is deleted while it runs ends as it began, and cannot be tried again", async () => {
  const { workflow, workflows, start, until, clock, executions } = world();
  const target = await workflow({ nodes: [wait("pause", { seconds: 10 }), failing("a")] });
  const { id } = await start(target);
  await until(id, "waiting");
  await workflows.remove(CALLER, target.id);
  await clock.advance(11_000);
  expect((await until(id, "failed")).error).toMatchObject({ code: "TEMPLATE", node: "a" });
  expect(executions.retry(CALLER, id, undefined, { hop: 0 })).rejects.toMatchObject({ code: "conflict" });
});

test("a run that kills the program three times is given up, on record, told of, and found by the doctor", async () => {
  using target = server(() => new Promise<Response>(() => {}));
  const storage = memoryStorage();
  const first = world({ storage });
  first.subscribe("workflow.*");
  const prepared = await first.workflow({ nodes: [condition("c", true, [apiCall("call", target.url)])] });
  for (let life = 1; life <= 3; life++) {
    const doomed = world({ storage: dyingAt(storage, 10, "before").storage, clock: new TestClock() });
    const calls = target.got.length;
    if (life === 1) void doomed.start(prepared);
    else void doomed.runner.start();
    await drive(doomed, () => target.got.length > calls, 20);
  }
  const last = world({ storage });
  expect(await last.runner.start()).toMatchObject({ dead: 1 });
  const [row] = storage.reader.all<{ id: string; error: string }>("SELECT id, error FROM executions");
  const run = await last.until(row!.id, "failed");
  expect(run.error).toMatchObject({ code: "CRASH_LOOP" });
  expect(run.steps.map((step) => step.status)).toEqual(["cancelled", "cancelled"]);
  expect(last.eventRows().filter((event) => event.kind === "workflow.execution.failed")).toHaveLength(1);
  expect(storage.reader.all("SELECT * FROM jobs WHERE lane = 'runs'")).toEqual([]);
  const patient = { database: { given_up: [row!.id] } } as unknown as Patient;
  expect(await givenUp.run(patient)).toMatchObject({
    level: "warn",
    message: expect.stringContaining(row!.id),
  });
  expect(row!.error).toStartWith('{"code":"CRASH_LOOP"');
});

test("runs that wait cost no memory and no time: they are rows", async () => {
  const { workflow, start, storage, runner, clock } = world();
  const target = await workflow({ nodes: [wait("pause", { seconds: 3_600 })] });
  for (let n = 0; n < 300; n++) await start(target);
  for (let n = 0; n < 500 && runner.inFlight().runs > 0; n++) await Bun.sleep(0);
  const states = storage.reader.all("SELECT state, count(*) AS n FROM executions GROUP BY state");
  expect(states).toEqual([{ state: "waiting", n: 300 }]);
  const before = storage.writer.health().operations;
  await clock.advance(3_000_000);
  expect(storage.writer.health().operations).toBe(before);
  expect(runner.inFlight().runs).toBe(0);
});
