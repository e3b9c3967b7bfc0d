/**
 * What a crowd at the door costs those who come in: the p99 of an incoming webhook, alone and while idle and slow
 * connections are open. Alone and crowded take turns, and the medians are compared, because the machine has other
 * things to do as well.
 */
import { gather } from "../crowd.ts";
import { BODY, hookOf, loadOnce, median, say, withErrand } from "../measure.ts";
import type { Suite } from "../suite.ts";

const IDLE = 10_000;
const SLOW = 500;
const CONNECTIONS = 4;
const SECONDS = 4;
const MOST_RAISED = 0.2;

type Round = { alone: number; crowded: number };

export const crowd: Suite = {
  name: "crowd",
  async run({ figures, repeat, seconds }) {
    const rounds: Round[] = [];
    await withErrand(async (errand, key) => {
      const url = await hookOf(errand, key);
      const plan = { url, connections: CONNECTIONS, body: BODY, seconds: Math.min(SECONDS, seconds) };
      await loadOnce(plan);
      for (let round = 1; round <= repeat * 2; round++) {
        const alone = await loadOnce(plan);
        const others = await gather(url, IDLE, SLOW);
        const crowded = await loadOnce(plan);
        await others.leave();
        const { idle, slow } = others.held;
        if (idle < IDLE || slow < SLOW) throw new Error(`only ${idle} idle and ${slow} slow are connected`);
        say(`crowd, round ${round}: p99 ${alone.p99_ms} ms alone, ${crowded.p99_ms} ms crowded`);
        rounds.push({ alone: alone.p99_ms, crowded: crowded.p99_ms });
      }
    });
    const before = median(rounds.map(({ alone }) => alone));
    const after = median(rounds.map(({ crowded }) => crowded));
    figures.record({
      metric: `accept p99 beside ${IDLE} idle and ${SLOW} slow`,
      value: after,
      unit: "ms",
      yardstick: { name: "without them", value: before },
      target: `< ${1 + MOST_RAISED}`,
      met: after < before * (1 + MOST_RAISED),
    });
  },
};
