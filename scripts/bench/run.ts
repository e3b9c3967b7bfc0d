/**
 * Measures Errand beside yardsticks taken in the same minutes on the same machine, and prints a table or one
 * line of JSON a figure. Absolute numbers say something about this machine; ratios say it of Errand.
 * Loads come from wrk where it is installed, else from load.ts.
 *
 *     scripts/bench/run [--only start,accept,...] [--connections 1,16,64,256] [--seconds 5] [--repeat 3]
 *                       [--sizes 1000,100000,1000000] [--json] [--save FILE] [--compare FILE] [--charts DIR]
 *
 * Ends with 1 when a suite could not be measured; the others are.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { svgOf } from "./chart.ts";
import { createFigures } from "./figures.ts";
import { say } from "./measure.ts";
import type { Bench, Suite } from "./suite.ts";
import { acceptSuite } from "./suites/accept.ts";
import { cold } from "./suites/cold.ts";
import { crowd } from "./suites/crowd.ts";
import { deliver } from "./suites/deliver.ts";
import { growthByAgents } from "./suites/growth/agents.ts";
import { growthByRuns } from "./suites/growth/runs.ts";
import { growthByWebhooks } from "./suites/growth/webhooks.ts";
import { start } from "./suites/start.ts";
import { streams } from "./suites/streams.ts";
import { volume } from "./suites/volume.ts";
import { hasWrk } from "./wrk.ts";

const SUITES: Suite[] = [
  start,
  acceptSuite,
  deliver,
  streams,
  crowd,
  cold,
  volume,
  growthByRuns,
  growthByWebhooks,
  growthByAgents,
];
const NAMES = SUITES.map(({ name }) => name);

const { values: flags } = parseArgs({
  options: {
    only: { type: "string", default: NAMES.join(",") },
    connections: { type: "string", default: "1,16,64,256" },
    seconds: { type: "string", default: "5" },
    repeat: { type: "string", default: "3" },
    sizes: { type: "string", default: "1000,100000,1000000" },
    json: { type: "boolean", default: false },
    save: { type: "string" },
    compare: { type: "string" },
    charts: { type: "string" },
    help: { type: "boolean", default: false },
  },
});
if (flags.help) {
  console.log(`usage: scripts/bench/run [--only ${NAMES.join(",")}]
                         [--connections 1,16,64,256] [--seconds 5] [--repeat 3] [--sizes 1000,100000,1000000]
                         [--json] [--save FILE] [--compare FILE] [--charts DIR]
growth means all of growth-*.`);
  process.exit(0);
}
/** `growth` is all of its parts. */
const isOf = (suite: string, asked: string) => suite === asked || suite.startsWith(`${asked}-`);
const wanted = flags.only.split(",");
const unknown = wanted.filter((asked) => !NAMES.some((name) => isOf(name, asked)));
if (unknown.length > 0) {
  console.error(`error: no suite ${unknown.join(", ")}; there are ${NAMES.join(", ")}`);
  process.exit(2);
}

say(`loads by ${hasWrk() ? "wrk" : "load.ts (wrk is not installed)"}`);
const figures = createFigures({ json: flags.json });
function draw(...[file, title, charts]: Parameters<Bench["draw"]>): void {
  if (!flags.charts) return;
  mkdirSync(flags.charts, { recursive: true });
  writeFileSync(join(flags.charts, `${file}.svg`), svgOf(title, charts));
}
const bench: Bench = {
  figures,
  seconds: Number(flags.seconds),
  repeat: Number(flags.repeat),
  connections: flags.connections.split(",").map(Number),
  sizes: flags.sizes.split(",").map(Number),
  draw,
};
for (const suite of SUITES) {
  if (!wanted.some((asked) => isOf(suite.name, asked))) continue;
  const began = performance.now();
  try {
    await suite.run(bench);
  } catch (failure) {
    // The minutes that the others take are not thrown away for it.
    say(`${suite.name} could not be measured: ${failure instanceof Error ? failure.message : failure}`);
    process.exitCode = 1;
  }
  say(`${suite.name} took ${Math.round((performance.now() - began) / 1_000)} s`);
  if (flags.save) figures.save(flags.save);
}
if (flags.compare) figures.compare(flags.compare);
