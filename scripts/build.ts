/**
 * Builds the one executable: `bun scripts/build.ts [--target bun-linux-arm64] [--outfile dist/errand]`.
 * The same commit gives the same bytes: no build time, no path and no host name goes into it.
 */
import { mkdirSync, mkdtempSync, renameSync, rmSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { version } from "../package.json";

const root = resolve(import.meta.dir, "..");
const { values } = parseArgs({
  options: {
    target: {
      type: "string",
      default: `bun-${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`,
    },
    outfile: { type: "string", default: join(root, "dist", "errand") },
  },
});

function commit(): string {
  const asked = Bun.spawnSync(["git", "rev-parse", "--short=12", "HEAD"], { cwd: root, stderr: "ignore" });
  return asked.success ? asked.stdout.toString().trim() : "unknown";
}

const outfile = resolve(values.outfile);
mkdirSync(dirname(outfile), { recursive: true });
// Whole or not at all: somebody may start the old one while the new one is written.
const scratch = mkdtempSync(join(dirname(outfile), ".build-"));
const unfinished = join(scratch, basename(outfile));
process.chdir(root);
const begun = performance.now();
try {
  const result = await Bun.build({
    // A Worker inside an executable has to be an entry point of its own.
    entrypoints: [join(root, "src/main.ts"), join(root, "src/storage/sqlite/worker.ts")],
    // The Worker's address is made from its neighbour's: flat, both have the same folder inside the file.
    naming: { entry: "[name].[ext]" },
    target: "bun",
    format: "esm",
    // Parsed ahead: halves the time to the first answer.
    bytecode: true,
    // Inside the file: stack traces name our files and lines. The copy beside it is thrown away.
    sourcemap: "linked",
    // Elysia reads the source text of handlers: with renamed identifiers every request fails.
    minify: { whitespace: true, syntax: true, identifiers: false },
    define: {
      "process.env.NODE_ENV": '"production"',
      ERRAND_VERSION: JSON.stringify(version),
      ERRAND_COMMIT: JSON.stringify(commit()),
    },
    compile: {
      target: values.target as "bun-linux-x64",
      outfile: unfinished,
      // A .env or bunfig.toml of whatever folder it is started in is none of its business.
      autoloadDotenv: false,
      autoloadBunfig: false,
      autoloadPackageJson: false,
      autoloadTsconfig: false,
    },
  });
  if (!result.success) throw new AggregateError(result.logs, "the build failed");
  renameSync(unfinished, outfile);
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
const mebibytes = (statSync(outfile).size / 1_048_576).toFixed(1);
console.log(`${outfile}  ${mebibytes} MiB  ${Math.round(performance.now() - begun)} ms`);
