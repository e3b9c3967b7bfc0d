import { createAlerts } from "../../src/alerts/service.ts";
import { createEgress, type Egress } from "../../src/egress/egress.ts";
import { DELIVERY_JOB } from "../../src/events/kinds.ts";
import { createEvents, type NewEvent, type PlannedEvents } from "../../src/events/service.ts";
import type { DeliveryRow } from "../../src/events/store.ts";
import type { NewJob } from "../../src/jobs/placement.ts";
import { createRunner } from "../../src/jobs/runner.ts";
import type { Caller } from "../../src/keys/schema.ts";
import { newId } from "../../src/lib/ids.ts";
import { createLog } from "../../src/lib/log.ts";
import { openVault } from "../../src/lib/vault.ts";
import { createMail } from "../../src/mail/mail.ts";
import { sqliteAlerts } from "../../src/storage/sqlite/alerts.ts";
import { sqliteDeliveries } from "../../src/storage/sqlite/deliveries.ts";
import { insertOutbox, sqliteEvents } from "../../src/storage/sqlite/events.ts";
import { sqliteJobs } from "../../src/storage/sqlite/jobs.ts";
import { sqliteSubscriptions } from "../../src/storage/sqlite/subscriptions.ts";
import { createDeliveries } from "../../src/webhooks/deliveries.ts";
import { createDryRun } from "../../src/webhooks/dry-run.ts";
import { deliveryAttempt } from "../../src/webhooks/jobs.ts";
import { releaseDeliveries } from "../../src/webhooks/release.ts";
import { createReplays } from "../../src/webhooks/replay.ts";
import type { CreateWebhook } from "../../src/webhooks/schema.ts";
import { createWebhooks } from "../../src/webhooks/service.ts";
import { createTestSend } from "../../src/webhooks/test-send.ts";
import { settled, TestClock } from "../helpers/clock.ts";
import { memoryStorage } from "../helpers/storage.ts";

export type Got = { at: number; headers: Record<string, string>; body: string };
type Answer = (got: Got, number: number) => Response | Promise<Response>;

/** A receiver on loopback; `got` is what reached it, in order. */
export function receiver(answer: Answer = () => new Response("thanks")) {
  const got: Got[] = [];
  const waiting: (() => void)[] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      const each = { at: Date.now(), headers: request.headers.toJSON(), body: await request.text() };
      got.push(each);
      for (const wake of waiting.splice(0)) wake();
      return answer(each, got.length);
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}/hook`,
    got,
    /** Resolves once `count` requests have arrived. */
    async arrived(count: number): Promise<void> {
      while (got.length < count) await new Promise<void>((resolve) => waiting.push(resolve));
    },
    close: () => void server.stop(true),
  };
}

const SWEEP_MS = 2_000;

/** Passes hours in one step: the runner looks for due work every 2 s, and only the last look matters here. */
class LeapingClock extends TestClock {
  #leapt = 0;

  override now(): number {
    return super.now() + this.#leapt;
  }

  override async advance(ms: number): Promise<void> {
    const leap = Math.max(0, ms - SWEEP_MS);
    this.#leapt += leap;
    await super.advance(ms - leap);
  }
}

const vault = openVault({ secret_key: Buffer.alloc(32, 7).toString("base64"), data: "." });

/** The whole way of an event to a receiver, over real SQLite, the real runner and real HTTP. */
export async function setup(
  options: {
    storage?: ReturnType<typeof memoryStorage>;
    allow?: string[];
    /** In place of one that sends over real HTTP. */
    egress?: Egress;
    smtp_url?: string;
    owner?: string;
    /** Of an earlier life, for a restart. */
    clock?: LeapingClock;
    caller?: Caller;
  } = {},
) {
  const storage = options.storage ?? memoryStorage();
  const clock = options.clock ?? new LeapingClock();
  const caller: Caller = options.caller ?? { key_id: newId(), workspace_id: newId(), project_id: newId() };
  const egress = options.egress ?? createEgress({ allow: options.allow ?? ["loopback"] });
  const problems: unknown[] = [];
  const runner = createRunner({
    store: sqliteJobs(storage),
    clock,
    report: (message, fields) => problems.push([message, fields]),
  });
  const store = sqliteDeliveries(storage);
  const sender = { egress, vault, clock, version: "1.2.3" };
  const webhooks = createWebhooks({ store: sqliteSubscriptions(storage), egress, vault, clock, runner });
  const { inScope } = webhooks;
  const deliveries = createDeliveries({ store, inScope, clock });
  const replays = createReplays({ store, inScope, runner, clock });
  const dryRun = createDryRun({ inScope, clock });
  const testSend = createTestSend({ ...sender, inScope });
  const events = createEvents({ store: sqliteEvents(storage), runner });
  const place = (job: NewJob) => runner.place(DELIVERY_JOB, job);
  const look = () => runner.look(DELIVERY_JOB);
  const logged: string[] = [];
  const mail = createMail({
    smtp_url: options.smtp_url,
    mail_from: undefined,
    domain: "errand.example",
    egress,
    ownerOf: async () => options.owner,
  });
  const alerts = createAlerts({
    store: sqliteAlerts(storage),
    inScope,
    mail,
    runner,
    clock,
    log: createLog({ level: "debug", format: "json", clock, write: (text) => logged.push(text) }),
  });
  await alerts.load();
  const job = deliveryAttempt({ ...sender, store, alerts, place, look, random: () => 0 });
  runner.register(job);
  runner.register(releaseDeliveries({ store, runner }));
  const recovery = await runner.start();

  const subscribe = (more: Partial<CreateWebhook> & { url: string }, by = caller) =>
    webhooks.create(by, { events: ["*"], ...more });

  const anEvent = ({
    data = { status: "success", score: 3 },
    ...more
  }: Partial<Omit<NewEvent, "data">> & { data?: object } = {}): NewEvent => ({
    kind: "workflow.execution.completed",
    subject_id: "x1",
    data: () => data,
    at: clock.now(),
    ...more,
  });

  /** Plans, stores and starts, as the features that emit events do. */
  async function emit(more: Parameters<typeof anEvent>[0] = {}, hop = 0) {
    const planned = await events.plan(caller, [anEvent(more)], hop);
    insertOutbox(storage.reader, planned.outbox);
    storage.reader.tellAll(); // as the end of a batch does
    runner.committed(planned.placements);
    return deliveriesOf(planned);
  }

  /** Waits, in real time, until nothing is under way. */
  async function idle() {
    do await settled();
    while (runner.inFlight().deliveries + runner.inFlight().timers > 0);
    await settled();
  }

  const close = () => egress.close();
  return {
    ...{
      storage,
      clock,
      caller,
      runner,
      store,
      webhooks,
      deliveries,
      replays,
      testSend,
      dryRun,
      alerts,
      logged,
      events,
      job,
      vault,
      problems,
      recovery,
    },
    ...{ subscribe, anEvent, emit, idle, close },
  };
}

/** Of the first event: what is sent, what is refused and what waits. */
export function deliveriesOf({ outbox, placements }: PlannedEvents): DeliveryRow[] {
  const [first] = outbox;
  const sent = placements.flatMap(({ payload }) => (payload as DeliveryRow | undefined) ?? []);
  const waiting = (first?.waiting ?? []).map(({ delivery }) => delivery);
  return [...sent, ...(first?.refused ?? []), ...waiting].filter((each) => each.event_id === first?.event.id);
}

export const lastLog = async (world: Awaited<ReturnType<typeof setup>>, id: string) =>
  (await world.deliveries.logs(world.caller, id, { limit: 1, offset: 0 })).items[0];
