import { expect, test } from "bun:test";
import fc from "fast-check";
import { TestClock } from "../helpers/clock.ts";
import { copyOf, memoryStorage } from "../helpers/storage.ts";
import { server } from "../nodes/setup.ts";
import { brokenInvariants, drive, dyingAt, nextLife, resultOf, unfinished } from "./crashes.ts";
import { call, condition, failing, forEach, parallel, wait } from "./nodes.ts";
import { apiCall, setVariables, world } from "./setup.ts";

// More of them: ERRAND_CRASH_RUNS=2000 bun test test/executions/random-crash.test.ts
const RUNS = Number(process.env["ERRAND_CRASH_RUNS"] ?? 15);

type Plan =
  | { kind: "set" | "call" | "failing" | "child" }
  | { kind: "wait"; seconds: number | "callback" }
  | { kind: "condition"; holds: boolean; then: Plan[]; else: Plan[] }
  | { kind: "each"; items: number; parallelism: number; nodes: Plan[] }
  | { kind: "parallel"; branches: Plan[][] };

const { plans } = fc.letrec<{ plans: Plan[]; plan: Plan }>((tie) => ({
  plans: fc.array(tie("plan"), { minLength: 1, maxLength: 3 }),
  plan: fc.oneof(
    { maxDepth: 4, depthSize: "small", withCrossShrink: true },
    fc.record({ kind: fc.constantFrom("set", "call", "failing", "child") }) as fc.Arbitrary<Plan>,
    fc.record({
      kind: fc.constant("wait" as const),
      seconds: fc.oneof(fc.nat(5), fc.constant("callback" as const)),
    }),
    fc.record({
      kind: fc.constant("condition" as const),
      holds: fc.boolean(),
      // biome-ignore lint/suspicious/noThenProperty: a list, which nothing takes for a promise
      then: tie("plans"),
      else: tie("plans"),
    }),
    fc.record({
      kind: fc.constant("each" as const),
      items: fc.nat(3),
      parallelism: fc.integer({ min: 1, max: 3 }),
      nodes: tie("plans"),
    }),
    fc.record({
      kind: fc.constant("parallel" as const),
      branches: fc.array(tie("plans"), { minLength: 1, maxLength: 3 }),
    }),
  ) as fc.Arbitrary<Plan>,
}));

type Node = ReturnType<typeof forEach>;

/** Nodes with names of their own, each of which also counts up a variable that its place can see. */
function nodesOf(list: Plan[], url: string, child_id: string, next = { name: 0 }): Node[] {
  const inner = (plans: Plan[]) => nodesOf(plans, url, child_id, next);
  return list.flatMap((plan): Node[] => {
    const name = `n${next.name++}`;
    const counted = setVariables(`v${next.name}`, { count: "{{ vars.count | default: 0 | plus: 1 }}" });
    switch (plan.kind) {
      case "set":
        return [counted];
      case "call":
        return [apiCall(name, url), counted];
      case "failing":
        return [failing(name, { on_error: "continue" })];
      case "child":
        return [call(name, child_id, { n: 3 })];
      case "wait":
        return [wait(name, plan.seconds === "callback" ? { callback: {} } : { seconds: plan.seconds })];
      case "condition":
        return [condition(name, plan.holds, inner(plan.then), { else: inner(plan.else) }), counted];
      case "each": {
        const items = Array.from({ length: plan.items }, (_, item) => item);
        return [forEach(name, items, inner(plan.nodes), { parallelism: plan.parallelism })];
      }
      case "parallel":
        return [
          parallel(name, Object.fromEntries(plan.branches.map((each, index) => [`b${index}`, inner(each)]))),
        ];
      default:
        return plan satisfies never;
    }
  });
}

test("whatever the workflow and wherever the program dies, what comes of it is the same", async () => {
  using target = server(() => Response.json({ ok: true }));
  await fc.assert(
    fc.asyncProperty(
      plans,
      fc.array(fc.tuple(fc.integer({ min: 1, max: 40 }), fc.constantFrom("before", "after")), {
        minLength: 1,
        maxLength: 2,
      }),
      async (list, crashes) => {
        const template = memoryStorage();
        const made = world({ storage: template });
        made.subscribe("workflow.*");
        const child = await made.workflow({
          nodes: [wait("pause", { seconds: 1 }), setVariables("c", { n: "{{ n }}" })],
        });
        const prepared = await made.workflow({ nodes: nodesOf(list, target.url, child.id) });

        const plain = copyOf(template);
        const steady = world({ storage: plain });
        await steady.start(prepared);
        await drive(steady, () => unfinished(plain) === 0);
        expect([unfinished(plain), brokenInvariants(steady)]).toEqual([0, []]);

        const storage = copyOf(template);
        const clock = new TestClock();
        let acknowledged = false;
        for (const [index, [n, moment]] of crashes.entries()) {
          const dying = dyingAt(storage, n, moment as "before" | "after");
          const doomed = world({ storage: dying.storage, clock: new TestClock(clock.now()) });
          if (index === 0) void doomed.start(prepared).then(() => (acknowledged = true));
          else void doomed.runner.start();
          const isOver = () => unfinished(storage) === 0 && (acknowledged || index > 0);
          await drive(doomed, () => dying.isDead() || isOver(), 30);
          await clock.advance(Math.max(0, doomed.clock.now() - clock.now()));
        }
        const last = await nextLife(storage, clock);
        await drive(last, () => unfinished(storage) === 0);
        const roots = storage.reader.all("SELECT id FROM executions WHERE depth = 0");
        if (acknowledged) expect(roots).toHaveLength(1);
        if (roots.length === 0) return;
        expect([unfinished(storage), brokenInvariants(last)]).toEqual([0, []]);
        const [result, ...children] = await resultOf(storage, clock);
        const [expected, ...others] = await resultOf(plain, steady.clock);
        expect(result).toEqual(expected);
        expect(children).toHaveLength(others.length);
      },
    ),
    { numRuns: RUNS },
  );
}, 600_000);
