import { join } from "node:path";
import { discard, scratch } from "../../lib/errand.ts";
import { bytesEach } from "../history.ts";
import type { LoadResult } from "../load.ts";
import { BODY, cpu, hookOf, load, median, memory, say, withErrand, yardstick } from "../measure.ts";
import type { Bench, Suite } from "../suite.ts";

type Seen = LoadResult & { cpu_us: number; main_us: number; rss: number; bytes: number };

/** A webhook authenticated, checked, run and committed, over so many connections. */
async function accept(nodes: number, connections: number, seconds: number): Promise<Seen> {
  return withErrand(async (errand, key) => {
    const plan = { url: await hookOf(errand, key, nodes), connections, seconds, body: BODY };
    await load({ ...plan, seconds: 1 });
    const before = cpu(errand.pid);
    const result = await load(plan);
    const after = cpu(errand.pid);
    // The warm-up is in the CPU time: it counts its requests as well.
    const requests = result.requests * (1 + Math.max(1, seconds / 2) / seconds);
    return {
      ...result,
      cpu_us: (after.all - before.all) / requests,
      main_us: (after.main - before.main) / requests,
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
      bare: await load({ ...plan, url: bare.url }),
      sqlite: await load({ ...plan, url: sqlite.url }),
    };
  } finally {
    bare.end();
    sqlite.end();
    discard(folder);
  }
}

async function measure(bench: Bench, connections: number): Promise<void> {
  const { figures, seconds, repeat } = bench;
  const bare: LoadResult[] = [];
  const sqlite: LoadResult[] = [];
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
  figures.record({ metric: `CPU a webhook${at}`, value: of(one, (each) => each.cpu_us), unit: "us" });
  figures.record({
    metric: `of it the main thread${at}`,
    value: of(one, (each) => each.main_us),
    unit: "us",
  });
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
