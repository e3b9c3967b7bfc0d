import { hookOf, median, say, subscribe } from "../measure.ts";
import type { ReadResult } from "../readers.ts";
import type { Bench, Suite } from "../suite.ts";
import {
  BRIEF,
  burst,
  direct,
  json,
  read,
  relayOf,
  through,
  type Way,
  watched,
  withModel,
} from "../voices.ts";

const ROUNDS = 300;
const BURST = 20_000;
const HANGING = 400;

async function firstToken({ figures, repeat }: Bench): Promise<void> {
  const rounds = await withModel(async ({ errand, key, model }) => {
    const way = await through(errand, key, BRIEF);
    const chat = await through(errand, key, BRIEF, "chat");
    await read(way, 1, ROUNDS);
    const seen: { bare: number; stored: number; chat: number }[] = [];
    for (let round = 1; round <= repeat; round++) {
      say(`streams, first token, round ${round} of ${repeat} ...`);
      seen.push({
        bare: (await read(direct(model, BRIEF), 1, ROUNDS)).first_p50,
        stored: (await read(way, 1, ROUNDS)).first_p50,
        chat: (await read(chat, 1, ROUNDS)).first_p50,
      });
    }
    return seen;
  });
  const bare = median(rounds.map((one) => one.bare));
  const added = median(rounds.map((one) => one.stored - one.bare));
  const chat = median(rounds.map((one) => one.chat - one.bare));
  figures.record({ metric: "yardstick: first token of the model p50", value: bare, unit: "ms" });
  figures.record({
    metric: "added to it by an agent",
    value: added,
    unit: "ms",
    target: "< 2 ms",
    met: added < 2,
  });
  figures.record({ metric: "added by OpenAI's door, nothing stored", value: chat, unit: "ms" });
}

async function perToken({ figures, repeat }: Bench): Promise<void> {
  for (const protocol of ["data-stream", "ui-message-stream", "chat"]) {
    const costs = await withModel(async ({ errand, key }) => {
      const way = await through(errand, key, burst(BURST), protocol);
      await read(way, 1, 2);
      const seen: number[] = [];
      for (let round = 1; round <= repeat; round++) {
        const { result, us } = await watched(errand, () => read(way, 1, 3));
        seen.push(us / result.tokens);
      }
      return seen;
    });
    const value = median(costs);
    figures.record({
      metric: `CPU a token in a burst, ${protocol}`,
      value,
      unit: "us",
      target: "< 40 us",
      met: value < 40,
    });
  }
}

/** The share of one core, for readers of so many streams, and how long a token is on its way. */
type Load = { share: number; steady: number; rss: number; us: number; result: ReadResult };

async function loaded(at: { pid: number }, way: Way, streams: number): Promise<Load> {
  const { result, share, steady, rss, us } = await watched(at, () => read(way, streams, 1));
  return { result, share: share * 100, steady: steady * 100, rss, us: us / result.tokens };
}

async function many(
  bench: Bench,
  streams: number,
  interval: number,
  limits?: { share: number; rss: number },
): Promise<void> {
  const { figures, repeat, seconds } = bench;
  const name = `paced:${interval}:${Math.ceil((Math.max(seconds, 8) * 1_000) / interval)}`;
  const relayed: Load[] = [];
  const seen: Load[] = [];
  for (let round = 1; round <= repeat; round++) {
    say(`streams, ${streams} at ${1_000 / interval} tokens/s, round ${round} of ${repeat} ...`);
    await withModel(async ({ errand, key, model }) => {
      const relay = await relayOf(model);
      await read({ ...direct(model, burst(200)), url: `${relay.url}/` }, 20, 10);
      relayed.push(await loaded(relay, { ...direct(model, name), url: `${relay.url}/` }, streams));
      relay.end();
      await read(await through(errand, key, burst(200)), 20, 10);
      seen.push(await loaded(errand, await through(errand, key, name), streams));
    });
  }
  const record = (metric: string, unit: string, of: (one: Load) => number, target?: number) => {
    const value = median(seen.map(of));
    figures.record({
      metric: `${metric}, ${streams} streams`,
      value,
      unit,
      yardstick: { name: "bare relay", value: median(relayed.map(of)) },
      ...(target === undefined ? {} : { target: `< ${target} ${unit}`, met: value < target }),
    });
  };
  record("CPU of one core while all are open", "%", ({ steady }) => steady, limits?.share);
  record("CPU of one core, opening and ending included", "%", ({ share }) => share);
  record("RSS", "MB", ({ rss }) => rss, limits?.rss);
  record("CPU a token", "us", ({ us }) => us);
  record("a token's way p50", "ms", ({ result }) => result.delay_p50);
  record("a token's way p99", "ms", ({ result }) => result.delay_p99);
}

/** 50 streams, while deliveries to receivers that never answer are under way. */
async function besideHanging({ figures }: Bench): Promise<void> {
  say(`streams beside ${HANGING} hanging receivers ...`);
  const receiver = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    fetch: () => new Promise<Response>(() => {}),
  });
  try {
    await withModel(async ({ errand, key }) => {
      const way = await through(errand, key, "paced:20:200");
      const alone = await read(way, 50, 1);
      const hook = await hookOf(errand, key);
      for (let n = 0; n < HANGING; n++) await subscribe(errand, `http://127.0.0.1:${receiver.port}/${n}`);
      await (
        await fetch(hook, {
          method: "POST",
          headers: json,
          body: JSON.stringify({ input_data: { name: "Ada" } }),
        })
      ).text();
      await Bun.sleep(500);
      const beside = await read(way, 50, 1);
      const name = "without them";
      figures.record({
        metric: `first token p99 beside ${HANGING} hanging receivers`,
        value: beside.first_p99,
        unit: "ms",
        yardstick: { name, value: alone.first_p99 },
      });
      figures.record({
        metric: "a token's way p99 beside them",
        value: beside.delay_p99,
        unit: "ms",
        yardstick: { name, value: alone.delay_p99 },
      });
      // Before the program, which gives what is under way its time.
      await receiver.stop(true);
    });
  } finally {
    await receiver.stop(true);
  }
}

/** What an agent adds to its model, by itself and for many readers. */
export const streams: Suite = {
  name: "streams",
  async run(bench) {
    await firstToken(bench);
    await perToken(bench);
    await many(bench, 500, 20, { share: 45, rss: 220 });
    await many(bench, 1_500, 100);
    await besideHanging(bench);
  },
};
