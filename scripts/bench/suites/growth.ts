/**
 * The main figures again on much history, beside many webhooks and many agents: a curve each, flat or explained.
 * What a figure is held against is the same figure at the smallest size.
 */
import type { Errand, Key } from "../../lib/errand.ts";
import type { Chart } from "../chart.ts";
import { short } from "../chart.ts";
import { writeAgents, writeHistory } from "../history.ts";
import {
  arrived,
  BODY,
  COMPLETED,
  cpu,
  hookOf,
  load,
  loadOnce,
  median,
  NEVER,
  say,
  startOn,
  subscribe,
  timed,
  withFolder,
  withRunning,
  type Yardstick,
  yardstick,
} from "../measure.ts";
import type { Bench, Suite } from "../suite.ts";
import { fanOut } from "./deliver.ts";

const LISTENERS = [1, 100, 1_000];
const AGENTS = [1, 100, 10_000];
const CONNECTIONS = 64;
const STARTS = 5;
const PAGES = 300;
const TURNS = 200;
// A load leaves history too: a small one would not be small any more at its end.
const LOAD_SECONDS = 3;

type Measured = Record<string, number>;
type Told = { unit: string; target?: string; met?: (value: number, size: number) => boolean };

/** One figure for each size, its ratio to that of the smallest; the curve of it. */
function tell(
  { figures }: Bench,
  what: string,
  sizes: number[],
  of: string,
  { unit, target, met }: Told,
  measured: Measured[],
): Chart {
  const values = measured.map((each) => each[what]!);
  for (const [n, value] of values.entries()) {
    const first = { name: `${short(sizes[0]!)} ${of}`, value: values[0]! };
    figures.record({
      metric: `${what}, ${short(sizes[n]!)} ${of}`,
      value,
      unit,
      ...(n === 0 ? {} : { yardstick: first }),
      ...(target && met ? { target, met: met(value, sizes[n]!) } : {}),
    });
  }
  return { title: what, unit, x: of, at: sizes, lines: [{ name: what, values }] };
}

const medians = (rounds: Measured[]): Measured =>
  Object.fromEntries(
    Object.keys(rounds[0]!).map((name) => [name, median(rounds.map((round) => round[name]!))]),
  );

async function starts(data: string, key: Key): Promise<number> {
  const times: number[] = [];
  for (let n = 0; n < STARTS; n++) {
    const errand = await startOn(data, key);
    times.push(errand.startedInMs);
    await errand.stop();
  }
  return median(times);
}

/** Accepted and run, one after the other and many at once; CPU of the latter, which a busy machine changes least. */
async function accepts(errand: Errand, url: string, seconds: number): Promise<Measured> {
  const alone = await load({ url, connections: 1, seconds: 1, body: BODY });
  await loadOnce({ url, connections: CONNECTIONS, seconds: 1, body: BODY });
  const before = cpu(errand.pid).all;
  const many = await loadOnce({ url, connections: CONNECTIONS, seconds, body: BODY });
  return {
    "accept p50, 1 connection": alone.p50_ms,
    [`accept and run, ${CONNECTIONS} connections`]: many.rate,
    "CPU a webhook": (cpu(errand.pid).all - before) / many.requests,
  };
}

const ACCEPTED: Record<string, Told> = {
  "accept p50, 1 connection": { unit: "ms" },
  [`accept and run, ${CONNECTIONS} connections`]: { unit: "/s" },
  "CPU a webhook": { unit: "us" },
};

async function delivered(url: string, receiver: Yardstick, seconds: number): Promise<number> {
  const { received } = (await (await fetch(receiver.url)).json()) as { received: number };
  const began = performance.now();
  const { requests } = await loadOnce({ url, connections: CONNECTIONS, seconds, body: BODY });
  await arrived(receiver.url, received + requests);
  return requests / ((performance.now() - began) / 1_000);
}

/** A figure of the page and its slowest hundredth, which on a machine with other things to do tells of those. */
async function pages(name: string, errand: Errand, path: string): Promise<Measured> {
  const { p50, p99 } = await timed(PAGES, async () => {
    const { status } = await errand.api("GET", path);
    if (status !== 200) throw new Error(`${path} answered ${status}`);
  });
  return { [`${name}, p50`]: p50, [`${name}, p99`]: p99 };
}

