import fc from "fast-check";
import { CLAIM_MS } from "../../src/hooks/store.ts";
import type { Storage } from "../../src/storage/sqlite/storage.ts";
import { brokenInvariants, drive, unfinished } from "../executions/crashes.ts";
import { call, condition, failing, forEach, parallel, wait } from "../executions/nodes.ts";
import { CALLER, setVariables, world } from "../executions/setup.ts";
import { settled } from "../helpers/clock.ts";
import { memoryStorage, resettable } from "../helpers/storage.ts";
import { beginLife, WallClock } from "./life.ts";

// The state machine of executions (design 4) under whatever may happen to it, in any order:
//
//     queued ──> running ──┬──> success | failed
//                 ▲   │    └──> cancelled        (from each state before it)
//                 └── waiting                    (time, a callback, another execution)
//
// Real SQLite in memory and the real runner; the program is the only thing that dies, time is turned by hand.

const SECOND = 1_000;
const HOUR = 3_600 * SECOND;
const DAY = 24 * HOUR;

/** What may happen. Numbers that name an execution or a workflow are taken modulo how many there are. */
export type Event =
  | { do: "start"; workflow: number; key: number | null }
  | { do: "pass"; ms: number }
  | { do: "jump"; ms: number }
  | { do: "turn"; turns: number }
  | { do: "cancel" | "retry" | "replay"; execution: number }
  | { do: "call" }
  | { do: "crash"; writes: number; moment: "before" | "after" }
  | { do: "stop" };

const nth = fc.nat(20);
const event: fc.Arbitrary<Event> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("start" as const),
      workflow: nth,
      key: fc.option(fc.nat(2), { freq: 2 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("pass" as const),
      ms: fc.constantFrom(0, SECOND, 6 * SECOND, HOUR),
    }),
  },
  // Summer time, a wrong clock put right, a machine that slept.
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("jump" as const),
      ms: fc.constantFrom(HOUR, -HOUR, 25 * HOUR, -2 * DAY),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant("turn" as const), turns: fc.integer({ min: 1, max: 8 }) }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom("cancel" as const, "retry" as const, "replay" as const),
      execution: nth,
    }),
  },
  { weight: 2, arbitrary: fc.constant({ do: "call" as const }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("crash" as const),
      writes: fc.integer({ min: 1, max: 6 }),
      moment: fc.constantFrom("before" as const, "after" as const),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ do: "stop" as const }) },
);
export const histories: fc.Arbitrary<Event[]> = fc.array(event, { minLength: 3, maxLength: 14 });

/** The workflows that histories start, made once; each history begins with them and nothing else. */
async function prepare() {
  const storage = memoryStorage();
  const made = world({ storage });
  made.subscribe("workflow.*");
  const text = setVariables("say", { text: "{{ inputs.n }}" });
  const child = await made.workflow({ nodes: [wait("pause", { seconds: 2 }), setVariables("c", { n: 1 })] });
  const all = [
    await made.workflow({ nodes: [text] }),
    await made.workflow({ nodes: [text, wait("pause", { seconds: 5 }), setVariables("after", { n: 2 })] }),
    await made.workflow({ nodes: [wait("ask", { callback: {} }), setVariables("after", { n: 2 })] }),
    await made.workflow({ nodes: [wait("ask", { callback: { timeout_seconds: 4 } })] }),
    await made.workflow({ nodes: [text, failing("broken")] }),
    await made.workflow({ nodes: [call("other", child.id), setVariables("after", { n: 2 })] }),
    await made.workflow({
      nodes: [
        forEach(
          "each",
          [1, 2, 3],
          [
            condition("when", true, [wait("in", { seconds: 1 })]),
            setVariables("x", { n: "{{ loop.item }}" }),
          ],
          { parallelism: 2 },
        ),
        parallel("both", { a: [call("again", child.id)], b: [failing("no", { on_error: "continue" })] }),
      ],
    }),
  ];
  return { ...resettable(storage), workflows: all };
}

const prepared = prepare();

