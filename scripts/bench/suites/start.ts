import { createKey, discard, scratch, startErrand } from "../../lib/errand.ts";
import { median, memory } from "../measure.ts";
import type { Suite } from "../suite.ts";

const STARTS = 10;
const SETTLED_MS = 1_500;

/** From the start of the process to its first answer on an existing folder, and what it holds when idle. */
export const start: Suite = {
  name: "start",
  async run({ figures }) {
    const data = scratch();
    await createKey(data);
    const times: number[] = [];
    const idle: number[] = [];
    for (let n = 0; n < STARTS; n++) {
      const errand = await startErrand({ data, args: ["--log-level", "error"] });
      times.push(errand.startedInMs);
      if (n < 3) {
        await Bun.sleep(SETTLED_MS);
        idle.push(memory(errand.pid));
      }
      await errand.stop();
    }
    discard(data);
    const ms = median(times);
    const rss = median(idle);
    figures.record({
      metric: "start-up to first answer",
      value: ms,
      unit: "ms",
      target: "< 120",
      met: ms < 120,
    });
    figures.record({ metric: "idle RSS", value: rss, unit: "MB", target: "< 90", met: rss < 90 });
  },
};
