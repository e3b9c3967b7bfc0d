import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import ipaddr from "ipaddr.js";
import { parse as parseToml, TomlError } from "smol-toml";
import { addressIn } from "./lib/mail-address.ts";
import {
  boolean,
  choice,
  formed,
  integer,
  list,
  type Origin,
  refuseUnknown,
  type Setting,
  SettingError,
  settle,
  text,
  type Values,
} from "./lib/settings.ts";

const fixed =
  <T>(value: T) =>
  () =>
    value;
const optional = fixed(undefined);
const setting = <T>(one: Setting<T>): Setting<T> => one;
const inDevelopment = (given: Readonly<Record<string, unknown>>) => given["deployment"] === "development";

const address = (expects: string, ...schemes: string[]) =>
  formed(expects, (value) => {
    if (!URL.canParse(value)) return undefined;
    const url = new URL(value);
    const readable = /^(?:[^%]|%[0-9a-f]{2})*$/i.test(url.username + url.password);
    const fits = schemes.includes(url.protocol) && url.hash === "" && readable;
    return fits ? value.replace(/\/+$/, "") : undefined;
  });

const isRange = (value: string) => ipaddr.isValid(value) || ipaddr.isValidCIDR(value);
// A host name, an address or a range, with or without a port; the guard of outgoing connections reads it.
const isTarget = (value: string) => /^[a-z0-9._:/[\]-]{1,255}$/i.test(value) && !value.includes("//");
const isSecretKey = (value: string) =>
  /^[A-Za-z0-9+/_-]{43}=?$/.test(value) && Buffer.from(value, "base64").length === 32;

const apiKey = (env: string, help: string) =>
  setting<string | undefined>({ kind: text(), env, help, secret: true, fallback: optional });
const serverUrl = (env: string, help: string) =>
  setting<string | undefined>({
    kind: address("an http:// or https:// address", "http:", "https:"),
    env,
    help,
    fallback: optional,
  });

/** Ollama's own forms: a full address, or host and port alone; the address it listens on everywhere is here. */
function ollamaUrl(value: string): string | undefined {
  const full = value.includes("://")
    ? value
    : `http://${value.startsWith(":") ? `127.0.0.1${value}` : value}`;
  if (!URL.canParse(full)) return undefined;
  const url = new URL(full);
  if (!/^https?:$/.test(url.protocol)) return undefined;
  // `URL` drops a port that is the protocol's own, so it is looked for in the text.
  const hasPort = /^\w+:\/\/[^/]*:\d+(\/|$)/.test(full);
  if (!hasPort && url.protocol === "http:") url.port = "11434";
  if (url.hostname === "0.0.0.0") url.hostname = "127.0.0.1";
  return url.href.replace(/\/+$/, "");
}

/** Where the server is reached when nobody says otherwise; a wildcard address is no address to visit. */
export function localUrl(host: string, port: number): string {
  const visited = host === "0.0.0.0" || host === "::" || host === "" ? "localhost" : host;
  return `http://${visited.includes(":") ? `[${visited}]` : visited}:${port}`;
}

/**
 * Every option there is. Parsing, `--help`, `config show` and the table in README.md come from this page;
 * nothing else in the program reads the environment. Order matters where a default follows from another option.
 */
