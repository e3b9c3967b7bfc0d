/**
 * Measures Errand beside yardsticks taken in the same minutes on the same machine, and prints a table or one
 * line of JSON a figure. Absolute numbers say something about this machine; ratios say it of Errand.
 * Loads come from wrk where it is installed, else from load.ts.
 *
 *     scripts/bench/run [--only start,accept,deliver,streams,cold,growth] [--connections 1,64] [--seconds 5]
 *                       [--repeat 3] [--sizes 1000,100000,1000000] [--json] [--save FILE] [--compare FILE]
 *                       [--charts DIR]
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
import { deliver } from "./suites/deliver.ts";
import { growth } from "./suites/growth.ts";
import { start } from "./suites/start.ts";
import { streams } from "./suites/streams.ts";
import { hasWrk } from "./wrk.ts";

const SUITES: Suite[] = [start, acceptSuite, deliver, streams, cold, growth];

const { values: flags } = parseArgs({
  options: {
    only: { type: "string", default: SUITES.map(({ name }) => name).join(",") },
    connections: { type: "string", default: "1,64" },
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
  console.log(`usage: scripts/bench/run [--only ${SUITES.map(({ name }) => name).join(",")}] [--connections 1,64]
                         [--seconds 5] [--repeat 3] [--sizes 1000,100000,1000000] [--json] [--save FILE]
                         [--compare FILE] [--charts DIR]`);
  process.exit(0);
}
const wanted = flags.only.split(",");
const unknown = wanted.filter((name) => !SUITES.some((suite) => suite.name === name));
if (unknown.length > 0) {
  console.error(
    `error: no suite ${unknown.join(", ")}; there are ${SUITES.map(({ name }) => name).join(", ")}`,
  );
  process.exit(2);
}

say(`loads by ${hasWrk() ? "wrk" : "load.ts (wrk is not installed)"}`);
const figures = createFigures({ json: flags.json });
function draw(...[file, title, charts]: Parameters<Bench["draw"]>): void {
  if (!flags.charts) return;
  mkdirSync(flags.charts, { recursive: true });
  writeFileSync(join(flags.charts, `${file}.svg`), svgOf(title, charts));
}
for (const suite of SUITES) {
  if (!wanted.includes(suite.name)) continue;
  await suite.run({
    figures,
    seconds: Number(flags.seconds),
    repeat: Number(flags.repeat),
    connections: flags.connections.split(",").map(Number),
    sizes: flags.sizes.split(",").map(Number),
    draw,
  });
}
if (flags.save) figures.save(flags.save);
if (flags.compare) figures.compare(flags.compare);
