/** One agent among many: how it speaks, a page of them, and the start. */
import { writeAgents } from "../../history.ts";
import { withFolder, withRunning } from "../../measure.ts";
import type { Suite } from "../../suite.ts";
import { BRIEF, createAgent, type Server, speakingBy, withModelServer } from "../../voices.ts";
import {
  type Measured,
  pages,
  rounds,
  SPOKEN,
  STARTED,
  speaks,
  starts,
  type Told,
  tellAll,
} from "./measured.ts";

const AGENTS = [1, 100, 10_000];

const beside = (count: number, model: Server): Promise<Measured> =>
  withFolder(async (data, key) => {
    const agent = await withRunning(data, key, (errand) => createAgent(errand, key, BRIEF));
    writeAgents(data, count);
    const started = await starts(data, key);
    const spoken = await withRunning(
      data,
      key,
      async (errand) => ({
        ...(await speaks(errand, key, model, agent)),
        ...(await pages("page of 100 agents", errand, `/api/agents?workspace_id=${key.workspace_id}`)),
      }),
      speakingBy(model),
    );
    return { ...spoken, ...started };
  });

const TOLD: Record<string, Told> = {
  ...SPOKEN,
  "page of 100 agents, p50": { unit: "ms" },
  "page of 100 agents, p99": { unit: "ms" },
  ...STARTED,
};

export const growthByAgents: Suite = {
  name: "growth-agents",
  async run(bench) {
    const measured = await withModelServer((model) =>
      rounds(bench, AGENTS, "agents", (count) => beside(count, model)),
    );
    const charts = tellAll(bench, TOLD, AGENTS, "agents", measured);
    bench.draw("growth-agents", "The main figures by how many agents there are", charts);
  },
};
