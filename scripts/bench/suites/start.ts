import { startErrand } from "../../lib/errand.ts";
import { BODY, median, memory, withFolder, yardstick } from "../measure.ts";
import type { Suite } from "../suite.ts";

const STARTS = 10;
const SETTLED = 3;
const SETTLED_MS = 1_500;

type Seen = { ms: number; rss: number };

async function medians(start: (isSettled: boolean) => Promise<{ ms: number; rss?: number }>): Promise<Seen> {
  const times: number[] = [];
  const idle: number[] = [];
  for (let n = 0; n < STARTS; n++) {
    const { ms, rss } = await start(n < SETTLED);
    times.push(ms);
    if (rss !== undefined) idle.push(rss);
  }
  return { ms: median(times), rss: median(idle) };
}

async function settled(pid: number): Promise<number> {
  await Bun.sleep(SETTLED_MS);
  return memory(pid);
}

const errandStarts = (data: string) =>
  medians(async (isSettled) => {
    const errand = await startErrand({ data, args: ["--log-level", "error"] });
    const rss = isSettled ? await settled(errand.pid) : undefined;
    await errand.stop();
    return { ms: errand.startedInMs, ...(rss === undefined ? {} : { rss }) };
  });

/** What the runtime takes to answer a request, and nothing else. */
const bareStarts = () =>
  medians(async (isSettled) => {
    const began = performance.now();
    const bare = await yardstick("bare");
    await (await fetch(bare.url, { method: "POST", body: BODY })).text();
    const ms = performance.now() - began;
    const rss = isSettled ? await settled(bare.pid) : undefined;
    bare.end();
    return { ms, ...(rss === undefined ? {} : { rss }) };
  });

/** From the start of the process to its first answer on an existing folder, and what it holds when idle. */
export const start: Suite = {
  name: "start",
  run: ({ figures }) =>
    withFolder(async (data) => {
      const bare = await bareStarts();
      const { ms, rss } = await errandStarts(data);
      const name = "bare Bun.serve";
      figures.record({
        metric: "start-up to first answer",
        value: ms,
        unit: "ms",
        yardstick: { name, value: bare.ms },
        target: "< 120 ms",
        met: ms < 120,
      });
      figures.record({
        metric: "idle RSS",
        value: rss,
        unit: "MB",
        yardstick: { name, value: bare.rss },
        target: "< 90 MB",
        met: rss < 90,
      });
    }),
};
