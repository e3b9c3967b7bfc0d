import { expect, test } from "bun:test";
import type { Storage } from "../../src/storage/sqlite/storage.ts";
import { TestClock } from "../helpers/clock.ts";
import { copyOf, memoryStorage } from "../helpers/storage.ts";
import { server } from "../nodes/setup.ts";
import { brokenInvariants, drive, dyingAt, nextLife, resultOf, unfinished } from "./crashes.ts";
import { aNode, call, condition, failing, forEach, parallel, stop, wait } from "./nodes.ts";
import { apiCall, setVariables, world } from "./setup.ts";

const childNodes = (url: string) => [
  wait("c_pause", { seconds: 3 }),
  apiCall("c_call", url),
  setVariables("c_last", { doubled: "{{ n | times: 2 }}" }),
];

/** Every flow node there is, inside of each other. */
const nodesOf = (url: string, child_id: string) => [
  setVariables("first", { n: "{{ n }}" }),
  parallel("all", {
    loop: [
      forEach(
        "each",
        [1, 2, 3],
        [
          apiCall("call", url),
          condition("odd", "{{ loop.item == 2 }}", [wait("pause", { seconds: 2 })], {
            else: [setVariables("kept", { item: "{{ loop.item }}", status: "{{ call.status }}" })],
          }),
        ],
        { parallelism: 2 },
      ),
    ],
    other: [call("sub", child_id, { n: "{{ first.n }}" })],
    person: [wait("approval", { callback: { nodes: [apiCall("ask", url)] } })],
  }),
  failing("risky", { on_error: "route", error_nodes: [apiCall("rescue", url)] }),
  aNode("respond_to_webhook", "answer", { status: 201, body: { n: "{{ first.n }}" } }),
  condition("enough", { "all.other.workflow_output.doubled": { eq: 14 } }, [
    setVariables("sum", {
      doubled: "{{ all.other.workflow_output.doubled }}",
      by: "{{ all.person.resumed_by }}",
      items: "{{ all.loop.count }}",
      rescued: "{{ risky.status }}",
    }),
    stop("done", { output: "{{ vars }}" }),
  ]),
  setVariables("never", { x: 1 }),
];

async function prepare(storage: Storage, url: string) {
  const made = world({ storage });
  const child = await made.workflow({ nodes: childNodes(url) });
  const target = await made.workflow({ nodes: nodesOf(url, child.id) });
  made.subscribe("workflow.*");
  return { target, clock: made.clock };
}

const CALLS = 3 + 1 + 1 + 1;

async function undisturbed() {
  using target = server(() => Response.json({ ok: true }));
  const storage = memoryStorage();
  const prepared = await prepare(storage, target.url);
  const counted = dyingAt(storage, Number.POSITIVE_INFINITY, "before");
  const made = world({ storage: counted.storage, clock: prepared.clock });
  await made.start(prepared.target, { n: 7 });
  await drive(made, () => unfinished(storage) === 0);
  expect(brokenInvariants(made)).toEqual([]);
  expect(target.got).toHaveLength(CALLS);
  return { writes: counted.writes(), result: await resultOf(storage, made.clock) };
}

test("an undisturbed run of every flow node ends as it should", async () => {
  const { result, writes } = await undisturbed();
  expect(result).toMatchObject([
    {
      status: "success",
      output_data: { n: 7, doubled: 14, by: "callback", items: 3, rescued: 200 },
      response: { status: 201, body: { n: 7 } },
    },
    { status: "success", output_data: { doubled: 14 } },
  ]);
  expect(writes).toBeGreaterThan(30);
});

for (const moment of ["before", "after"] as const) {
  test(`a crash ${moment} any write of a run of every flow node changes nothing of what comes of it`, async () => {
    const plain = await undisturbed();
    using target = server(() => Response.json({ ok: true }));
    const template = memoryStorage();
    const prepared = await prepare(template, target.url);
    for (let n = 1; n <= plain.writes + 2; n++) {
      const where = `crash ${moment} write ${n}`;
      const storage = copyOf(template);
      const clock = new TestClock();
      const before = target.got.length;
      const dying = dyingAt(storage, n, moment);
      const doomed = world({ storage: dying.storage, clock });
      let acknowledged: string | undefined;
      void doomed.start(prepared.target, { n: 7 }).then(({ id }) => {
        acknowledged = id;
      });
      const hasEnded = () => acknowledged !== undefined && unfinished(storage) === 0;
      await drive(doomed, () => dying.isDead() || hasEnded(), 40);

      const next = await nextLife(storage, clock);
      await drive(next, () => unfinished(storage) === 0);
      const ids = storage.reader.all<{ id: string }>("SELECT id FROM executions WHERE depth = 0");
      expect([where, acknowledged === undefined || ids.length === 1]).toEqual([where, true]);
      if (ids.length === 0) continue;
      expect([where, unfinished(storage), brokenInvariants(next)]).toEqual([where, 0, []]);
      expect([where, await resultOf(storage, clock)]).toEqual([where, plain.result]);
      // A call may have been made again, but only as the same call, and only those that were under way.
      const keys = target.got.slice(before).map((call) => call.headers["idempotency-key"]);
      expect([where, new Set(keys).size]).toEqual([where, CALLS]);
      expect(keys.length).toBeLessThanOrEqual(CALLS + 4);
    }
  }, 120_000);
}

test("a crash while a branch hangs repeats what had no effect beside it, and no call that had ended", async () => {
  const hanging: (() => void)[] = [];
  using target = server(({ url }) =>
    url.endsWith("/slow") && hanging.length === 0
      ? new Promise<Response>((resolve) => hanging.push(() => resolve(Response.json({}))))
      : Response.json({ ok: true }),
  );
  const storage = memoryStorage();
  const made = world({ storage });
  made.subscribe("workflow.*");
  const prepared = await made.workflow({
    nodes: [
      parallel("both", {
        fast: [
          setVariables("before", { n: 1 }),
          apiCall("called", `${target.url}/fast`),
          setVariables("after", { status: "{{ called.status }}" }),
        ],
        slow: [apiCall("hangs", `${target.url}/slow`)],
      }),
    ],
  });
  const { id } = await made.start(prepared);
  await drive(made, () => target.got.length === 2, 5);
  await drive(made, () => false, 2);
  const stored = storage.reader.all<{ name: string }>("SELECT name FROM steps ORDER BY name");
  expect(stored.map(({ name }) => name)).toEqual(["before", "both", "called", "hangs"]);

  const next = await nextLife(storage, made.clock);
  const { steps } = await next.until(id, "success");
  expect(steps.map(({ name, status }) => `${name} ${status}`).sort()).toEqual(
    ["after", "before", "both", "called", "hangs"].map((name) => `${name} success`),
  );
  expect(brokenInvariants(next)).toEqual([]);
  expect(target.got.map((call) => [call.url.pathname, call.headers["idempotency-key"]]).sort()).toEqual([
    ["/fast", `${id}/0.fast.1`],
    ["/slow", `${id}/0.slow.0`],
    ["/slow", `${id}/0.slow.0`],
  ]);
  for (const release of hanging) release();
});
