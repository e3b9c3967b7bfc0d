/** The main figures on much history: runs on record, each with its step, event, delivery and attempt. */
import { copyFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Errand, Key } from "../../../lib/errand.ts";
import { short } from "../../chart.ts";
import { writeHistory } from "../../history.ts";
import {
  arrived,
  BODY,
  COMPLETED,
  hookOf,
  loadOnce,
  NEVER,
  say,
  subscribe,
  withFolder,
  withRunning,
  type Yardstick,
  yardstick,
} from "../../measure.ts";
import type { Bench, Suite } from "../../suite.ts";
import { BRIEF, createAgent, type Server, speakingBy, withModelServer } from "../../voices.ts";
import {
  ACCEPTED,
  accepts,
  type Measured,
  pages,
  rounds,
  SPOKEN,
  STARTED,
  secondsOf,
  speaks,
  starts,
  type Told,
  tellAll,
} from "./measured.ts";

const CONNECTIONS = 64;
// The loads of a round leave tens of thousands of runs: where that is much, each round begins with what was written.
const MOST_KEPT = 200_000;

type World = { data: string; key: Key; hook: URL; subscription: string; agent: string };
type Beside = { receiver: Yardstick; model: Server };

async function delivered(url: string, receiver: Yardstick, seconds: number): Promise<number> {
  const { received } = (await (await fetch(receiver.url)).json()) as { received: number };
  const began = performance.now();
  const { requests } = await loadOnce({ url, connections: CONNECTIONS, seconds, body: BODY });
  await arrived(receiver.url, received + requests);
  return requests / ((performance.now() - began) / 1_000);
}

const hear = (errand: Errand, { subscription }: Pick<World, "subscription">, event: string) =>
  errand.api("PUT", `/api/v1/webhooks/${subscription}`, { events: [event] });

const databaseOf = (data: string) => join(data, "errand.db");
const writtenOf = (data: string) => join(data, "written.db");

function asWritten(data: string): void {
  for (const rest of ["-wal", "-shm"]) rmSync(databaseOf(data) + rest, { force: true });
  copyFileSync(writtenOf(data), databaseOf(data));
}

async function prepare(data: string, key: Key, runs: number, { receiver }: Beside): Promise<World> {
  const { received } = (await (await fetch(receiver.url)).json()) as { received: number };
  const world = await withRunning(data, key, async (errand) => {
    const hook = new URL(await hookOf(errand, key));
    const subscription = await subscribe(errand, receiver.url);
    const agent = await createAgent(errand, key, BRIEF);
    await fetch(hook, { method: "POST", body: BODY, headers: { "content-type": "application/json" } });
    await arrived(receiver.url, received + 1);
    await hear(errand, { subscription }, NEVER);
    return { data, key, hook, subscription, agent };
  });
  const began = performance.now();
  writeHistory(data, runs);
  if (runs <= MOST_KEPT) copyFileSync(databaseOf(data), writtenOf(data));
  say(`  ${short(runs)} runs written in ${((performance.now() - began) / 1_000).toFixed(1)} s`);
  return world;
}

async function measure(world: World, runs: number, beside: Beside, seconds: number): Promise<Measured> {
  const { data, key, hook, subscription, agent } = world;
  const { receiver, model } = beside;
  if (runs <= MOST_KEPT) asWritten(data);
  const started = await starts(data, key);
  const work = async (errand: Errand): Promise<Measured> => {
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
    const spoken = await speaks(errand, key, model, agent);
    const accepted = await accepts(errand, url, seconds);
    await hear(errand, world, COMPLETED);
    const rate = await delivered(url, receiver, seconds);
    await hear(errand, world, NEVER);
    return { ...listed, ...spoken, ...accepted, "webhook to signed delivery": rate };
  };
  return { ...started, ...(await withRunning(data, key, work, speakingBy(model))) };
}

async function onHistory(bench: Bench, beside: Beside): Promise<Measured[]> {
  const worlds = new Map<number, World>();
  const withWorlds = async (sizes: number[]): Promise<Measured[]> => {
    const [runs, ...others] = sizes;
    if (runs === undefined)
      return rounds(bench, bench.sizes, "runs", (size) =>
        measure(worlds.get(size)!, size, beside, secondsOf(bench)),
      );
    return withFolder(async (data, key) => {
      worlds.set(runs, await prepare(data, key, runs, beside));
      return withWorlds(others);
    });
  };
  return withWorlds(bench.sizes);
}

const page: Told = { unit: "ms", target: "< 10 ms", met: (value) => value < 10 };
const TOLD: Record<string, Told> = {
  ...ACCEPTED,
  "webhook to signed delivery": { unit: "/s" },
  ...SPOKEN,
  "page of 100 runs, p50": { unit: "ms" },
  "by state, source and time, p50": { unit: "ms" },
  "deliveries of a webhook, p50": { unit: "ms" },
  "page of 100 runs, p99": page,
  "by state, source and time, p99": page,
  "deliveries of a webhook, p99": page,
  "yardstick: /api/me, p99": { unit: "ms" },
  ...STARTED,
};

export const growthByRuns: Suite = {
  name: "growth-runs",
  async run(bench) {
    const receiver = await yardstick("receiver");
    try {
      const measured = await withModelServer((model) => onHistory(bench, { receiver, model }));
      const charts = tellAll(bench, TOLD, bench.sizes, "runs on record", measured);
      bench.draw("growth-history", "The main figures by how many runs are on record", charts);
    } finally {
      receiver.end();
    }
  },
};