/** Plays a history to its end and beyond, until nothing runs any more. What did not hold, in words. */
export async function play(history: Event[]): Promise<string[]> {
  const { storage, reset, workflows } = await prepared;
  await reset();
  const clock = new WallClock();
  const broken: string[] = [];
  const accepted: string[] = [];
  /** What a key has started, and until when it stands for that. */
  const byKey = new Map<string, { id: string; expires_at: number }>();
  const cancelled = new Set<string>();
  const ends = new Map<string, string>();
  let life = await begin();

  async function begin() {
    const own = await beginLife(storage, clock);
    const made = world({ storage: own.storage, clock: own.clock as never });
    await made.runner.start();
    return { ...own, made };
  }

  const asked = async <T>(asking: Promise<T>): Promise<T | undefined> => {
    const { value, silent } = await life.asked(asking);
    if (silent) broken.push("a request was never answered");
    return value;
  };

  const context = { hop: 0 };
  const look = () => {
    const rows = storage.reader.all<{ id: string; state: string }>(
      "SELECT id, state FROM executions WHERE ended_at IS NOT NULL",
    );
    for (const { id, state } of rows) {
      const before = ends.get(id);
      if (before !== undefined && before !== state) broken.push(`an end changed from ${before} to ${state}`);
      ends.set(id, state);
    }
  };

  async function happen(one: Event): Promise<void> {
    const { executions, runner } = life.made;
    switch (one.do) {
      case "start": {
        const target = workflows[one.workflow % workflows.length]!;
        const key = one.key === null ? undefined : `${target.id} ${one.key}`;
        const expires_at = clock.now() + CLAIM_MS;
        const idempotency =
          key === undefined
            ? {}
            : {
                idempotency: {
                  scope: target.id,
                  key,
                  request_hash: "same",
                  expires_at,
                },
              };
        const answer = await asked(life.made.start(target, {}, { ...context, ...idempotency }));
        if (!answer) return;
        accepted.push(answer.id);
        if (key === undefined) return;
        const known = byKey.get(key);
        if (known && known.expires_at > clock.now()) {
          if (known.id !== answer.id) broken.push("one key started two executions");
        } else byKey.set(key, { id: answer.id, expires_at });
        return;
      }
      case "pass":
        return clock.leap(one.ms);
      case "jump":
        return clock.jump(one.ms);
      case "turn":
        return settled(one.turns);
      case "cancel": {
        const id = accepted[one.execution % accepted.length];
        if (id !== undefined && (await asked(executions.cancel(CALLER, id)))) cancelled.add(id);
        return;
      }
      case "retry":
      case "replay": {
        const id = accepted[one.execution % accepted.length];
        if (id === undefined) return;
        const again = await asked(executions[one.do](CALLER, id, undefined, context));
        if (again) accepted.push(String(again.body["execution_id"]));
        return;
      }
      case "call": {
        const waits = storage.reader.all<{ id: string; token: string }>(
          "SELECT id, token FROM waits WHERE signal IS NULL",
        );
        for (const { id, token } of waits.slice(0, 2))
          await asked(executions.callBack(id, [token.split("|")[1]!], { called: true }));
        return;
      }
      case "crash":
        return life.dieAt(one.writes, one.moment);
      case "stop":
        await asked(runner.stop(0));
        life.bury();
        return;
      default:
        return one satisfies never;
    }
  }

  for (const one of history) {
    await happen(one);
    if (life.isDead()) {
      life.bury();
      life = await begin();
    }
    look();
  }
  // Whatever was put forward or back is right again in the end, and everybody who was asked answers.
  life.bury();
  clock.jump(10 * DAY);
  life = await begin();
  const last = { ...life.made, clock };
  await drive(last as never, () => unfinished(storage) === 0, 80);
  look();
  if (unfinished(storage) > 0) broken.push(`${unfinished(storage)} executions never ended`);
  for (const id of accepted) if (!ends.has(id)) broken.push("an accepted execution is not there");
  for (const id of cancelled)
    if (ends.get(id) !== "cancelled") broken.push(`cancelled, and then ${ends.get(id)}`);
  broken.push(...brokenInvariants(last as never), ...ownInvariants(storage));
  life.bury();
  return broken;
}

function ownInvariants({ reader }: Storage): string[] {
  const broken: string[] = [];
  const early = reader.all(
    `SELECT position, wake_at, ended_at FROM steps
     WHERE node_type_name = 'wait' AND state = 'success' AND output LIKE '%"time"%' AND ended_at < wake_at`,
  );
  if (early.length > 0) broken.push(`woke early: ${JSON.stringify(early)}`);
  const jobs = reader.all("SELECT id, state FROM jobs WHERE state != 'ready' AND lane != 'deliveries'");
  if (jobs.length > 0) broken.push(`a job of nobody: ${JSON.stringify(jobs)}`);
  return broken;
}
