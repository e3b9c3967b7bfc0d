import { join } from "node:path";
import { discard, scratch } from "../../lib/errand.ts";
import { bytesEach } from "../history.ts";
import type { LoadPlan, LoadResult } from "../load.ts";
import { BODY, cpu, hookOf, loadOnce, median, memory, say, withErrand, yardstick } from "../measure.ts";
import type { Bench, Suite } from "../suite.ts";

type Loaded = LoadResult & { cpu_us: number; main_us: number };
type Seen = Loaded & { rss: number; bytes: number };

// Until most of it is compiled.
const WARM_SECONDS = 3;

/** With what a request costs the program that answers. */
async function loaded(pid: number, plan: LoadPlan): Promise<Loaded> {
  await loadOnce({ ...plan, seconds: WARM_SECONDS });
  const before = cpu(pid);
  const result = await loadOnce(plan);
  const after = cpu(pid);
  const each = (used: number) => used / result.requests;
  return { ...result, cpu_us: each(after.all - before.all), main_us: each(after.main - before.main) };
}

/** A webhook authenticated, checked, run and committed, over so many connections. */
async function accept(nodes: number, connections: number, seconds: number): Promise<Seen> {
  return withErrand(async (errand, key) => {
    const plan = { url: await hookOf(errand, key, nodes), connections, seconds, body: BODY };
    const result = await loaded(errand.pid, plan);
    return {
      ...result,
      rss: memory(errand.pid),
      bytes: bytesEach(errand.data, "executions", "steps"),
    };
  });
}

async function yardsticks(connections: number, seconds: number) {
  const folder = scratch();
  const bare = await yardstick("bare");
  const sqlite = await yardstick("sqlite", join(folder, "yardstick.db"));
  try {
    const plan = { connections, seconds, body: BODY };
    return {
      bare: await loaded(bare.pid, { ...plan, url: bare.url }),
      sqlite: await loaded(sqlite.pid, { ...plan, url: sqlite.url }),
    };
  } finally {
    bare.end();
    sqlite.end();
    discard(folder);
  }
}

async function measure(bench: Bench, connections: number): Promise<void> {
  const { figures, seconds, repeat } = bench;
  const bare: Loaded[] = [];
  const sqlite: Loaded[] = [];
  const one: Seen[] = [];
  const three: Seen[] = [];
  for (let round = 1; round <= repeat; round++) {
    say(`accept, ${connections} connections, round ${round} of ${repeat} ...`);
    const against = await yardsticks(connections, seconds);
    bare.push(against.bare);
    sqlite.push(against.sqlite);
    one.push(await accept(1, connections, seconds));
    three.push(await accept(3, connections, seconds));
  }
  const of = <T>(list: T[], read: (each: T) => number) => median(list.map(read));
  const rate = (each: LoadResult) => each.rate;
  const p50 = (each: LoadResult) => each.p50_ms;
  const p99 = (each: LoadResult) => each.p99_ms;
  const at = `, ${connections} connection${connections === 1 ? "" : "s"}`;
  figures.record({ metric: `yardstick: bare Bun.serve${at}`, value: of(bare, rate), unit: "/s" });
  figures.record({ metric: `yardstick: serve + sqlite${at}`, value: of(sqlite, rate), unit: "/s" });
  const name = "serve + sqlite";
  const perSecond = { name, value: of(sqlite, rate) };
  const share = (list: Seen[]) => of(list, rate) / perSecond.value;
  const isMain = connections === 64;
  const isAlone = connections === 1;
  figures.record({
    metric: `webhook accept and run${at}`,
    value: of(one, rate),
    unit: "/s",
    yardstick: perSecond,
    ...(isMain ? { target: ">= 0.5", met: share(one) >= 0.5 } : {}),
  });
  figures.record({
    metric: `the same, 3 nodes${at}`,
    value: of(three, rate),
    unit: "/s",
    yardstick: perSecond,
    ...(isMain ? { target: ">= 4000/s, 0.35", met: of(three, rate) >= 4_000 && share(three) >= 0.35 } : {}),
  });
  figures.record({
    metric: `accept p50${at}`,
    value: of(one, p50),
    unit: "ms",
    yardstick: { name, value: of(sqlite, p50) },
    ...(isAlone ? { target: "< 1 ms", met: of(one, p50) < 1 } : {}),
  });
  figures.record({
    metric: `accept p99${at}`,
    value: of(one, p99),
    unit: "ms",
    yardstick: { name, value: of(sqlite, p99) },
  });
  if (isAlone) {
    const value = of(three, p50);
    figures.record({ metric: `3 nodes p50${at}`, value, unit: "ms", target: "< 2 ms", met: value < 2 });
  }
  const used = (metric: string, read: (each: Loaded) => number) =>
    figures.record({
      metric: `${metric}${at}`,
      value: of(one, read),
      unit: "us",
      yardstick: { name, value: of(sqlite, read) },
    });
  used("CPU a webhook", (each) => each.cpu_us);
  used("of it the main thread", (each) => each.main_us);
  const bytes = (list: Seen[]) => of(list, (each) => each.bytes);
  figures.record({ metric: `bytes on disk a run${at}`, value: bytes(one), unit: "B" });
  figures.record({ metric: `bytes on disk a run of 3 nodes${at}`, value: bytes(three), unit: "B" });
  figures.record({ metric: `RSS after it${at}`, value: of(one, (each) => each.rss), unit: "MB" });
}

export const acceptSuite: Suite = {
  name: "accept",
  async run(bench) {
    for (const connections of bench.connections) await measure(bench, connections);
  },
};
