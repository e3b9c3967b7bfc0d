/**
 * Measures Errand beside yardsticks taken in the same minutes on the same machine, and prints a table and
 * one line of JSON a figure. Absolute numbers say something about this machine; ratios say it of Errand.
 *
 *     scripts/bench/run [--seconds 5] [--repeat 3] [--json] [--save FILE] [--compare FILE]
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { createKey, discard, type Errand, type Key, scratch, startErrand } from "../lib/errand.ts";
import type { LoadPlan, LoadResult } from "./load.ts";

export type Figure = {
  metric: string;
  value: number;
  unit: string;
  /** What it is measured against in the same run, and the share of it. */
  yardstick?: { name: string; value: number };
  ratio?: number;
  target?: string;
  met?: boolean;
};

const { values: flags } = parseArgs({
  options: {
    seconds: { type: "string", default: "5" },
    repeat: { type: "string", default: "3" },
    json: { type: "boolean", default: false },
    save: { type: "string" },
    compare: { type: "string" },
    help: { type: "boolean", default: false },
  },
});
if (flags.help) {
  console.log("usage: scripts/bench/run [--seconds 5] [--repeat 3] [--json] [--save FILE] [--compare FILE]");
  process.exit(0);
}
const SECONDS = Number(flags.seconds);
const REPEAT = Number(flags.repeat);
const CONNECTIONS = 64;
const BODY = JSON.stringify({ input_data: { name: "Ada", amount: 12 }, trigger_source: "bench" });

const here = (file: string) => join(import.meta.dir, file);
const say = (text: string) => process.stderr.write(`${text}\n`);
const median = (values: number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

/** Half as long again goes before and is not counted: a program is measured as it runs, not as it compiles. */
async function load(plan: LoadPlan): Promise<LoadResult> {
  await loadOnce({ ...plan, seconds: plan.seconds / 2 });
  return loadOnce(plan);
}

async function loadOnce(plan: LoadPlan): Promise<LoadResult> {
  const child = Bun.spawn([process.execPath, here("load.ts"), JSON.stringify(plan)], {
    stdout: "pipe",
    stderr: "inherit",
  });
  const result = JSON.parse(await new Response(child.stdout).text()) as LoadResult;
  const bad = Object.keys(result.statuses).filter((status) => !status.startsWith("2"));
  if (bad.length > 0) throw new Error(`load on ${plan.url} met ${JSON.stringify(result.statuses)}`);
  return result;
}

async function yardstick(kind: string, file = ""): Promise<{ url: string; end(): void }> {
  const child = Bun.spawn([process.execPath, here("yardsticks.ts"), kind, file], {
    stdout: "pipe",
    stderr: "inherit",
  });
  const reader = child.stdout.getReader();
  const port = Number(new TextDecoder().decode((await reader.read()).value));
  return { url: `http://127.0.0.1:${port}/`, end: () => child.kill() };
}

const figures: Figure[] = [];

function record(figure: Figure): void {
  const ratio = figure.yardstick
    ? Math.round((figure.value / figure.yardstick.value) * 1_000) / 1_000
    : undefined;
  const whole = {
    ...figure,
    value: Math.round(figure.value * 1_000) / 1_000,
    ...(ratio === undefined ? {} : { ratio }),
  };
  figures.push(whole);
  console.log(flags.json ? JSON.stringify(whole) : row(whole));
}

function row({ metric, value, unit, yardstick: against, ratio, target, met }: Figure): string {
  const mark = met === undefined ? "" : met ? "met" : "MISSED";
  return [
    metric.padEnd(34),
    `${value} ${unit}`.padStart(16),
    (against ? `${ratio} of ${against.value} (${against.name})` : "").padEnd(36),
    (target ?? "").padEnd(14),
    mark,
  ].join("  ");
}

async function withErrand<T>(work: (errand: Errand, key: Key) => Promise<T>): Promise<T> {
  const data = scratch();
  const key = await createKey(data);
  const errand = await startErrand({
    data,
    key,
    args: ["--log-level", "error", "--access-log", "false"],
    env: { ERRAND_ALLOW_TARGETS: "127.0.0.1" },
  });
  try {
    return await work(errand, key);
  } finally {
    await errand.stop();
    discard(data);
  }
}

async function hookOf(errand: Errand, key: Key): Promise<string> {
  const workflow = await errand.api<{ id: string }>(
    "POST",
    `/api/workflows?workspace_id=${key.workspace_id}`,
    {
      name: "bench",
      input_schema: { properties: { name: { title: "Name", type: "string" } }, required: ["name"] },
      nodes: [
        {
          node_type_name: "set_variables",
          name: "greet",
          input_config: { variables: { text: "Hello {{ name }}" } },
        },
      ],
    },
  );
  const token = await errand.api<{ token: string }>(
    "POST",
    `/api/workflows/${workflow.body.id}/webhook-tokens`,
    {},
  );
  return `${errand.url}/webhooks/workflows/${workflow.body.id}?token=${token.body.token}`;
}

function memory(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? Number.NaN) / 1_024;
}

