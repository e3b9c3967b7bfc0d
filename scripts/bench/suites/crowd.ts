/**
 * What a crowd at the door costs those who come in: the p99 of an incoming webhook, alone and while idle and slow
 * connections are open. Alone and crowded take turns, and the medians are compared, because the machine has other
 * things to do as well.
 */
import { gather } from "../crowd.ts";
import type { LoadResult } from "../load.ts";
import { BODY, hookOf, loadOnce, median, say, withErrand } from "../measure.ts";
import type { Suite } from "../suite.ts";

const IDLE = 10_000;
const SLOW = 500;
const CONNECTIONS = 4;
// Many short turns: a disk that is slow for a moment is slow for one of them.
const SECONDS = 2;
const TURNS = 4;
const MOST_RAISED = 0.2;

type Round = { alone: LoadResult; crowded: LoadResult };

export const crowd: Suite = {
  name: "crowd",
  async run({ figures, repeat, seconds }) {
    const rounds: Round[] = [];
    await withErrand(async (errand, key) => {
      const url = await hookOf(errand, key);
      const plan = { url, connections: CONNECTIONS, body: BODY, seconds: Math.min(SECONDS, seconds) };
      await loadOnce(plan);
      for (let round = 1; round <= repeat * TURNS; round++) {
        const alone = await loadOnce(plan);
        const others = await gather(url, IDLE, SLOW);
        const crowded = await loadOnce(plan);
        await others.leave();
        const { idle, slow } = others.held;
        if (idle < IDLE || slow < SLOW) throw new Error(`only ${idle} idle and ${slow} slow are connected`);
        say(`crowd, round ${round}: p99 ${alone.p99_ms} ms alone, ${crowded.p99_ms} ms crowded`);
        rounds.push({ alone, crowded });
      }
    });
    const of = (read: (result: LoadResult) => number) => ({
      value: median(rounds.map(({ crowded }) => read(crowded))),
      yardstick: { name: "without them", value: median(rounds.map(({ alone }) => read(alone))) },
    });
    const beside = `beside ${IDLE} idle and ${SLOW} slow`;
    figures.record({ metric: `accept p50 ${beside}`, unit: "ms", ...of(({ p50_ms }) => p50_ms) });
    const slowest = of(({ p99_ms }) => p99_ms);
    figures.record({
      metric: `accept p99 ${beside}`,
      unit: "ms",
      ...slowest,
      target: `< ${1 + MOST_RAISED}`,
      met: slowest.value < slowest.yardstick.value * (1 + MOST_RAISED),
    });
  },
};
