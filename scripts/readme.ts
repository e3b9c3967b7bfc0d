/** Writes the tables in README.md from the program's own: `bun scripts/readme.ts`. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { settings } from "../src/config.ts";
import { FILTERS } from "../src/lib/template.ts";
import { nodeTypes } from "../src/nodes/index.ts";

const README = join(import.meta.dir, "..", "README.md");
function settingsTable(): string {
  const rows = Object.entries(settings).map(([name, one]) => {
    const flag = one.flag === undefined ? "" : `\`--${one.flag}\``;
    const value = one.usually ?? String(one.fallback({}) ?? "");
    return `| \`${name}\` | ${flag} | \`${one.env}\` | ${value} | ${one.help} |`;
  });
  return ["| Setting | Flag | Environment | Default | |", "|---|---|---|---|---|", ...rows].join("\n");
}

function nodesTable(): string {
  const rows = [...nodeTypes.values()].map(({ name, description }) => `| \`${name}\` | ${description} |`);
  return ["| Node | |", "|---|---|", ...rows].join("\n");
}

function filtersTable(): string {
  const rows = Object.entries(FILTERS).map(
    ([group, names]) => `| ${group} | ${names.map((name) => `\`${name}\``).join(" ")} |`,
  );
  return ["| Filters | |", "|---|---|", ...rows].join("\n");
}

const TABLES: Record<string, () => string> = {
  settings: settingsTable,
  nodes: nodesTable,
  filters: filtersTable,
};

/** README.md as it should be. */
export function renderReadme(readme: string): string {
  return Object.entries(TABLES).reduce((text, [name, table]) => {
    const begin = `<!-- ${name}: made by scripts/readme.ts -->`;
    const end = `<!-- end of ${name} -->`;
    const [before, rest] = text.split(begin);
    const [, after] = (rest ?? "").split(end);
    if (before === undefined || after === undefined)
      throw new Error(`README.md has no place for the ${name}`);
    return `${before}${begin}\n${table()}\n${end}${after}`;
  }, readme);
}

export const readReadme = (): string => readFileSync(README, "utf8");

if (import.meta.main) writeFileSync(README, renderReadme(readReadme()));
