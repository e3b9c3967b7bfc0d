/** Writes the table of settings in README.md from the one in src/config.ts: `bun scripts/readme.ts`. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { settings } from "../src/config.ts";

const README = join(import.meta.dir, "..", "README.md");
const BEGIN = "<!-- settings: made by scripts/readme.ts -->";
const END = "<!-- end of settings -->";

function settingsTable(): string {
  const rows = Object.entries(settings).map(([name, one]) => {
    const flag = one.flag === undefined ? "" : `\`--${one.flag}\``;
    const value = one.usually ?? String(one.fallback({}) ?? "");
    return `| \`${name}\` | ${flag} | \`${one.env}\` | ${value} | ${one.help} |`;
  });
  return ["| Setting | Flag | Environment | Default | |", "|---|---|---|---|---|", ...rows].join("\n");
}

/** README.md as it should be. */
export function renderReadme(readme: string): string {
  const [before, rest] = readme.split(BEGIN);
  const [, after] = (rest ?? "").split(END);
  if (before === undefined || after === undefined) throw new Error("README.md has no place for the settings");
  return `${before}${BEGIN}\n${settingsTable()}\n${END}${after}`;
}

export const readReadme = (): string => readFileSync(README, "utf8");

if (import.meta.main) writeFileSync(README, renderReadme(readReadme()));
