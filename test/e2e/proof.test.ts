import { expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "../..");
const AT_ONCE = 4;

const quoted = ["README.md", "docs/bench.md"].flatMap((file) =>
  [...readFileSync(join(ROOT, file), "utf8").matchAll(/`([^`\n]+)`/g)].map(([, text]) => text!),
);

test("every test that is named as proof is there", () => {
  const files = quoted.filter((text) => /^test\/\S+\.ts$/.test(text));
  expect(files.length).toBeGreaterThan(10);
  expect(files.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
});

test("every command that is named as proof is there and knows its options", async () => {
  const commands = [...new Set(quoted)].filter((text) => /^(bun )?scripts\/(bench|faults)\/[a-z]/.test(text));
  expect(commands.length).toBeGreaterThan(20);
  const wrong: string[] = [];
  const left = commands.filter((command) => !command.endsWith(".ts"));
  const lane = async () => {
    for (let command = left.pop(); command !== undefined; command = left.pop()) {
      // What stands for a name of the reader's own.
      const words = command.replace(/\b(DIR|FILE)\b/g, "/nowhere").split(" ");
      const child = Bun.spawn([...words, "--help"], { cwd: ROOT, stdout: "pipe", stderr: "pipe" });
      const said = (await new Response(child.stdout).text()) + (await new Response(child.stderr).text());
      if ((await child.exited) !== 0 || !said.startsWith("usage: ")) wrong.push(`${command}: ${said}`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  expect(wrong).toEqual([]);
}, 120_000);
