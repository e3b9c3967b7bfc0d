import { expect, test } from "bun:test";
import fc from "fast-check";
import { baseDelay } from "../../src/webhooks/retry-schedule.ts";
import { verifyDelivery } from "../../src/webhooks/signature.ts";
import { type Got, receiver, setup } from "./setup.ts";

// The state machine of deliveries under whatever may happen to a webhook over days of virtual time: real
// SQLite, the real runner and real HTTP; only the time is turned by hand.

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

type Step =
  | { do: "emit"; count: number }
  | { do: "pass"; ms: number }
  | { do: "answer"; status: number }
  | { do: "pause" | "resume" | "rotate" | "restart" }
  | { do: "order"; ordered: boolean }
  | { do: "batch"; max_events: number | null };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant("emit" as const), count: fc.integer({ min: 1, max: 4 }) }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("pass" as const),
      ms: fc.constantFrom(0, 1_000, MINUTE, 6 * MINUTE, HOUR, 7 * HOUR, 25 * HOUR),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("answer" as const),
      status: fc.constantFrom(200, 200, 204, 400, 410, 429, 500),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom("pause", "resume", "rotate", "restart") }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("order" as const), ordered: fc.boolean() }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("batch" as const), max_events: fc.constantFrom(null, 1, 3) }),
  },
);

type Arrival = { at: number; webhook_id: string; attempt: number; status: number; numbers: number[] };
type Envelope = { event: string; data: { n: number; events?: { data: { n: number } }[] } };

const numbersOf = ({ body }: Got): number[] => {
  const { event, data } = JSON.parse(body) as Envelope;
  return event === "batch" ? data.events!.map((each) => each.data.n) : [data.n];
};

async function play(steps: Step[], max_retries: number) {
  let world = await setup();
  let status = 200;
  let secret = "";
  const arrivals: Arrival[] = [];
  const bodies = new Map<string, string>();
  const to = receiver((got) => {
    const { headers, body } = got;
    const webhook_id = headers["webhook-id"]!;
    // Signed by the secret of the moment, and the same bytes on every attempt.
    const at = world.clock.now();
    expect(verifyDelivery(secret, headers, body, at)).toBe(true);
    expect(bodies.get(webhook_id) ?? body).toBe(body);
    bodies.set(webhook_id, body);
    arrivals.push({
      at,
      webhook_id,
      attempt: Number(headers["x-service-attempt"]),
      status,
      numbers: numbersOf(got),
    });
    return new Response(null, { status, headers: status === 429 ? { "retry-after": "600" } : {} });
  });
  const made = await world.subscribe({ url: to.url, retry_policy: { max_retries } });
  const { id } = made;
  secret = made.secret;
  let emitted = 0;
  const worlds = [world];

  async function act(each: Step): Promise<void> {
    const { webhooks, caller, clock } = world;
    switch (each.do) {
      case "emit":
        for (let n = 0; n < each.count; n++) await world.emit({ data: { n: ++emitted } } as never);
        return world.idle();
      case "pass":
        await clock.advance(each.ms);
        return world.idle();
      case "answer":
        status = each.status;
        return;
      case "pause":
        return void (await webhooks.pause(caller, id));
      case "resume":
        await webhooks.resume(caller, id);
        return world.idle();
      case "rotate":
        secret = (await webhooks.rotateSecret(caller, id)).secret;
        return;
      case "order":
        await webhooks.update(caller, id, { ordered: each.ordered });
        return world.idle();
      case "batch": {
        const { max_events } = each;
        const batch_settings = max_events === null ? null : { max_events, max_wait_seconds: 60 };
        return void (await webhooks.update(caller, id, { batch_settings }));
      }
      case "restart": {
        await world.runner.stop(0);
        const next = await setup({ storage: world.storage, caller, clock });
        worlds.push(next);
        world = next;
        return world.idle();
      }
    }
  }
  try {
    for (const each of steps) await act(each);
    // Then all goes well for long enough that nothing can be left.
    await act({ do: "answer", status: 200 });
    await act({ do: "resume" });
    for (let n = 0; n < emitted * 2 + 6; n++) await act({ do: "pass", ms: n < 4 ? 25 * HOUR : 2 * MINUTE });
    const rows = world.storage.reader.all<{ id: string; event_id: string; state: string; attempts: number }>(
      "SELECT id, event_id, state, attempts FROM deliveries ORDER BY id",
    );
    const jobs = world.storage.reader.all("SELECT kind, ref, run_at FROM jobs WHERE lane = 'deliveries'");
    return { arrivals, emitted, rows, jobs, problems: worlds.flatMap((each) => each.problems) };
  } finally {
    to.close();
    for (const each of worlds) each.close();
  }
}