export const settings = {
  data: setting({
    kind: text("a folder"),
    env: "ERRAND_DATA",
    flag: "data",
    help: "Folder that holds the database, the key file and the backups.",
    fallback: fixed("./errand-data"),
  }),
  host: setting({
    kind: text("a host name or address to listen on", (value) => /^[a-z0-9._:-]{1,255}$/i.test(value)),
    env: "ERRAND_HOST",
    flag: "host",
    help: "Address to listen on; 0.0.0.0 opens it to the network.",
    fallback: fixed("127.0.0.1"),
  }),
  port: setting({
    kind: integer(0, 65_535),
    env: "ERRAND_PORT",
    flag: "port",
    help: "Port to listen on; 0 takes a free one and prints it.",
    fallback: fixed(7070),
  }),
  public_url: setting<string>({
    kind: address("an http:// or https:// address", "http:", "https:"),
    env: "ERRAND_PUBLIC_URL",
    flag: "public-url",
    help: "Address under which others reach this server; webhook addresses are made from it.",
    usually: "http://host:port",
    fallback: ({ host, port }) => localUrl(host as string, port as number),
  }),
  deployment: setting({
    kind: choice("self-hosted", "development", "external"),
    env: "ERRAND_DEPLOYMENT",
    flag: "deployment",
    help: "self-hosted and development serve the API under /api, external under /v1.",
    fallback: fixed("self-hosted" as const),
  }),
  allow_targets: setting<string[]>({
    kind: list("hosts, host:port or address ranges", isTarget),
    env: "ERRAND_ALLOW_TARGETS",
    flag: "allow-targets",
    help: "Private addresses that webhooks and nodes may reach all the same.",
    usually: "none; development: loopback",
    fallback: (given) => (inDevelopment(given) ? ["loopback"] : []),
  }),
  egress_ips: setting<string[]>({
    kind: list("addresses", ipaddr.isValid),
    env: "ERRAND_EGRESS_IPS",
    flag: "egress-ips",
    help: "Addresses that deliveries come from, published for allow-lists.",
    fallback: () => [],
  }),
  egress_proxy: setting<string | undefined>({
    kind: address("an http:// address of a proxy", "http:"),
    env: "ERRAND_EGRESS_PROXY",
    help: "Proxy that outgoing requests go by, but for local targets and those of allow_targets; with user and password in it.",
    secret: true,
    fallback: optional,
  }),
  trusted_proxies: setting<string[]>({
    kind: list("addresses or ranges", isRange),
    env: "ERRAND_TRUSTED_PROXIES",
    flag: "trusted-proxies",
    help: "Proxies whose X-Forwarded-For is believed.",
    fallback: () => [],
  }),
  rate_limit: setting<number>({
    kind: integer(0, 1_000_000, "requests a minute"),
    env: "ERRAND_RATE_LIMIT",
    flag: "rate-limit",
    help: "Requests a minute that one IP address may make; 0 is no limit.",
    usually: "0; development: 100",
    fallback: (given) => (inDevelopment(given) ? 100 : 0),
  }),
  anonymous_rate_limit: setting({
    kind: integer(0, 1_000_000, "requests a minute"),
    env: "ERRAND_ANONYMOUS_RATE_LIMIT",
    flag: "anonymous-rate-limit",
    help: "The same for the endpoints that need no key.",
    fallback: fixed(20),
  }),
  hook_rate_limit: setting({
    kind: integer(0, 1_000_000, "requests a minute"),
    env: "ERRAND_HOOK_RATE_LIMIT",
    flag: "hook-rate-limit",
    help: "Requests a minute that the incoming webhook of one agent or workflow, or one trigger, takes; 0 is no limit.",
    fallback: fixed(0),
  }),
  max_body_bytes: setting({
    kind: integer(1_024, 67_108_864, "bytes"),
    env: "ERRAND_MAX_BODY_BYTES",
    flag: "max-body-bytes",
    help: "Largest request body that is read.",
    fallback: fixed(1_048_576),
  }),
  drain_seconds: setting({
    kind: integer(0, 600, "seconds"),
    env: "ERRAND_DRAIN_SECONDS",
    flag: "drain-seconds",
    help: "How long a stop waits for requests and runs under way.",
    fallback: fixed(25),
  }),
  retention_days: setting({
    kind: integer(0, 36_500, "days"),
    env: "ERRAND_RETENTION_DAYS",
    flag: "retention-days",
    help: "Days that runs, conversations, deliveries and events are kept after their end; 0: for good.",
    fallback: fixed(30),
  }),
  time_scale: setting({
    kind: integer(1, 3_600, "times as fast"),
    env: "ERRAND_TIME_SCALE",
    flag: "time-scale",
    help: "Development only: how many times faster retries, waits and rotations pass.",
    fallback: fixed(1),
  }),
  log_level: setting({
    kind: choice("debug", "info", "warn", "error"),
    env: "ERRAND_LOG_LEVEL",
    flag: "log-level",
    help: "Least important lines to log.",
    fallback: fixed("info" as const),
  }),
  log_format: setting<"auto" | "json" | "pretty">({
    kind: choice("auto", "json", "pretty"),
    env: "ERRAND_LOG_FORMAT",
    flag: "log-format",
    help: "auto is pretty on a terminal and JSON elsewhere.",
    usually: "auto; development: pretty",
    fallback: (given) => (inDevelopment(given) ? "pretty" : "auto"),
  }),
  access_log: setting({
    kind: boolean,
    env: "ERRAND_ACCESS_LOG",
    flag: "access-log",
    help: "Log a line for each request.",
    fallback: fixed(true),
  }),
  first_key: setting<"auto" | "always" | "never">({
    kind: choice("auto", "always", "never"),
    env: "ERRAND_FIRST_KEY",
    flag: "first-key",
    help: "Whether the first start makes an API key and prints it; auto does so on a terminal.",
    usually: "auto; development: always",
    fallback: (given) => (inDevelopment(given) ? "always" : "auto"),
  }),
  default_model: setting<string | undefined>({
    kind: text("provider/name", (value) => /^[a-z0-9_-]+\/\S+$/.test(value)),
    env: "ERRAND_DEFAULT_MODEL",
    flag: "default-model",
    help: "Model of agents that name none, as provider/name.",
    usually: "the configured provider's, else offline/errand",
    fallback: optional,
  }),
  smtp_url: setting<string | undefined>({
    kind: address("an smtp:// or smtps:// address", "smtp:", "smtps:"),
    env: "ERRAND_SMTP_URL",
    help: "Mail server for alerts and the send_email node, such as smtps://user:password@mail.example.org.",
    secret: true,
    fallback: optional,
  }),
  mail_from: setting<string | undefined>({
    kind: text("an address such as errand@example.org", (value) => addressIn(value) !== undefined),
    env: "ERRAND_MAIL_FROM",
    flag: "mail-from",
    help: "Address that mail comes from.",
    usually: "the user of smtp_url, else errand@ the host of public_url",
    fallback: optional,
  }),
  secret_key: setting<string | undefined>({
    kind: text("32 bytes in base64", isSecretKey),
    env: "ERRAND_SECRET_KEY",
    help: "Key that secrets are sealed with.",
    usually: "errand.key in the data folder",
    secret: true,
    fallback: optional,
  }),
  openai_api_key: apiKey("OPENAI_API_KEY", "Key of OpenAI or of a server that speaks its protocol."),
  openai_base_url: serverUrl(
    "OPENAI_BASE_URL",
    "Server that speaks OpenAI's protocol, if it is not OpenAI's own.",
  ),
  anthropic_api_key: apiKey("ANTHROPIC_API_KEY", "Key of Anthropic."),
  anthropic_base_url: serverUrl(
    "ANTHROPIC_BASE_URL",
    "Server that speaks Anthropic's protocol, if it is not its own.",
  ),
  gemini_api_key: apiKey("GEMINI_API_KEY", "Key of Google Gemini."),
  groq_api_key: apiKey("GROQ_API_KEY", "Key of Groq."),
  mistral_api_key: apiKey("MISTRAL_API_KEY", "Key of Mistral."),
  deepseek_api_key: apiKey("DEEPSEEK_API_KEY", "Key of DeepSeek."),
  openrouter_api_key: apiKey("OPENROUTER_API_KEY", "Key of OpenRouter."),
  ollama_host: setting<string | undefined>({
    kind: formed("an address such as http://127.0.0.1:11434", ollamaUrl),
    env: "OLLAMA_HOST",
    help: "Ollama server to take models from; without a port it is 11434.",
    fallback: optional,
  }),
  lmstudio_base_url: serverUrl("LMSTUDIO_BASE_URL", "LM Studio server, such as http://127.0.0.1:1234/v1."),
  llamacpp_base_url: serverUrl("LLAMACPP_BASE_URL", "llama.cpp server, such as http://127.0.0.1:8080/v1."),
  vllm_base_url: serverUrl("VLLM_BASE_URL", "vLLM server, such as http://127.0.0.1:8000/v1."),
};

