/**
 * What much history costs: pages of a list over a million executions, a start with a hundred thousand
 * orphaned jobs, and what requests notice while history is pruned. Against the compiled program, on a
 * database that is written here.
 *
 *     bun scripts/bench/volume.ts [--executions 1000000] [--orphans 100000] [--prune 100000]
 */
import { parseArgs } from "node:util";
import { createKey, discard, type Errand, type Key, scratch, startErrand } from "../lib/errand.ts";
import { writeHistory, writeOrphans } from "./history.ts";
import { type Spread, spread, timed } from "./measure.ts";

const { values: flags } = parseArgs({
  options: {
    executions: { type: "string", default: "1000000" },
    orphans: { type: "string", default: "100000" },
    prune: { type: "string", default: "100000" },
  },
});
const [EXECUTIONS, ORPHANS, PRUNED] = [flags.executions, flags.orphans, flags.prune].map(Number) as [
  number,
  number,
  number,
];
const data = scratch();
const key = await createKey(data);
const args = ["--log-level", "warn", "--retention-days", "0"];

const tell = (text: string) => console.log(text);
async function makeWorkflow(key: Key, folder = data): Promise<string> {
  const { workspace_id } = key;
  const errand = await startErrand({ data: folder, key, args });
  const made = await errand.api<{ id: string }>("POST", `/api/workflows?workspace_id=${workspace_id}`, {
    nodes: ["a", "b", "c"].map((name) => ({
      node_type_name: "set_variables",
      name,
      input_config: { variables: { n: 1 } },
    })),
  });
  await errand.api("POST", `/api/workflows/${made.body.id}/executions`, { response_type: "result" });
  await errand.stop();
  return made.body.id;
}

const spoken = ({ p50, p99, max }: Spread): string =>
  `p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms, max ${max.toFixed(2)} ms`;

async function measureLists(errand: Errand, workflow_id: string): Promise<void> {
  const here = `/api/workflows/${workflow_id}/executions`;
  const middle = new Date(Date.now() - EXECUTIONS * 500).toISOString();
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
  tell(
    `  ${"yardstick: /api/me".padEnd(28)} ${spoken(await timed(200, () => errand.api("GET", "/api/me")))}`,
  );
  for (const [name, path] of Object.entries(pages)) {
    tell(`  ${name.padEnd(28)} ${spoken(await timed(200, () => errand.api("GET", path)))}`);
  }
  let next: string | undefined = here;
  const walk = await timed(300, async () => {
    const answer = await errand.api("GET", next ?? here);
    next = answer.headers.get("link")?.match(/<([^>]+)>; rel="next"/)?.[1];
  });
  tell(`  ${"page after page by Link".padEnd(28)} ${spoken(walk)}`);
}

async function measurePrune(errand: Errand, workflow_id: string): Promise<void> {
  const start = () => errand.api("POST", `/api/workflows/${workflow_id}/executions`, {});
  tell(`  a start, nothing else         ${spoken(await timed(500, start))}`);
  const age = Math.ceil(((EXECUTIONS - PRUNED) * 1_000) / 3_600_000);
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
  const { executions, reclaimed_bytes } = JSON.parse((await pruning).stdout);
  tell(`  a start while it is pruned    ${spoken(spread(times))}`);
  const seconds = ((performance.now() - begun) / 1_000).toFixed(1);
  tell(
    `  ${executions} executions pruned in ${seconds} s, ${Math.round(reclaimed_bytes / 1_048_576)} MiB given back`,
  );
}

const QUEUED = 1_000;

/** From a start's first answer until the last of so many queued runs of three nodes has ended. */
async function measureQueue(): Promise<void> {
  const own = scratch();
  try {
    const its = await createKey(own);
    await makeWorkflow(its, own);
    writeOrphans(own, its, QUEUED);
    const errand = await startErrand({ data: own, key: its, args });
    const began = performance.now();
    let left = QUEUED;
    while (left > 0) {
      const { headers } = await errand.api("GET", "/api/executions?status=running&limit=1");
      left = Number(headers.get("x-total-count"));
    }
    tell(
      `${QUEUED} queued runs of 3 nodes: done ${Math.round(performance.now() - began)} ms after the first answer`,
    );
    await errand.stop();
  } finally {
    discard(own);
  }
}

try {
  const workflow_id = await makeWorkflow(key);
  writeHistory(data, EXECUTIONS);
  tell(`${EXECUTIONS} executions on record`);
  let errand = await startErrand({ data, key, args });
  await measureLists(errand, workflow_id);
  tell(`start with none: first answer after ${Math.round(errand.startedInMs)} ms`);
  tell("history pruned beside the server");
  await measurePrune(errand, workflow_id);
  await errand.stop();
  writeOrphans(data, key, ORPHANS);
  errand = await startErrand({ data, key, args });
  tell(`start with ${ORPHANS} orphaned jobs: first answer after ${Math.round(errand.startedInMs)} ms`);
  await errand.stop();
  await measureQueue();
} finally {
  discard(data);
}