async function yardsticks(): Promise<{ bare: LoadResult; sqlite: LoadResult; single: LoadResult }> {
  const folder = scratch();
  const bare = await yardstick("bare");
  const sqlite = await yardstick("sqlite", join(folder, "yardstick.db"));
  try {
    const plan = { connections: CONNECTIONS, seconds: SECONDS, body: BODY };
    return {
      bare: await load({ ...plan, url: bare.url }),
      sqlite: await load({ ...plan, url: sqlite.url }),
      single: await load({ ...plan, url: sqlite.url, connections: 1 }),
    };
  } finally {
    bare.end();
    sqlite.end();
    discard(folder);
  }
}

const accepted = ({ statuses }: LoadResult) => Object.values(statuses).reduce((sum, n) => sum + n, 0);

async function arrived(receiver: string, count: number): Promise<void> {
  const until = performance.now() + 120_000;
  for (;;) {
    const { received } = (await (await fetch(receiver)).json()) as { received: number };
    if (received >= count) return;
    if (performance.now() > until) throw new Error(`${count - received} of ${count} were not delivered`);
    await Bun.sleep(5);
  }
}

/** Everything accepted and delivered, over the time from the first request to the last delivery. */
async function endToEnd(connections: number): Promise<{ rate: number; p50: number; rss: number }> {
  const receiver = await yardstick("receiver");
  try {
    return await withErrand(async (errand, key) => {
      const hook = await hookOf(errand, key);
      await errand.api("POST", "/api/v1/webhooks", {
        name: "bench",
        url: receiver.url,
        events: ["workflow.execution.completed"],
      });
      const plan = { url: hook, connections, seconds: SECONDS, body: BODY };
      const warmUp = accepted(await loadOnce({ ...plan, seconds: SECONDS / 2 }));
      await arrived(receiver.url, warmUp);
      const began = performance.now();
      const loaded = await loadOnce(plan);
      const delivered = accepted(loaded);
      await arrived(receiver.url, warmUp + delivered);
      return {
        rate: delivered / ((performance.now() - began) / 1_000),
        p50: loaded.p50_ms,
        rss: memory(errand.pid),
      };
    });
  } finally {
    receiver.end();
  }
}

/** One at a time: from the request's first byte to the delivery's arrival. */
async function unloadedEndToEnd(rounds: number): Promise<number> {
  let arrived: (() => void) | undefined;
  const receiver = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => {
      arrived?.();
      return new Response(null, { status: 204 });
    },
  });
  try {
    return await withErrand(async (errand, key) => {
      const hook = await hookOf(errand, key);
      const url = `http://127.0.0.1:${receiver.port}/`;
      await errand.api("POST", "/api/v1/webhooks", {
        name: "bench",
        url,
        events: ["workflow.execution.completed"],
      });
      const times: number[] = [];
      for (let n = 0; n < rounds; n++) {
        const delivered = new Promise<void>((resolve) => {
          arrived = resolve;
        });
        const began = performance.now();
        const response = await fetch(hook, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: BODY,
        });
        await response.text();
        await delivered;
        if (n >= rounds / 10) times.push(performance.now() - began);
      }
      return median(times);
    });
  } finally {
    receiver.stop(true);
  }
}

