/** What every curve of growth is made of: the same figures again at another size, and how they are told. */
import type { Errand, Key } from "../../../lib/errand.ts";
import { type Chart, short } from "../../chart.ts";
import { BODY, cpu, load, loadOnce, median, memory, say, startOn, timed } from "../../measure.ts";
import type { Bench } from "../../suite.ts";
import { asking, BRIEF, burst, direct, read, type Server, watched } from "../../voices.ts";

export type Measured = Record<string, number>;
export type Told = { unit: string; target?: string; met?: (value: number) => boolean };

const CONNECTIONS = 64;
const STARTS = 5;
const PAGES = 300;
const FIRST_WORDS = 200;
const BURST = 20_000;
const BURSTS = 16;
// A load leaves history too: a small one would not be small any more at its end.
const LOAD_SECONDS = 3;
export const secondsOf = ({ seconds }: Bench): number => Math.min(LOAD_SECONDS, seconds);

const medians = (rounds: Measured[]): Measured =>
  Object.fromEntries(
    Object.keys(rounds[0]!).map((name) => [name, median(rounds.map((round) => round[name]!))]),
  );

/**
 * The medians of each size. The sizes take turns within a round: what the machine does from one minute to the next
 * is no curve.
 */
export async function rounds(
  { repeat }: Bench,
  sizes: number[],
  of: string,
  measure: (size: number) => Promise<Measured>,
): Promise<Measured[]> {
  const seen: Measured[][] = sizes.map(() => []);
  for (let round = 1; round <= repeat; round++) {
    for (const [n, size] of sizes.entries()) {
      const began = performance.now();
      seen[n]!.push(await measure(size));
      const seconds = ((performance.now() - began) / 1_000).toFixed(0);
      say(`growth, ${short(size)} ${of}, round ${round} of ${repeat}: ${seconds} s`);
    }
  }
  return seen.map(medians);
}

/** One figure for each size, its ratio to that of the smallest; the curve of it. */
export function tell(
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
      ...(target && met ? { target, met: met(value) } : {}),
    });
  }
  return { title: what, unit, x: of, at: sizes, lines: [{ name: what, values }] };
}

/** All of them, and the curves worth a picture: a p99 says more of a busy machine than of the program. */
export function tellAll(
  bench: Bench,
  told: Record<string, Told>,
  sizes: number[],
  of: string,
  measured: Measured[],
): Chart[] {
  const charts = Object.entries(told).map(([what, as]) => tell(bench, what, sizes, of, as, measured));
  return charts.filter(({ title }) => !title.endsWith("p99"));
}

export async function starts(data: string, key: Key): Promise<Measured> {
  const times: number[] = [];
  const rss: number[] = [];
  for (let n = 0; n < STARTS; n++) {
    const errand = await startOn(data, key);
    times.push(errand.startedInMs);
    rss.push(memory(errand.pid));
    await errand.stop();
  }
  return { "start-up to first answer": median(times), "RSS after the start": median(rss) };
}

export const STARTED: Record<string, Told> = {
  "start-up to first answer": { unit: "ms" },
  "RSS after the start": { unit: "MB" },
};

/** Accepted and run, one after the other and many at once; CPU of the latter, which a busy machine changes least. */
export async function accepts(errand: Errand, url: string, seconds: number): Promise<Measured> {
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

export const ACCEPTED: Record<string, Told> = {
  "accept p50, 1 connection": { unit: "ms" },
  [`accept and run, ${CONNECTIONS} connections`]: { unit: "/s" },
  "CPU a webhook": { unit: "us" },
};

/** A figure of the page and its slowest hundredth, which on a machine with other things to do tells of those. */
export async function pages(name: string, errand: Errand, path: string): Promise<Measured> {
  const { p50, p99 } = await timed(PAGES, async () => {
    const { status } = await errand.api("GET", path);
    if (status !== 200) throw new Error(`${path} answered ${status}`);
  });
  return { [`${name}, p50`]: p50, [`${name}, p99`]: p99 };
}

/** What the agent adds to its model's first word, and CPU a word where they come as fast as they are taken. */
export async function speaks(errand: Errand, key: Key, model: Server, agent: string): Promise<Measured> {
  const by = (name: string) => errand.api("PUT", `/api/agents/${agent}`, { model: `openai/${name}` });
  const way = asking(errand, key, agent);
  await by(BRIEF);
  await read(way, 1, FIRST_WORDS / 2);
  const bare = await read(direct(model, BRIEF), 1, FIRST_WORDS);
  const stored = await read(way, 1, FIRST_WORDS);
  await by(burst(BURST));
  await read(way, 1, 2);
  const { result, us } = await watched(errand, () => read(way, 1, BURSTS));
  return {
    "added to the first token, p50": stored.first_p50 - bare.first_p50,
    "CPU a token in a burst": us / result.tokens,
  };
}

export const SPOKEN: Record<string, Told> = {
  "added to the first token, p50": { unit: "ms" },
  "CPU a token in a burst": { unit: "us" },
};
