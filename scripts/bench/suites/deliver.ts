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

/** A run that many webhooks hear of: what a delivery costs, with next to nothing accepted beside it. */
export async function fanOut(seconds: number, listeners: number): Promise<number> {
  const atOnce = Math.min(MOST_RUNS_AT_ONCE, Math.ceil(IN_FLIGHT / listeners));
  const receiver = await yardstick("receiver");
  try {
    return await withErrand(async (errand, key) => {
      const url = await hookOf(errand, key);
      for (let n = 0; n < listeners; n++) await subscribe(errand, receiver.url);
      const fire = async (runs: number) => {
        for (let left = runs; left > 0; left -= atOnce) {
          await Promise.all(Array.from({ length: atOnce }, () => post(url)));
        }
      };
      let sent = 0;
      let rate = 0;
      // Until it has been measured for long enough; what went before is the warm-up.
      for (let runs = atOnce, took = 0; took < seconds; runs *= 2) {
        const began = performance.now();
        await fire(runs);
        sent += runs * listeners;
        await arrived(receiver.url, sent);
        took = (performance.now() - began) / 1_000;
        rate = (runs * listeners) / took;
      }
      return rate;
    });
  } finally {
    receiver.end();
  }
}

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
    const bare: number[] = [];
    const whole: Whole[] = [];
    const fanned: number[] = [];
    for (let round = 1; round <= repeat; round++) {
      say(`deliver, round ${round} of ${repeat} ...`);
      bare.push(await posts());
      whole.push(await endToEnd(seconds));
      fanned.push(await fanOut(seconds, LISTENERS));
    }
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
