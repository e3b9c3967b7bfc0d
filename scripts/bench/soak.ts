/**
 * Stays what it is under load: webhooks that run, each told to a receiver, at 60 % of what the machine was seen to
 * do at most, and a line each minute of what memory and waiting have come to. Ends with the slopes and a verdict, 1 when
 * one of them is missed.
 *
 *     scripts/bench/soak [--minutes 30] [--share 0.6] [--json] [--charts DIR]
 */
import { mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Errand } from "../lib/errand.ts";
import { type Chart, svgOf } from "./chart.ts";
import { createFigures } from "./figures.ts";
import {
  arrived,
  BODY,
  cpu,
  grown,
  hookOf,
  loadOnce,
  memory,
  say,
  subscribe,
  withErrand,
  yardstick,
} from "./measure.ts";
import type { PacedPlan, Stretch } from "./paced.ts";

const { values: flags } = parseArgs({
  options: {
    minutes: { type: "string", default: "30" },
    share: { type: "string", default: "0.6" },
    json: { type: "boolean", default: false },
    charts: { type: "string" },
    help: { type: "boolean", default: false },
  },
});
const [MINUTES, SHARE] = [Number(flags.minutes), Number(flags.share)];
if (flags.help || !(MINUTES > 0) || !(SHARE > 0)) {
  say("usage: scripts/bench/soak [--minutes 30] [--share 0.6] [--json] [--charts DIR]");
  process.exit(flags.help ? 0 : 2);
}

const CONNECTIONS = 64;
const MOST_SECONDS = 10;
const LEAST_LINES = 12;
const KEPT_UP = 0.95;
// Caches fill and code is compiled at first: what grows then says nothing of hours.
const WARM_SHARE = 0.2;
// As shares of their middle, over all the minutes that count.
const MOST_GROWN_RSS = 0.1;
const MOST_GROWN_P99 = 0.5;

type Minute = Stretch & { rss: number; cpu_share: number; database_mb: number };

/** What it takes in and delivers at most, from the first request to the last delivery. */
async function most(url: string, receiver: string): Promise<{ rate: number; sent: number }> {
  const plan = { url, connections: CONNECTIONS, body: BODY };
  let sent = (await loadOnce({ ...plan, seconds: MOST_SECONDS / 2 })).requests;
  await arrived(receiver, sent);
  const began = performance.now();
  const { requests } = await loadOnce({ ...plan, seconds: MOST_SECONDS });
  sent += requests;
  await arrived(receiver, sent);
  return { rate: requests / ((performance.now() - began) / 1_000), sent };
}

async function* minutes(errand: Errand, plan: PacedPlan): AsyncGenerator<Minute> {
  const args = [process.execPath, join(import.meta.dir, "paced.ts"), JSON.stringify(plan)];
  const child = Bun.spawn(args, { stdout: "pipe", stderr: "inherit" });
  let [text, used, at] = ["", cpu(errand.pid).all, performance.now()];
  const decoder = new TextDecoder();
  for await (const chunk of child.stdout) {
    text += decoder.decode(chunk, { stream: true });
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n")) {
      const stretch = JSON.parse(text.slice(0, end)) as Stretch;
      text = text.slice(end + 1);
      const [before, since] = [used, at];
      [used, at] = [cpu(errand.pid).all, performance.now()];
      yield {
        ...stretch,
        rss: Math.round(memory(errand.pid)),
        cpu_share: Math.round((used - before) / (at - since) / 10) / 100,
        database_mb: Math.round(statSync(join(errand.data, "errand.db")).size / 1e6),
      };
    }
  }
}

function line({
  seconds,
  rate,
  p50_ms,
  p99_ms,
  max_ms,
  rss,
  cpu_share,
  database_mb,
  refused,
}: Minute): string {
  const cells = [`${seconds} s`, `${rate}/s`, `p50 ${p50_ms}`, `p99 ${p99_ms}`, `max ${max_ms} ms`];
  cells.push(`RSS ${rss} MB`, `CPU ${cpu_share}`, `database ${database_mb} MB`);
  return [...cells, ...(refused > 0 ? [`${refused} refused`] : [])].map((cell) => cell.padEnd(14)).join(" ");
}

function draw(folder: string, seen: Minute[]): void {
  const at = seen.map(({ seconds }) => Math.round(seconds / 60));
  const chart = (title: string, unit: string, read: (minute: Minute) => number): Chart => ({
    title,
    unit,
    x: "minutes",
    at,
    isEven: true,
    lines: [{ name: title, values: seen.map(read) }],
  });
  mkdirSync(folder, { recursive: true });
  const charts = [
    chart("memory", "MB", ({ rss }) => rss),
    chart("accept p50", "ms", ({ p50_ms }) => p50_ms),
    chart("accept p99", "ms", ({ p99_ms }) => p99_ms),
  ];
  writeFileSync(join(folder, "soak.svg"), svgOf("Memory and waiting under load for long", charts));
}

const receiver = await yardstick("receiver");
try {
  await withErrand(async (errand, key) => {
    const url = await hookOf(errand, key);
    await subscribe(errand, receiver.url);
    const { rate, sent } = await most(url, receiver.url);
    say(`${Math.round(rate)}/s at most; ${MINUTES} minutes at ${Math.round(rate * SHARE)}/s`);
    const plan = {
      url,
      rate: rate * SHARE,
      connections: CONNECTIONS,
      body: BODY,
      every: Math.min(60, (MINUTES * 60) / LEAST_LINES),
    };
    const seen: Minute[] = [];
    for await (const minute of minutes(errand, { ...plan, seconds: MINUTES * 60 })) {
      seen.push(minute);
      console.log(flags.json ? JSON.stringify(minute) : line(minute));
    }
    await arrived(receiver.url, sent + seen.reduce((sum, { requests }) => sum + requests, 0));
    const counted = seen.slice(Math.ceil(seen.length * WARM_SHARE));
    const [rss, p99] = [grown(counted.map((each) => each.rss)), grown(counted.map((each) => each.p99_ms))];
    const figures = createFigures({ json: flags.json });
    const name = "asked for";
    // The least of them: a stretch that fell behind is no soak at that rate.
    const least = Math.min(...seen.map((each) => each.rate));
    const keptUp = least >= rate * SHARE * KEPT_UP;
    figures.record({
      metric: "soak: accepted at least",
      value: least,
      unit: "/s",
      yardstick: { name, value: rate * SHARE },
      target: `>= ${KEPT_UP}`,
      met: keptUp,
    });
    const refused = seen.reduce((sum, each) => sum + each.refused, 0);
    figures.record({ metric: "soak: refused", value: refused, unit: "", target: "0", met: refused === 0 });
    const grew = (metric: string, value: number, most: number) =>
      figures.record({
        metric,
        value: value * 100,
        unit: "%",
        target: `< ${most * 100} %`,
        met: value < most,
      });
    grew("soak: memory grew by", rss, MOST_GROWN_RSS);
    grew("soak: p99 grew by", p99, MOST_GROWN_P99);
    if (flags.charts) draw(flags.charts, seen);
    const isFlat = keptUp && rss < MOST_GROWN_RSS && p99 < MOST_GROWN_P99 && refused === 0;
    say(isFlat ? "flat" : "NOT FLAT");
    process.exitCode = isFlat ? 0 : 1;
  });
} finally {
  receiver.end();
}
