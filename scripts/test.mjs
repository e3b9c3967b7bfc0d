// npm test: installs, builds what the end-to-end tests run, and runs every test, or those named after `--`.
// Closes with one plain line for whoever counts.
import { spawn } from "node:child_process";
import { build, findBun, install, root } from "./lib/toolchain.mjs";

install();
const bun = findBun();
build(bun);
const child = spawn(bun, ["test", ...process.argv.slice(2)], {
  cwd: root,
  stdio: ["inherit", "pipe", "pipe"],
});
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => child.kill(signal));

let tail = "";
const pass = (from, to) =>
  from.on("data", (chunk) => {
    to.write(chunk);
    tail = (tail + chunk).slice(-10_000);
  });
pass(child.stdout, process.stdout);
pass(child.stderr, process.stderr);
child.on("close", (code) => {
  const counted = (word) =>
    Number([...tail.matchAll(new RegExp(`^\\s*(\\d+) ${word}$`, "gm"))].at(-1)?.[1] ?? 0);
  console.log(`${counted("pass")} passed, ${counted("fail")} failed`);
  process.exit(code ?? 1);
});