export type SettingName = keyof typeof settings;
/** Every option with its value; `data` is absolute, `config_file` is the file that was read, if there was one. */
export type Config = Values<typeof settings> & { config_file: string | undefined };
export type LoadedConfig = { config: Config; origins: Record<SettingName, Origin> };

const CONFIG_ENV = "ERRAND_CONFIG";
const CONFIG_NAME = "errand.toml";

/**
 * Flags (by name without dashes, `config` among them) before environment before file before default.
 * The file is the named one, which must exist, else `errand.toml` in the data folder if there is one.
 * Throws SettingError for whatever cannot be used.
 */
export function loadConfig(
  flags: Record<string, string | undefined> = {},
  env: Record<string, string | undefined> = process.env,
): LoadedConfig {
  const known = Object.values(settings).map((one) => one.env);
  refuseUnknown(
    Object.keys(env).filter((name) => name.startsWith("ERRAND_")),
    [...known, CONFIG_ENV],
    (name) => name,
  );
  const path = configPath(flags, env);
  const file =
    path.named || existsSync(path.file) ? { path: path.file, values: readToml(path.file) } : undefined;
  if (file) {
    refuseUnknown(Object.keys(file.values), Object.keys(settings), (name) => `${name} in ${file.path}`);
    if (!path.named && "data" in file.values) {
      const hint = "name the file with --config to let it say where the data lies";
      throw new SettingError(`data in ${file.path}: a file inside the data folder cannot move it`, hint);
    }
  }
  const { values, origins } = settle(settings, { flags, env, file });
  return { config: { ...values, data: resolve(values.data), config_file: file?.path }, origins };
}