type World = { data: string; key: Key; hook: URL; subscription: string };

const hear = (errand: Errand, { subscription }: Pick<World, "subscription">, event: string) =>
  errand.api("PUT", `/api/v1/webhooks/${subscription}`, { events: [event] });

/** A folder with so many runs on record, each with its step, event, delivery and attempt. */
export async function prepare(data: string, key: Key, runs: number, receiver: Yardstick): Promise<World> {
  const world = await withRunning(data, key, async (errand) => {
    const hook = new URL(await hookOf(errand, key));
    const made = { data, key, hook, subscription: await subscribe(errand, receiver.url) };
    await fetch(hook, { method: "POST", body: BODY, headers: { "content-type": "application/json" } });
    await arrived(receiver.url, 1);
    await hear(errand, made, NEVER);
    return made;
  });
  const began = performance.now();
  writeHistory(data, runs);
  say(`  ${short(runs)} runs written in ${((performance.now() - began) / 1_000).toFixed(1)} s`);
  return world;
}

export async function measure(world: World, receiver: Yardstick, seconds: number): Promise<Measured> {
  const { data, key, hook, subscription } = world;
  const started = await starts(data, key);
  const measured = await withRunning(data, key, async (errand) => {
    const list = `/api${hook.pathname.replace("/webhooks", "")}/executions`;
    const url = `${errand.url}${hook.pathname}${hook.search}`;
    const until = new Date().toISOString();
    const rare = `${list}?status=failed&trigger_source=rare&since=2020-01-01&until=${until}`;
    const listed = {
      ...(await pages("page of 100 runs", errand, list)),
      ...(await pages("by state, source and time", errand, rare)),
      ...(await pages("deliveries of a webhook", errand, `/api/v1/webhooks/${subscription}/logs`)),
      ...(await pages("yardstick: /api/me", errand, "/api/me")),
    };
    const accepted = await accepts(errand, url, seconds);
    await hear(errand, world, COMPLETED);
    const rate = await delivered(url, receiver, seconds);
    await hear(errand, world, NEVER);
    return { ...listed, ...accepted, "webhook to signed delivery": rate };
  });
  return { "start-up to first answer": started, ...measured };
}

async function onHistory(runs: number, bench: Bench): Promise<Measured> {
  const receiver = await yardstick("receiver");
  try {
    return await withFolder(async (data, key) => {
      const world = await prepare(data, key, runs, receiver);
      const rounds: Measured[] = [];
      for (let round = 1; round <= bench.repeat; round++) {
        say(`growth, ${short(runs)} runs, round ${round} of ${bench.repeat} ...`);
        rounds.push(await measure(world, receiver, Math.min(LOAD_SECONDS, bench.seconds)));
      }
      return medians(rounds);
    });
  } finally {
    receiver.end();
  }
}

async function history(bench: Bench): Promise<void> {
  const measured: Measured[] = [];
  for (const runs of bench.sizes) measured.push(await onHistory(runs, bench));
  tellHistory(bench, measured);
}

export function tellHistory(bench: Bench, measured: Measured[]): void {
  const page = { unit: "ms", target: "< 10 ms", met: (value: number) => value < 10 };
  const told: Record<string, Told> = {
    ...ACCEPTED,
    "webhook to signed delivery": { unit: "/s" },
    "page of 100 runs, p50": { unit: "ms" },
    "by state, source and time, p50": { unit: "ms" },
    "deliveries of a webhook, p50": { unit: "ms" },
    "page of 100 runs, p99": page,
    "by state, source and time, p99": page,
    "deliveries of a webhook, p99": page,
    "yardstick: /api/me, p99": { unit: "ms" },
    "start-up to first answer": { unit: "ms" },
  };
  const charts = Object.entries(told).map(([what, as]) =>
    tell(bench, what, bench.sizes, "runs on record", as, measured),
  );
  const drawn = charts.filter(({ title }) => !title.endsWith("p99"));
  bench.draw("growth-history", "The main figures by how many runs are on record", drawn);
}

