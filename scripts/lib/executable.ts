import { join, resolve } from "node:path";
import { version } from "../../package.json";

const root = resolve(import.meta.dir, "../..");

export type Executable = {
  outfile: string;
  target: string;
  /** Parsed ahead: halves the time to the first answer. */
  hasBytecode?: boolean;
  /** Inside the file: stack traces name our files and lines. */
  hasSourceMap?: boolean;
};

function commit(): string {
  const asked = Bun.spawnSync(["git", "rev-parse", "--short=12", "HEAD"], { cwd: root, stderr: "ignore" });
  return asked.success ? asked.stdout.toString().trim() : "unknown";
}

/** Compiles the program into `outfile`, and what is left of the build beside it. The folder must be the project's. */
export async function compile({ outfile, target, hasBytecode = true, hasSourceMap = true }: Executable) {
  const result = await Bun.build({
    // A Worker inside an executable has to be an entry point of its own.
    entrypoints: [join(root, "src/main.ts"), join(root, "src/storage/sqlite/worker.ts")],
    // The Worker's address is made from its neighbour's: flat, both have the same folder inside the file.
    naming: { entry: "[name].[ext]" },
    target: "bun",
    format: "esm",
    // What a command imports when it is called is a file of its own and not so much as read before.
    splitting: true,
    bytecode: hasBytecode,
    // The copy beside it is thrown away.
    sourcemap: hasSourceMap ? "linked" : "none",
    // Elysia reads the source text of handlers: with renamed identifiers every request fails.
    minify: { whitespace: true, syntax: true, identifiers: false },
    define: {
      "process.env.NODE_ENV": '"production"',
      ERRAND_VERSION: JSON.stringify(version),
      ERRAND_COMMIT: JSON.stringify(commit()),
    },
    compile: {
      target: target as "bun-linux-x64",
      outfile,
      // A .env or bunfig.toml of whatever folder it is started in is none of its business.
      autoloadDotenv: false,
      autoloadBunfig: false,
      autoloadPackageJson: false,
      autoloadTsconfig: false,
    },
  });
  if (!result.success) throw new AggregateError(result.logs, "the build failed");
}

export const HOST_TARGET = `bun-${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`;