/** What a server may not be started with, though each value is fine; other commands do not mind. Throws SettingError. */
export function refuseUnfit({ config, origins }: LoadedConfig): void {
  if (config.time_scale === 1 || config.deployment === "development") return;
  const { name } = origins.time_scale;
  throw new SettingError(`${name}: time runs faster in development mode alone`, "start it with: errand dev");
}

/** The configuration file that these flags and this environment lead to, existing or not. */
export function configPath(
  flags: Record<string, string | undefined>,
  env: Record<string, string | undefined>,
): { file: string; named: boolean } {
  const named = flags["config"] ?? (env[CONFIG_ENV] || undefined);
  if (named !== undefined) return { file: resolve(named), named: true };
  const data = flags["data"] ?? (env[settings.data.env] || settings.data.fallback({}));
  return { file: join(resolve(data), CONFIG_NAME), named: false };
}

function readToml(path: string): Record<string, unknown> {
  let content: string;
  try {
    content = readFileSync(path, "utf8");
  } catch (error) {
    const missing = (error as NodeJS.ErrnoException).code === "ENOENT";
    throw new SettingError(missing ? `${path}: no such file` : `${path}: ${(error as Error).message}`);
  }
  try {
    return parseToml(content);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const what = error.message.split("\n")[0]?.replace(/^Invalid TOML document: /, "");
    throw new SettingError(`${path}, line ${error.line}, column ${error.column}: ${what}`);
  }
}

/** A value as people may see it: secrets only as being there. */
export function shown(name: SettingName, value: unknown): string {
  if (value === undefined) return "";
  if (settings[name].secret) return "(set, not shown)";
  const words = Array.isArray(value) ? value.join(",") : String(value);
  return words.replace(/:\/\/[^\s/@]+@/g, "://***@");
}

/** Interface section 4: `/v1` where the deployment is external, `/api` everywhere else. */
export const prefixOf = (config: Config): string => (config.deployment === "external" ? "/v1" : "/api");
