import { Option } from "commander";
import { type SettingName, settings } from "../config.ts";
import type { Setting } from "../lib/settings.ts";

/** Options come in sets: a command takes several. */
export type Options = Option[];

export const option = (flags: string, help: string): Options => [new Option(flags, help)];

const configFile = new Option(
  "--config <file>",
  "Configuration file (ERRAND_CONFIG; default: errand.toml in the data folder)",
);

const ofSetting = (one: Setting<unknown>): Option =>
  new Option(`--${one.flag} <value>`, describeSetting(one));

/** A setting in a sentence, with its environment variable and its default. */
function describeSetting(one: Setting<unknown>): string {
  const usual = one.usually ?? plain(one.fallback({}));
  return `${one.help} (${one.env}${usual === "" ? "" : `; default: ${usual}`})`;
}

const plain = (value: unknown): string => (Array.isArray(value) ? value.join(",") : String(value ?? ""));

/** The flags of these settings, and of the file that all of them can stand in. */
export const forSettings = (...names: SettingName[]): Options => [
  ...names.map((name) => ofSetting(settings[name])),
  configFile,
];

const flagged = (Object.keys(settings) as SettingName[]).filter((name) => settings[name].flag !== undefined);
export const everySetting = forSettings(...flagged);
export const everySettingBut = (...left: SettingName[]): Options =>
  forSettings(...flagged.filter((name) => !left.includes(name)));

/** Which data folder. */
export const folder = forSettings("data");

export const asJson = option("--json", "Print JSON");

export const workspace = option("--workspace <workspace>", "Workspace, by id or name (default: the first)");

/** Which project; a list shows all of them when none is named. */
export const project = [
  ...workspace,
  ...option("--project <project>", "Project, by id or name (default: the first)"),
];

export const expires = option("--expires <time>", "When it ends, ISO 8601 (default: never)");

/** A stretch of time. */
export const between = [
  ...option("--since <time>", "Not before this time, ISO 8601"),
  ...option("--until <time>", "Not after this time"),
];

/** The fields of an outgoing webhook. */
export const webhookBody = [
  ...option("--url <url>", "Address that receives deliveries"),
  ...option("--events <kinds>", "Event kinds, separated by commas; * is all"),
  ...option("--name <name>", "Name"),
  ...option("--from <file>", "JSON file with these and further fields; - is standard input"),
];

/** What a help page with many settings ends with. */
export const OUTSIDE_FLAGS = `
By environment or file only: ${Object.values(settings)
  .filter((one) => one.flag === undefined)
  .map((one) => one.env)
  .join(", ")}.
Every option can stand in the configuration file under its long name, with _ for -.`;
