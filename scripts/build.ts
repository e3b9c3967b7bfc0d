/**
 * Builds the one executable: `bun scripts/build.ts [--target bun-linux-arm64] [--outfile dist/errand]`.
 * The same commit gives the same bytes but for some ten of what Bun parses ahead: no build time, no path and no host
 * name goes into it.
 */
import { mkdirSync, mkdtempSync, renameSync, rmSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { compile, HOST_TARGET } from "./lib/executable.ts";

const root = resolve(import.meta.dir, "..");
const { values } = parseArgs({
  options: {
    target: { type: "string", default: HOST_TARGET },
    outfile: { type: "string", default: join(root, "dist", "errand") },
  },
});

const outfile = resolve(values.outfile);
mkdirSync(dirname(outfile), { recursive: true });
// Whole or not at all: somebody may start the old one while the new one is written.
const scratch = mkdtempSync(join(dirname(outfile), ".build-"));
const unfinished = join(scratch, basename(outfile));
process.chdir(root);
const begun = performance.now();
try {
  await compile({ outfile: unfinished, target: values.target });
  renameSync(unfinished, outfile);
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
const mebibytes = (statSync(outfile).size / 1_048_576).toFixed(1);
console.log(`${outfile}  ${mebibytes} MiB  ${Math.round(performance.now() - begun)} ms`);