/** Webhooks that hear of something else cost a run nothing; those that hear of it, a delivery each. */
export async function besideWebhooks(count: number, seconds: number): Promise<Measured> {
  const accepted = await withFolder((data, key) =>
    withRunning(data, key, async (errand) => {
      const url = await hookOf(errand, key);
      for (let n = 0; n < count; n++) await subscribe(errand, "http://127.0.0.1:9/", NEVER);
      return accepts(errand, url, seconds);
    }),
  );
  return { ...accepted, "deliveries to all that hear": await fanOut(seconds, count) };
}

async function webhooks(bench: Bench): Promise<void> {
  const measured: Measured[] = [];
  for (const count of LISTENERS) {
    const rounds: Measured[] = [];
    for (let round = 1; round <= bench.repeat; round++) {
      say(`growth, ${short(count)} webhooks, round ${round} of ${bench.repeat} ...`);
      rounds.push(await besideWebhooks(count, Math.min(LOAD_SECONDS, bench.seconds)));
    }
    measured.push(medians(rounds));
  }
  tellWebhooks(bench, measured);
}

export function tellWebhooks(bench: Bench, measured: Measured[]): void {
  const other = Object.entries(ACCEPTED).map(([what, as]) =>
    tell(bench, what, LISTENERS, "webhooks of another event", as, measured),
  );
  const all = tell(bench, "deliveries to all that hear", LISTENERS, "webhooks", { unit: "/s" }, measured);
  bench.draw("growth-webhooks", "The main figures by how many outgoing webhooks there are", [...other, all]);
}

/** Milliseconds from a message to the first bytes of its answer, by the built-in model. */
async function firstBytes(errand: Errand, key: Key, agent: string): Promise<number> {
  const { p50 } = await timed(TURNS, async () => {
    const answer = await fetch(`${errand.url}/api/agents/${agent}/stream`, {
      method: "POST",
      headers: { authorization: `Bearer ${key.key}`, "content-type": "application/json" },
      body: JSON.stringify({ messages: [{ role: "user", content: "Hello" }] }),
    });
    const reader = answer.body!.getReader();
    await reader.read();
    // The rest belongs to no measurement, and the next message not into its time.
    while (!(await reader.read()).done);
  });
  return p50;
}

export function besideAgents(count: number): Promise<Measured> {
  return withFolder(async (data, key) => {
    const path = `/api/agents?workspace_id=${key.workspace_id}`;
    const body = { name: "Guide", system_prompt: "Be brief.", auto_generate_title: false };
    const made = await withRunning(data, key, (errand) => errand.api<{ id: string }>("POST", path, body));
    writeAgents(data, count);
    const started = await starts(data, key);
    return withRunning(data, key, async (errand) => ({
      "message to first bytes, p50": await firstBytes(errand, key, made.body.id),
      ...(await pages("page of 100 agents", errand, path)),
      "start-up to first answer": started,
    }));
  });
}

async function agents(bench: Bench): Promise<void> {
  const measured: Measured[] = [];
  for (const count of AGENTS) {
    const rounds: Measured[] = [];
    for (let round = 1; round <= bench.repeat; round++) {
      say(`growth, ${short(count)} agents, round ${round} of ${bench.repeat} ...`);
      rounds.push(await besideAgents(count));
    }
    measured.push(medians(rounds));
  }
  tellAgents(bench, measured);
}

export function tellAgents(bench: Bench, measured: Measured[]): void {
  const told: Record<string, Told> = {
    "message to first bytes, p50": { unit: "ms" },
    "page of 100 agents, p50": { unit: "ms" },
    "page of 100 agents, p99": { unit: "ms" },
    "start-up to first answer": { unit: "ms" },
  };
  const charts = Object.entries(told).map(([what, as]) => tell(bench, what, AGENTS, "agents", as, measured));
  const drawn = charts.filter(({ title }) => !title.endsWith("p99"));
  bench.draw("growth-agents", "The main figures by how many agents there are", drawn);
}

export const growth: Suite = {
  name: "growth",
  async run(bench) {
    await history(bench);
    await webhooks(bench);
    await agents(bench);
  },
};
