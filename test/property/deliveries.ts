import fc from "fast-check";
import { createEgress, type Egress } from "../../src/egress/egress.ts";
import { baseDelay } from "../../src/webhooks/retry-schedule.ts";
import { verifyDelivery } from "../../src/webhooks/signature.ts";
import { settled } from "../helpers/clock.ts";
import { memoryStorage, resettable } from "../helpers/storage.ts";
import { setup } from "../webhooks/setup.ts";
import { beginLife, type Moment, WallClock } from "./life.ts";

// The state machine of deliveries (drawn in src/webhooks/jobs.ts) under whatever may happen to a webhook over
// days: real SQLite in memory and the real runner. What is sent goes to a receiver in the same process; over
// real HTTP test/webhooks/machine.test.ts does the same.

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const MOST_TURNS = 2_000;

export type Step =
  | { do: "emit"; count: number }
  | { do: "pass"; ms: number }
  | { do: "jump"; ms: number }
  | { do: "turn"; turns: number }
  | { do: "answer"; status: number }
  | { do: "pause" | "resume" | "rotate" | "stop" }
  | { do: "order"; ordered: boolean }
  | { do: "batch"; max_events: number | null }
  | { do: "crash"; writes: number; moment: Moment };

export type Life = { steps: Step[]; max_retries: number; turns_to_answer: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant("emit" as const), count: fc.integer({ min: 1, max: 4 }) }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("pass" as const),
      ms: fc.constantFrom(0, 1_000, MINUTE, 6 * MINUTE, HOUR, 7 * HOUR, 25 * HOUR),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("jump" as const),
      ms: fc.constantFrom(HOUR, -HOUR, 25 * HOUR, -2 * DAY),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant("turn" as const), turns: fc.integer({ min: 1, max: 8 }) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("answer" as const),
      status: fc.constantFrom(200, 200, 204, 400, 410, 429, 500),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constantFrom("pause", "resume", "rotate", "stop") }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("order" as const), ordered: fc.boolean() }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("batch" as const), max_events: fc.constantFrom(null, 1, 3) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("crash" as const),
      writes: fc.integer({ min: 1, max: 6 }),
      moment: fc.constantFrom("before" as const, "after" as const),
    }),
  },
);
export const lives: fc.Arbitrary<Life> = fc.record({
  steps: fc.array(step, { minLength: 3, maxLength: 16 }),
  max_retries: fc.integer({ min: 0, max: 6 }),
  turns_to_answer: fc.integer({ min: 0, max: 3 }),
});

type Arrival = {
  at: number;
  webhook_id: string;
  attempt: number;
  status: number;
  numbers: number[];
  /** How often the clock had been put back by then: what lies on both sides of that is not compared. */
  put_back: number;
};
type Envelope = { event: string; data: { n: number; events?: { data: { n: number } }[] } };

const caller = { key_id: "key", workspace_id: "w", project_id: "p" };
const prepared = resettable(memoryStorage());
const checks = createEgress({ allow: ["loopback"] });

