import { bytesEach } from "../history.ts";
import {
  arrived,
  BODY,
  bareSignedPosts,
  hookOf,
  loadOnce,
  median,
  memory,
  say,
  subscribe,
  withErrand,
  yardstick,
} from "../measure.ts";
import type { Suite } from "../suite.ts";

const CONNECTIONS = 64;
const POSTS = 20_000;
const LISTENERS = 50;
// Deliveries asked for at a time: enough that they wait for their turn, and not the bench for its runs.
const IN_FLIGHT = 800;
const MOST_RUNS_AT_ONCE = 200;
const WARM_SECONDS = 2;

type Whole = { rate: number; rss: number; bytes: number };

/** Everything accepted and delivered, over the time from the first request to the last delivery. */
async function endToEnd(seconds: number): Promise<Whole> {
  const receiver = await yardstick("receiver");
  try {
    return await withErrand(async (errand, key) => {
      const url = await hookOf(errand, key);
      await subscribe(errand, receiver.url);
      const plan = { url, connections: CONNECTIONS, seconds, body: BODY };
      const warmUp = (await loadOnce(plan)).requests;
      await arrived(receiver.url, warmUp);
      const began = performance.now();
      const { requests } = await loadOnce(plan);
      await arrived(receiver.url, warmUp + requests);
      return {
        rate: requests / ((performance.now() - began) / 1_000),
        rss: memory(errand.pid),
        bytes: bytesEach(errand.data, "deliveries", "attempts", "events"),
      };
    });
  } finally {
    receiver.end();
  }
}

type Burst = { seconds: number; rate: number };

/** Runs that many webhooks hear of: `burst` starts so many and waits until all of them have arrived everywhere. */
async function withListeners<T>(
  listeners: number,
  use: (burst: (runs: number) => Promise<Burst>) => Promise<T>,
): Promise<T> {
  const receiver = await yardstick("receiver");
  try {
    return await withErrand(async (errand, key) => {
      const url = await hookOf(errand, key);
      for (let n = 0; n < listeners; n++) await subscribe(errand, receiver.url);
      let sent = 0;
      return use(async (runs) => {
        const began = performance.now();
        for (let left = runs; left > 0; left -= atOnceFor(listeners))
          await Promise.all(Array.from({ length: atOnceFor(listeners) }, () => post(url)));
        sent += runs * listeners;
        await arrived(receiver.url, sent);
        const seconds = (performance.now() - began) / 1_000;
        return { seconds, rate: (runs * listeners) / seconds };
      });
    });
  } finally {
    receiver.end();
  }
}

const atOnceFor = (listeners: number): number =>
  Math.min(MOST_RUNS_AT_ONCE, Math.ceil(IN_FLIGHT / listeners));

/** A burst of at least so many seconds; what went before is the warm-up. */
async function longBurst(
  listeners: number,
  seconds: number,
  burst: (runs: number) => Promise<Burst>,
): Promise<Burst & { runs: number }> {
  for (let runs = atOnceFor(listeners); ; runs *= 2) {
    const seen = await burst(runs);
    if (seen.seconds >= seconds) return { ...seen, runs };
  }
}

/** What a delivery costs, with next to nothing accepted beside it. */
export const fanOut = (seconds: number, listeners: number): Promise<number> =>
  withListeners(listeners, async (burst) => (await longBurst(listeners, seconds, burst)).rate);

/** The same and bare signed POSTs, in turns: what is compared has to have been measured in the same seconds. */
const fanOutInTurns = (turns: number): Promise<{ bare: number[]; fanned: number[] }> =>
  withListeners(LISTENERS, async (burst) => {
    const seen: { bare: number[]; fanned: number[] } = { bare: [], fanned: [] };
    const { runs } = await longBurst(LISTENERS, WARM_SECONDS, burst);
    for (let turn = 0; turn < turns; turn++) {
      seen.bare.push(await posts());
      seen.fanned.push((await burst(runs)).rate);
    }
    return seen;
  });

async function post(url: string): Promise<void> {
  const headers = { "content-type": "application/json" };
  await (await fetch(url, { method: "POST", headers, body: BODY })).text();
}

async function posts(): Promise<number> {
  const receiver = await yardstick("receiver");
  try {
    return await bareSignedPosts(receiver.url, POSTS);
  } finally {
    receiver.end();
  }
}

/** One at a time: from the request's first byte to the delivery's arrival. */
async function unloaded(rounds: number): Promise<number> {
  let done: (() => void) | undefined;
  const receiver = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => {
      done?.();
      return new Response(null, { status: 204 });
    },
  });
  try {
    return await withErrand(async (errand, key) => {
      const hook = await hookOf(errand, key);
      await subscribe(errand, `http://127.0.0.1:${receiver.port}/`);
      const times: number[] = [];
      for (let n = 0; n < rounds; n++) {
        const delivered = new Promise<void>((resolve) => {
          done = resolve;
        });
        const began = performance.now();
        await post(hook);
        await delivered;
        if (n >= rounds / 10) times.push(performance.now() - began);
      }
      return median(times);
    });
  } finally {
    receiver.stop(true);
  }
}

export const deliver: Suite = {
  name: "deliver",
  async run({ figures, seconds, repeat }) {
    const whole: Whole[] = [];
    for (let round = 1; round <= repeat; round++) {
      say(`deliver, round ${round} of ${repeat} ...`);
      whole.push(await endToEnd(seconds));
    }
    const turns = Math.ceil((seconds * repeat) / WARM_SECONDS);
    say(`deliver, ${turns} turns ...`);
    const { bare, fanned } = await fanOutInTurns(turns);
    const yardstick = { name: "bare signed POSTs", value: median(bare) };
    figures.record({ metric: "yardstick: bare signed POSTs", value: yardstick.value, unit: "/s" });
    const rate = median(whole.map((each) => each.rate));
    figures.record({
      metric: "webhook to signed delivery",
      value: rate,
      unit: "/s",
      yardstick,
      target: ">= 3000/s",
      met: rate >= 3_000,
    });
    const fan = median(fanned);
    figures.record({
      metric: `deliveries of runs that ${LISTENERS} webhooks hear of`,
      value: fan,
      unit: "/s",
      yardstick,
      target: ">= 8000/s, 0.5",
      met: fan >= 8_000 && fan / yardstick.value >= 0.5,
    });
    figures.record({
      metric: "RSS after end to end",
      value: median(whole.map((each) => each.rss)),
      unit: "MB",
    });
    figures.record({
      metric: "bytes on disk a delivery and its event",
      value: median(whole.map((each) => each.bytes)),
      unit: "B",
    });
    const alone = await unloaded(1_000);
    figures.record({
      metric: "unloaded end to end p50",
      value: alone,
      unit: "ms",
      target: "< 3 ms",
      met: alone < 3,
    });
  },
};
