// For Node 20 and newer, and for Bun, before anything is installed: no dependency and no TypeScript here.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
export const binary = join(root, "dist", process.platform === "win32" ? "errand.exe" : "errand");
const modules = join(root, "node_modules");

/** Installs from the lockfile when node_modules does not hold what that says. */
export function install() {
  if (isInstalled()) return;
  const withBun = process.versions.bun !== undefined;
  const [command, args] = withBun
    ? [process.execPath, ["install", "--frozen-lockfile"]]
    : npm(["ci", "--loglevel=error"]);
  console.error(withBun ? "installing: bun install --frozen-lockfile" : "installing: npm ci");
  run(command, args, "the installation failed");
  if (withBun) writeFileSync(bunMark, lockHash());
}

// npm leaves a list of what it installed. Bun leaves none, so what it installed from is marked.
const bunMark = join(modules, ".errand-lock");
const lockFile = join(root, "package-lock.json");
const lockHash = () => createHash("sha256").update(readFileSync(lockFile)).digest("hex");

function isInstalled() {
  const npmList = join(modules, ".package-lock.json");
  if (existsSync(bunMark) && readFileSync(bunMark, "utf8") === lockHash()) return true;
  if (!existsSync(npmList)) return false;
  const installed = JSON.parse(readFileSync(npmList, "utf8")).packages;
  return Object.entries(JSON.parse(readFileSync(lockFile, "utf8")).packages).every(
    ([name, { version, optional }]) => {
      if (name === "") return true;
      return installed[name] === undefined ? optional === true : installed[name].version === version;
    },
  );
}

// npm starts scripts with its own path in the environment; on Windows `npm` is no executable.
function npm(args) {
  const own = process.env.npm_execpath;
  return own?.endsWith(".js") ? [process.execPath, [own, ...args]] : ["npm", args];
}

/** Bun of this project: where install scripts were blocked, bun's own launcher is a stub and the real one lies beside. */
export function findBun() {
  const candidates = [join(modules, ".bin", "bun")];
  const packages = join(modules, "@oven");
  if (existsSync(packages)) {
    for (const name of readdirSync(packages)) {
      candidates.push(join(packages, name, "bin", process.platform === "win32" ? "bun.exe" : "bun"));
    }
  }
  if (process.versions.bun !== undefined) candidates.push(process.execPath);
  const wanted = JSON.parse(readFileSync(join(root, "package.json"), "utf8")).devDependencies.bun;
  const found = candidates.filter(existsSync).find((bun) => versionOf(bun) === wanted);
  if (!found) fail(`bun ${wanted} was not found in node_modules; remove node_modules and try again`);
  return found;
}

function versionOf(bun) {
  const asked = spawnSync(bun, ["--version"], { encoding: "utf8" });
  return asked.status === 0 ? asked.stdout.trim() : undefined;
}

/** Builds when the executable is missing or older than what it is made of. */
export function build(bun) {
  if (
    existsSync(binary) &&
    statSync(binary).mtimeMs >= newest(["src", "migrations", "scripts/build.ts", "package.json"])
  )
    return;
  console.error("building dist/errand");
  run(bun, [join(root, "scripts", "build.ts")], "the build failed");
}

function newest(places) {
  let latest = 0;
  for (const place of places) {
    const path = join(root, place);
    if (!existsSync(path)) continue;
    const found = statSync(path);
    latest = Math.max(latest, found.mtimeMs);
    if (!found.isDirectory()) continue;
    for (const name of readdirSync(path, { recursive: true })) {
      latest = Math.max(latest, statSync(join(path, name)).mtimeMs);
    }
  }
  return latest;
}

// What others read on our standard output is the program's own: tools speak on standard error.
function run(command, args, failure) {
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: ["ignore", 2, 2] });
  if (error) fail(`${failure}: ${error.message}`);
  if (status !== 0) fail(failure);
}

export function fail(message) {
  console.error(`error: ${message}`);
  process.exit(1);
}

const PARENT_LOOK_MS = 200;

/** Runs a program in the foreground, passes signals on, and ends as it ended. */
export function become(command, args) {
  const child = spawn(command, args, { stdio: "inherit" });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  // A signal to npm ends the shell between it and us, and goes no further: so the shell's end is one too.
  const parent = process.ppid;
  const watch = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(watch);
    child.kill("SIGTERM");
  }, PARENT_LOOK_MS);
  child.on("error", (error) => fail(error.message));
  child.on("exit", (code, signal) => process.exit(code ?? (signal === "SIGKILL" ? 137 : 1)));
}
