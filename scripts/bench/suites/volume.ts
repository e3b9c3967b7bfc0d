/**
 * What much of everything costs: pages of a list over a million runs, what requests notice while history is pruned,
 * a start with a hundred thousand orphaned jobs, a queue, and a hundred thousand runs that wait.
 */
import type { Errand, Key } from "../../lib/errand.ts";
import type { Figure, Figures } from "../figures.ts";
import { writeHistory, writeOrphans, writeWaiting } from "../history.ts";
import { cpu, memory, say, spread, startOn, timed, withFolder, withRunning } from "../measure.ts";
import type { Suite } from "../suite.ts";

const ORPHANS = 100_000;
const WAITING = 100_000;
const QUEUED = 1_000;
// A tenth of what is on record.
const PRUNED = 0.1;
const PAGES = 200;
const WATCHED_MS = 4_000;
const SETTLED_MS = 2_000;

const below = (most: number, unit: string, value: number): Pick<Figure, "target" | "met"> => ({
  target: `< ${most} ${unit}`,
  met: value < most,
});

const threeNodes = ["a", "b", "c"].map((name) => ({
  node_type_name: "set_variables",
  name,
  input_config: { variables: { n: 1 } },
}));
const longWait = [{ node_type_name: "wait", name: "wait", input_config: { seconds: 300 * 86_400 } }];

/** A workflow and one run of it; its id. */
async function ranOnce(data: string, key: Key, nodes: object[], state: string): Promise<string> {
  return withRunning(data, key, async (errand) => {
    const path = `/api/workflows?workspace_id=${key.workspace_id}`;
    const { id } = (await errand.api<{ id: string }>("POST", path, { nodes })).body;
    await errand.api("POST", `/api/workflows/${id}/executions`, {});
    for (const until = performance.now() + 30_000; ; ) {
      const { headers } = await errand.api("GET", `/api/executions?status=${state}&limit=1`);
      if (headers.get("x-total-count") === "1") return id;
      if (performance.now() > until) throw new Error(`no run came to be ${state}`);
    }
  });
}

async function lists(figures: Figures, errand: Errand, workflow_id: string, runs: number): Promise<void> {
  const here = `/api/workflows/${workflow_id}/executions`;
  const middle = new Date(Date.now() - runs * 500).toISOString();
  const pages: Record<string, string> = {
    "first page of a workflow": here,
    "first page of the project": "/api/executions?limit=100",
    "failed ones": `${here}?status=failed`,
    "until the middle": `${here}?until=${middle}`,
    "failed, since and until": `/api/executions?status=failed&until=${middle}&since=2020-01-01`,
    "by a common source": `${here}?trigger_source=webhook`,
    "by a rare source": `${here}?trigger_source=rare`,
    "by a source nobody has": `${here}?trigger_source=nobody`,
    "offset 10,000": `${here}?offset=10000`,
  };
  const { p99: least } = await timed(PAGES, () => errand.api("GET", "/api/me"));
  const tell = (name: string, value: number) =>
    figures.record({
      metric: `${name}, p99`,
      value,
      unit: "ms",
      yardstick: { name: "/api/me", value: least },
      ...below(10, "ms", value),
    });
  for (const [name, path] of Object.entries(pages))
    tell(name, (await timed(PAGES, () => errand.api("GET", path))).p99);
  let next: string | undefined = here;
  const walk = await timed(PAGES, async () => {
    const answer = await errand.api("GET", next ?? here);
    next = answer.headers.get("link")?.match(/<([^>]+)>; rel="next"/)?.[1];
  });
  tell("page after page by Link", walk.p99);
}

async function prune(figures: Figures, errand: Errand, workflow_id: string, runs: number): Promise<void> {
  const start = () => errand.api("POST", `/api/workflows/${workflow_id}/executions`, {});
  const alone = await timed(500, start);
  const age = Math.ceil((runs * (1 - PRUNED)) / 3_600);
  const begun = performance.now();
  let isDone = false;
  const pruning = errand.command("prune", "--older-than", `${age}h`, "--json").then((result) => {
    isDone = true;
    return result;
  });
  const times: number[] = [];
  while (!isDone) {
    const from = performance.now();
    await start();
    times.push(performance.now() - from);
  }
  const { executions } = JSON.parse((await pruning).stdout) as { executions: number };
  const rate = executions / ((performance.now() - begun) / 1_000);
  figures.record({ metric: "pruned beside requests", value: rate, unit: "/s" });
  figures.record({
    metric: "a start while history is pruned, p99",
    value: spread(times).p99,
    unit: "ms",
    yardstick: { name: "nothing pruned", value: alone.p99 },
  });
}

/** From a start's first answer until the last of so many queued runs of three nodes has ended. */
const queue = (figures: Figures): Promise<void> =>
  withFolder(async (data, key) => {
    await ranOnce(data, key, threeNodes, "success");
    writeOrphans(data, key, QUEUED);
    await withRunning(data, key, async (errand) => {
      const began = performance.now();
      for (let left = QUEUED; left > 0; ) {
        const { headers } = await errand.api("GET", "/api/executions?status=running&limit=1");
        left = Number(headers.get("x-total-count"));
      }
      const value = performance.now() - began;
      figures.record({
        metric: `${QUEUED} queued runs of 3 nodes done`,
        value,
        unit: "ms",
        ...below(500, "ms", value),
      });
    });
  });

const rested = (data: string, key: Key) =>
  withRunning(data, key, async (errand) => {
    await Bun.sleep(SETTLED_MS);
    const before = cpu(errand.pid).all;
    await Bun.sleep(WATCHED_MS);
    return { rss: memory(errand.pid), share: (cpu(errand.pid).all - before) / (WATCHED_MS * 10) };
  });

/** Many runs that wait, beside a program that has one. */
const waiting = (figures: Figures): Promise<void> =>
  withFolder(async (data, key) => {
    await ranOnce(data, key, longWait, "waiting");
    const one = await rested(data, key);
    writeWaiting(data, WAITING);
    const many = await rested(data, key);
    const more = many.rss - one.rss;
    const metric = `memory for ${WAITING} runs that wait`;
    figures.record({ metric, value: more, unit: "MB", ...below(50, "MB", more) });
    figures.record({
      metric: `CPU of one core with ${WAITING} runs that wait`,
      value: many.share,
      unit: "%",
      ...below(1, "%", many.share),
    });
  });

async function orphaned(figures: Figures, data: string, key: Key): Promise<void> {
  const errand = await startOn(data, key);
  const value = errand.startedInMs;
  await errand.stop();
  figures.record({
    metric: `start with ${ORPHANS} orphaned jobs`,
    value,
    unit: "ms",
    ...below(1_000, "ms", value),
  });
}

export const volume: Suite = {
  name: "volume",
  async run({ figures, sizes }) {
    const runs = Math.max(...sizes);
    await waiting(figures);
    await queue(figures);
    await withFolder(async (data, key) => {
      const workflow_id = await ranOnce(data, key, threeNodes, "success");
      writeHistory(data, runs);
      say(`volume, ${runs} runs on record ...`);
      await withRunning(data, key, async (errand) => {
        await lists(figures, errand, workflow_id, runs);
        await prune(figures, errand, workflow_id, runs);
      });
      writeOrphans(data, key, ORPHANS);
      await orphaned(figures, data, key);
    });
  },
};