/** Plays a life to its end and beyond, until everything has been sent or given up. What did not hold, in words. */
export async function playLife({ steps, max_retries, turns_to_answer }: Life): Promise<string[]> {
  const { storage, reset } = prepared;
  await reset();
  const clock = new WallClock();
  const broken: string[] = [];
  const arrivals: Arrival[] = [];
  const bodies = new Map<string, string>();
  const secrets: string[] = [];
  // Whoever rotated it died before the answer.
  let isSecretUnknown = true;
  let putBack = 0;
  let status = 200;
  let emitted = 0;
  let crashes = 0;

  const request: Egress["request"] = async ({ url, headers: given = {}, body: sent = "" }) => {
    const body = String(sent);
    const headers = Object.fromEntries(
      Object.entries(given).map(([name, value]) => [name.toLowerCase(), value]),
    );
    const webhook_id = headers["webhook-id"]!;
    if (!secrets.some((secret) => verifyDelivery(secret, headers, body, clock.now())))
      broken.push("a signature that nobody can verify");
    // The same bytes on every attempt.
    if ((bodies.get(webhook_id) ?? body) !== body) broken.push("other bytes under the same id");
    bodies.set(webhook_id, body);
    const { event, data } = JSON.parse(body) as Envelope;
    const numbers = event === "batch" ? data.events!.map((each) => each.data.n) : [data.n];
    const attempt = Number(headers["x-service-attempt"]);
    arrivals.push({ at: clock.now(), webhook_id, attempt, status, numbers, put_back: putBack });
    const answer = {
      url,
      status,
      headers: (status === 429 ? { "retry-after": "600" } : {}) as Record<string, string>,
      body: new Uint8Array(),
      truncated: false,
      durationMs: 1,
    };
    await settled(turns_to_answer);
    return answer;
  };

  async function begin() {
    const own = await beginLife(storage, clock);
    const made = await setup({
      storage: own.storage,
      clock: own.clock as never,
      caller,
      egress: { ...checks, request },
    });
    return { ...own, made };
  }
  let life = await begin();
  const asked = async <T>(asking: Promise<T>): Promise<T | undefined> => {
    const { value, silent } = await life.asked(asking);
    if (silent) broken.push("a request was never answered");
    return value;
  };
  const first = await life.made.subscribe({ url: "http://127.0.0.1:9/hook", retry_policy: { max_retries } });
  const { id } = first;

  /** Whatever was stored signs from now on; one that was replaced in the middle of an attempt has signed it. */
  async function learnSecret(): Promise<void> {
    const found = await asked(life.made.webhooks.secret(caller, id));
    if (!found) return;
    secrets.splice(0, secrets.length, ...new Set([found.secret, ...secrets.slice(0, 1)]));
    isSecretUnknown = false;
  }
  await learnSecret();

  async function idle(): Promise<void> {
    for (let turn = 0; turn < MOST_TURNS && !life.isDead(); turn++) {
      await settled(4);
      const { deliveries, timers } = life.made.runner.inFlight();
      if (deliveries + timers === 0) return settled();
    }
    if (!life.isDead()) broken.push("it never came to rest");
  }

  async function act(each: Step): Promise<void> {
    const { webhooks } = life.made;
    switch (each.do) {
      case "emit":
        for (let n = 0; n < each.count && !life.isDead(); n++)
          await life.made.emit({ data: { n: ++emitted } } as never);
        return;
      case "pass":
        await clock.leap(each.ms);
        return idle();
      case "jump":
        if (each.ms < 0) putBack++;
        return clock.jump(each.ms);
      case "turn":
        return settled(each.turns);
      case "answer":
        status = each.status;
        return;
      case "pause":
        return void (await asked(webhooks.pause(caller, id)));
      case "resume":
        return void (await asked(webhooks.resume(caller, id)));
      case "rotate":
        isSecretUnknown = true;
        await asked(webhooks.rotateSecret(caller, id));
        return life.isDead() ? undefined : learnSecret();
      case "order":
        return void (await asked(webhooks.update(caller, id, { ordered: each.ordered })));
      case "batch": {
        const { max_events } = each;
        const batch_settings = max_events === null ? null : { max_events, max_wait_seconds: 60 };
        return void (await asked(webhooks.update(caller, id, { batch_settings })));
      }
      case "crash":
        return life.dieAt(each.writes, each.moment);
      case "stop":
        await asked(life.made.runner.stop(0));
        return life.bury();
      default:
        return each satisfies never;
    }
  }
  async function next(): Promise<void> {
    crashes++;
    life.bury();
    broken.push(...life.made.problems.map((problem) => JSON.stringify(problem)));
    life = await begin();
    if (isSecretUnknown) await learnSecret();
  }

  for (const each of steps) {
    await act(each);
    if (life.isDead()) await next();
  }
  // Then all goes well, for long enough that nothing can be left.
  status = 200;
  clock.jump(10 * DAY);
  await next();
  await act({ do: "resume" });
  // With nothing left to do there is nothing that could be done too often.
  for (let n = 0; n < emitted * 2 + 6 && (n === 0 || isUnfinished()); n++)
    await act({ do: "pass", ms: n < 4 ? 25 * HOUR : 2 * MINUTE });
  life.bury();

  function isUnfinished(): boolean {
    return (
      storage.reader.get("SELECT 1 FROM jobs WHERE lane IN ('deliveries', 'timers') LIMIT 1") !== undefined
    );
  }

  broken.push(...life.made.problems.map((problem) => JSON.stringify(problem)));
  const rows = storage.reader.all<Delivered>("SELECT event_id, state, attempts FROM deliveries ORDER BY id");
  const jobs = storage.reader.all("SELECT kind, state, ref FROM jobs WHERE lane = 'deliveries'");
  if (jobs.length > 0) broken.push(`jobs are left: ${JSON.stringify(jobs.slice(0, 3))}`);
  return [...broken, ...brokenPromises({ arrivals, rows, emitted, max_retries, crashes })];
}

type Delivered = { event_id: string; state: string; attempts: number };

/** What a receiver is promised of all that was to be sent to it. */
function brokenPromises(seen: {
  arrivals: Arrival[];
  rows: Delivered[];
  emitted: number;
  max_retries: number;
  crashes: number;
}): string[] {
  const { arrivals, rows, emitted, max_retries, crashes } = seen;
  const broken: string[] = [];
  const well = new Set(arrivals.filter(({ status }) => status < 300).flatMap(({ numbers }) => numbers));
  const failed = new Set(rows.filter(({ state }) => state === "failed").map(({ event_id }) => event_id));
  const givenUp = new Set(
    arrivals.filter(({ webhook_id }) => failed.has(webhook_id)).flatMap(({ numbers }) => numbers),
  );
  for (let n = 1; n <= emitted; n++)
    if (!well.has(n) && !givenUp.has(n)) broken.push(`event ${n} never arrived`);

  for (const { event_id, attempts, state } of rows) {
    if (!["success", "failed", "batched"].includes(state)) broken.push(`a delivery ended as ${state}`);
    if (state === "batched") continue;
    const sent = arrivals.filter(({ webhook_id }) => webhook_id === event_id);
    // What dies between sending and recording sends again, under the same number.
    const tried = sent.filter(({ attempt }, n) => attempt !== sent[n + 1]?.attempt);
    if (sent.length - tried.length > crashes)
      broken.push(`sent ${sent.length} times with ${crashes} crashes`);
    if (attempts > 1 + max_retries) broken.push(`${attempts} attempts of ${1 + max_retries}`);
    if (tried.length !== attempts || tried.some(({ attempt }, n) => attempt !== n + 1))
      broken.push(`attempts ${tried.map(({ attempt }) => attempt).join()} of ${attempts}`);
    for (const [n, { at, status, put_back }] of tried.slice(0, -1).entries()) {
      const after = sent.find(({ attempt }) => attempt === tried[n]!.attempt + 1)!;
      const wait = Math.max(baseDelay(n + 1, { max_retries }), status === 429 ? 600_000 : 0);
      if (after.put_back === put_back && after.at - at < wait)
        broken.push(`attempt ${n + 2} came ${after.at - at} ms after the one before`);
    }
    const end = tried.at(-1)?.status;
    if (end === undefined || end < 300 !== (state === "success")) broken.push(`${state} after ${end}`);
  }
  for (const { numbers } of arrivals) if (numbers.length > 3) broken.push("a batch of more than 3");
  return broken;
}