async function startUp(): Promise<{ ms: number; rss: number }> {
  const data = scratch();
  await createKey(data);
  const times: number[] = [];
  const idle: number[] = [];
  for (let n = 0; n < 10; n++) {
    const errand = await startErrand({ data, args: ["--log-level", "error"] });
    times.push(errand.startedInMs);
    if (n < 3) {
      await Bun.sleep(1_500);
      idle.push(memory(errand.pid));
    }
    await errand.stop();
  }
  discard(data);
  return { ms: median(times), rss: median(idle) };
}

async function measure(): Promise<void> {
  say("start-up and idle memory ...");
  const start = await startUp();
  record({
    metric: "start-up to first answer",
    value: start.ms,
    unit: "ms",
    target: "< 120",
    met: start.ms < 120,
  });
  record({ metric: "idle RSS", value: start.rss, unit: "MB", target: "< 90", met: start.rss < 90 });

  const bare: number[] = [];
  const sqlite: number[] = [];
  const single: number[] = [];
  const accepts: number[] = [];
  const acceptP50: number[] = [];
  const wholes: number[] = [];
  const rss: number[] = [];
  for (let round = 1; round <= REPEAT; round++) {
    say(`round ${round} of ${REPEAT} ...`);
    const against = await yardsticks();
    bare.push(against.bare.rate);
    sqlite.push(against.sqlite.rate);
    single.push(against.single.p50_ms);
    await withErrand(async (errand, key) => {
      const hook = await hookOf(errand, key);
      accepts.push((await load({ url: hook, connections: CONNECTIONS, seconds: SECONDS, body: BODY })).rate);
    });
    await withErrand(async (errand, key) => {
      const hook = await hookOf(errand, key);
      acceptP50.push((await load({ url: hook, connections: 1, seconds: SECONDS, body: BODY })).p50_ms);
    });
    const whole = await endToEnd(CONNECTIONS);
    wholes.push(whole.rate);
    rss.push(whole.rss);
  }
  const sqliteYardstick = { name: "serve + sqlite", value: median(sqlite) };
  record({ metric: "yardstick: bare Bun.serve", value: median(bare), unit: "/s" });
  record({ metric: "yardstick: serve + sqlite", value: median(sqlite), unit: "/s" });
  const accept = median(accepts);
  record({
    metric: "webhook accept and run",
    value: accept,
    unit: "/s",
    yardstick: sqliteYardstick,
    target: ">= 0.5",
    met: accept / median(sqlite) >= 0.5,
  });
  const whole = median(wholes);
  record({
    metric: "webhook to signed delivery",
    value: whole,
    unit: "/s",
    yardstick: sqliteYardstick,
    target: ">= 3000/s",
    met: whole >= 3_000,
  });
  record({
    metric: "unloaded accept p50",
    value: median(acceptP50),
    unit: "ms",
    yardstick: { name: "serve + sqlite", value: median(single) },
    target: "< 1 ms",
    met: median(acceptP50) < 1,
  });
  say("unloaded end to end ...");
  const unloaded = await unloadedEndToEnd(1_000);
  record({
    metric: "unloaded end to end p50",
    value: unloaded,
    unit: "ms",
    target: "< 3 ms",
    met: unloaded < 3,
  });
  record({ metric: "RSS after end-to-end load", value: median(rss), unit: "MB" });
}

function compare(file: string): void {
  const before = JSON.parse(readFileSync(file, "utf8")) as Figure[];
  say(`\nagainst ${file}:`);
  for (const figure of figures) {
    const old = before.find((other) => other.metric === figure.metric);
    if (!old) continue;
    const [now, then] = [figure.ratio ?? figure.value, old.ratio ?? old.value];
    say(`${figure.metric.padEnd(34)} ${then} -> ${now} (${Math.round((now / then) * 100)} %)`);
  }
}

await measure();
if (flags.save) writeFileSync(flags.save, `${JSON.stringify(figures, null, 2)}\n`);
if (flags.compare) compare(flags.compare);