test("nothing is lost, early, tried too often or left over, whatever happens in whatever order", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 1, maxLength: 22 }),
      fc.integer({ min: 0, max: 6 }),
      async (steps, max_retries) => {
        const { arrivals, emitted, rows, jobs, problems } = await play(steps, max_retries);
        expect(problems).toEqual([]);
        expect(jobs).toEqual([]);
        const ends = new Set(rows.map(({ state }) => state));
        for (const state of ends) expect(["success", "failed", "batched"]).toContain(state);

        // Every event arrived well, or with something that was given up after all its attempts or by a 410.
        const well = new Set(arrivals.filter(({ status }) => status < 300).flatMap(({ numbers }) => numbers));
        const failed = new Set(
          rows.filter(({ state }) => state === "failed").map(({ event_id }) => event_id),
        );
        const givenUp = new Set(
          arrivals.filter(({ webhook_id }) => failed.has(webhook_id)).flatMap(({ numbers }) => numbers),
        );
        for (let n = 1; n <= emitted; n++) expect(well.has(n) || givenUp.has(n)).toBe(true);

        for (const { event_id, attempts, state } of rows) {
          if (state === "batched") continue;
          const tried = arrivals.filter(({ webhook_id }) => webhook_id === event_id);
          expect(attempts).toBeLessThanOrEqual(1 + max_retries);
          // A stop in mid-attempt sends again under the same number: here none is in mid-attempt.
          expect(tried.map(({ attempt }) => attempt)).toEqual(tried.map((_, n) => n + 1));
          expect(tried).toHaveLength(attempts);
          for (const [n, { at, status }] of tried.slice(0, -1).entries()) {
            const wait = Math.max(baseDelay(n + 1, { max_retries }), status === 429 ? 600_000 : 0);
            expect(tried[n + 1]!.at - at).toBeGreaterThanOrEqual(wait);
          }
          expect(tried.at(-1)!.status < 300).toBe(state === "success");
        }
        for (const { numbers } of arrivals) expect(numbers.length).toBeLessThanOrEqual(3);
      },
    ),
    { numRuns: 25 },
  );
}, 60_000);

test("an order is kept, and a batch in its bounds, over failures, pauses and restarts", async () => {
  const calm = step.filter((each) => each.do !== "order" && each.do !== "batch");
  await fc.assert(
    fc.asyncProperty(
      fc.array(calm, { maxLength: 15 }),
      fc.constantFrom(null, 3),
      async (steps, max_events) => {
        const first: Step[] = [
          { do: "order", ordered: true },
          { do: "batch", max_events },
        ];
        const { arrivals, jobs } = await play([...first, ...steps], 6);
        expect(jobs).toEqual([]);
        const seen = arrivals.flatMap(({ numbers, attempt }) => (attempt === 1 ? numbers : []));
        expect(seen).toEqual([...seen].sort((a, b) => a - b));
        // One at a time: between two attempts of one delivery nothing else came.
        const ids = arrivals.map(({ webhook_id }) => webhook_id);
        expect(ids.filter((id, n) => id !== ids[n - 1])).toHaveLength(new Set(ids).size);
      },
    ),
    { numRuns: 15 },
  );
}, 60_000);
