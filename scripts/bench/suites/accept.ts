import { join } from "node:path";
import { discard, type Errand, scratch } from "../../lib/errand.ts";
import type { Figures } from "../figures.ts";
import { bytesEach } from "../history.ts";
import type { LoadResult } from "../load.ts";
import { BODY, cpu, hookOf, loadOnce, median, memory, say, withErrand, yardstick } from "../measure.ts";
import type { Bench, Suite } from "../suite.ts";

type Loaded = LoadResult & { cpu_us: number; main_us: number };

// Until most of it is compiled.
const WARM_SECONDS = 3;
const TURN_SECONDS = 1;

/** With what a request costs the program that answers. */
async function loaded({ pid, url }: Loading, connections: number, seconds: number): Promise<Loaded> {
  const before = cpu(pid);
  const result = await loadOnce({ url, connections, seconds, body: BODY });
  const after = cpu(pid);
  const each = (used: number) => used / result.requests;
  return { ...result, cpu_us: each(after.all - before.all), main_us: each(after.main - before.main) };
}

/** A program under load; what is seen of it in each of its turns. */
class Loading {
  readonly turns: Loaded[] = [];

  constructor(
    readonly pid: number,
    readonly url: string,
  ) {}

  of(read: (each: Loaded) => number): number {
    return median(this.turns.map(read));
  }
}

/**
 * Loads them a second each in turn: a machine that others use as well is twice as fast in one minute as in the next,
 * so what is compared has to have been measured in the same seconds.
 */
async function inTurns(all: Loading[], connections: number, turns: number): Promise<void> {
  for (const each of all) await loaded(each, connections, WARM_SECONDS);
  for (let turn = 0; turn < turns; turn++)
    for (const each of all) each.turns.push(await loaded(each, connections, TURN_SECONDS));
}

/** A program whose webhook starts a workflow of so many nodes, until `use` has ended. */
const withHook = <T>(nodes: number, use: (loading: Loading, errand: Errand) => Promise<T>): Promise<T> =>
  withErrand(async (errand, key) => use(new Loading(errand.pid, await hookOf(errand, key, nodes)), errand));

async function withYardsticks<T>(use: (bare: Loading, sqlite: Loading) => Promise<T>): Promise<T> {
  const folder = scratch();
  const bare = await yardstick("bare");
  const sqlite = await yardstick("sqlite", join(folder, "yardstick.db"));
  try {
    return await use(new Loading(bare.pid, bare.url), new Loading(sqlite.pid, sqlite.url));
  } finally {
    bare.end();
    sqlite.end();
    discard(folder);
  }
}

const measure = (bench: Bench, connections: number): Promise<void> =>
  withYardsticks((bare, sqlite) =>
    withHook(0, (none) =>
      withHook(1, (one, errand) =>
        withHook(3, async (three, other) => {
          const turns = Math.max(1, Math.round((bench.seconds * bench.repeat) / TURN_SECONDS));
          say(`accept, ${connections} connections, ${turns} turns ...`);
          await inTurns([bare, sqlite, none, one, three], connections, turns);
          record(bench.figures, connections, { bare, sqlite, none, one, three });
          const at = atOf(connections);
          const bytes = ({ data }: Errand) => bytesEach(data, "executions", "steps");
          bench.figures.record({ metric: `bytes on disk a run${at}`, value: bytes(errand), unit: "B" });
          bench.figures.record({
            metric: `bytes on disk a run of 3 nodes${at}`,
            value: bytes(other),
            unit: "B",
          });
          bench.figures.record({ metric: `RSS after it${at}`, value: memory(errand.pid), unit: "MB" });
        }),
      ),
    ),
  );

const atOf = (connections: number) => `, ${connections} connection${connections === 1 ? "" : "s"}`;

function record(
  figures: Figures,
  connections: number,
  seen: Record<"bare" | "sqlite" | "none" | "one" | "three", Loading>,
): void {
  const { bare, sqlite, none, one, three } = seen;
  const at = atOf(connections);
  const rate = (each: LoadResult) => each.rate;
  const p50 = (each: LoadResult) => each.p50_ms;
  const p99 = (each: LoadResult) => each.p99_ms;
  figures.record({ metric: `yardstick: bare Bun.serve${at}`, value: bare.of(rate), unit: "/s" });
  figures.record({ metric: `yardstick: serve + sqlite${at}`, value: sqlite.of(rate), unit: "/s" });
  const name = "serve + sqlite";
  const perSecond = { name, value: sqlite.of(rate) };
  const share = (loading: Loading) => loading.of(rate) / perSecond.value;
  const isMain = connections === 64;
  const isAlone = connections === 1;
  figures.record({
    metric: `webhook accepted${at}`,
    value: none.of(rate),
    unit: "/s",
    yardstick: perSecond,
    ...(isMain ? { target: ">= 0.5", met: share(none) >= 0.5 } : {}),
  });
  figures.record({
    metric: `the same and a node run${at}`,
    value: one.of(rate),
    unit: "/s",
    yardstick: perSecond,
  });
  figures.record({
    metric: `the same, 3 nodes${at}`,
    value: three.of(rate),
    unit: "/s",
    yardstick: perSecond,
    ...(isMain ? { target: ">= 4000/s, 0.35", met: three.of(rate) >= 4_000 && share(three) >= 0.35 } : {}),
  });
  figures.record({
    metric: `accept p50${at}`,
    value: one.of(p50),
    unit: "ms",
    yardstick: { name, value: sqlite.of(p50) },
    ...(isAlone ? { target: "< 1 ms", met: one.of(p50) < 1 } : {}),
  });
  figures.record({
    metric: `accept p99${at}`,
    value: one.of(p99),
    unit: "ms",
    yardstick: { name, value: sqlite.of(p99) },
  });
  if (isAlone) {
    const value = three.of(p50);
    figures.record({ metric: `3 nodes p50${at}`, value, unit: "ms", target: "< 2 ms", met: value < 2 });
  }
  const used = (metric: string, read: (each: Loaded) => number) =>
    figures.record({
      metric: `${metric}${at}`,
      value: one.of(read),
      unit: "us",
      yardstick: { name, value: sqlite.of(read) },
    });
  used("CPU a webhook", (each) => each.cpu_us);
  used("of it the main thread", (each) => each.main_us);
}

export const acceptSuite: Suite = {
  name: "accept",
  async run(bench) {
    for (const connections of bench.connections) await measure(bench, connections);
  },
};
