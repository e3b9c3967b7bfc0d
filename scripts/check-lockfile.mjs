// One lockfile, exact versions, and no address of any registry in it: the same install from every mirror.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "./lib/toolchain.mjs";

const faults = [];
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8"));

for (const kind of ["dependencies", "devDependencies"]) {
  for (const [name, version] of Object.entries(manifest[kind] ?? {})) {
    if (!/^(npm:[@\w./-]+@)?\d+\.\d+\.\d+(-[\w.]+)?$/.test(version))
      faults.push(`package.json: ${name} is not at one exact version: ${version}`);
    const locked = lock.packages?.[""]?.[kind]?.[name];
    if (locked !== version)
      faults.push(`package-lock.json: ${name} is ${locked ?? "missing"}, package.json says ${version}`);
  }
}
for (const [name, entry] of Object.entries(lock.packages ?? {})) {
  if (name === "" || entry.link) continue;
  if (entry.resolved !== undefined)
    faults.push(`package-lock.json: ${name} names an address: ${entry.resolved}`);
  if (entry.integrity === undefined && !entry.inBundle)
    faults.push(`package-lock.json: ${name} has no integrity hash`);
}
for (const other of ["bun.lock", "bun.lockb", "yarn.lock", "pnpm-lock.yaml"]) {
  if (existsSync(join(root, other))) faults.push(`${other}: package-lock.json is the one lockfile`);
}

for (const fault of faults) console.error(fault);
if (faults.length > 0) process.exit(1);
console.log(`lockfile: ${Object.keys(lock.packages).length - 1} packages, exact, without addresses`);
