import type { Config } from "../config.ts";
import { fields } from "../lib/table.ts";
import { COMMIT, VERSION } from "../version.ts";
import type { FirstRun } from "./first-run.ts";

export type BannerFacts = {
  config: Config;
  url: string;
  prefix: string;
  schema: number;
  first: FirstRun;
  self: string;
};

/** What the start says, for a person: where it is, what it works on, and what to do next. */
export function banner({ config, url, prefix, schema, first, self }: BannerFacts): string {
  const lines: [string, string][] = [
    ["URL", url],
    ["API", `${url}${prefix} (described at ${prefix}/openapi.json)`],
    ["Data", `${config.data} (schema ${schema})`],
    ["Mode", config.deployment],
    ["Config", config.config_file ?? "no file"],
    ["Version", `${VERSION} (${COMMIT})`],
  ];
  if (config.time_scale !== 1) {
    lines.push(["Time", `${config.time_scale} times as fast: retries, waits and rotations (--time-scale)`]);
  }
  if (first.key) lines.push(["Key", `${first.key} (shown only now)`]);
  else if (!first.has_key)
    lines.push(["Key", `none yet; make one: ${self} keys create --data ${quoted(config.data)}`]);
  const greeting = `\nErrand is running.\n\n${indented(fields(lines))}`;
  return first.key && first.agent_id ? `${greeting}\n${firstWords(url, prefix, first)}\n` : `${greeting}\n`;
}

// As a shell takes it; without it the command would work on another folder than this one.
const quoted = (path: string) => (/^[\w./:@+-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);

const indented = (text: string) => text.replace(/^(?=.)/gm, "  ");

/** A line to copy that streams a reply at once. */
function firstWords(url: string, prefix: string, { key, agent_id }: FirstRun): string {
  const body = JSON.stringify({ messages: [{ role: "user", content: "What can you do?" }] });
  return (
    "  Talk to the sample agent:\n\n" +
    `curl -N ${url}${prefix}/agents/${agent_id}/stream -H 'Authorization: Bearer ${key}' ` +
    `-H 'Content-Type: application/json' -d '${body}'\n`
  );
}
