import type { Egress } from "../egress/egress.ts";
import { isObject } from "../lib/json.ts";
import type { ModelConfig } from "./index.ts";
import { baseUrlOf, PROVIDERS } from "./providers.ts";

/** What is known of a provider: `models` where its server was asked and answered. */
export type ProviderState = {
  provider: string;
  /** ready: configured, and not asked or there; missing: configured, and not there; found: there, not configured. */
  state: "ready" | "missing" | "found" | "off";
  base_url: string | null;
  usual_model: string | null;
  models: string[];
  /** How to configure it, as a variable of the environment. */
  set: string;
};

const PATIENCE_MS = 1_000;
const LARGEST_ANSWER = 1024 * 1024;

/**
 * Every provider with how it stands. Servers of the operator's own are asked for their models, also where
 * they usually are; a vendor's are not, since a look costs a request with the key.
 */
export async function probeProviders(
  egress: Egress,
  config: ModelConfig,
  envOf: (setting: string) => string,
): Promise<ProviderState[]> {
  const states = await Promise.all(
    PROVIDERS.map(async (line): Promise<ProviderState> => {
      const { name, key, url, usual_model = null } = line;
      const base_url = baseUrlOf(line, config as never);
      const isElsewhere = url !== undefined && config[url] !== undefined;
      const isConfigured = isElsewhere || (key !== undefined && config[key] !== undefined);
      const isLocal = key === undefined || isElsewhere;
      const models =
        isLocal && line.wire === "openai" ? await modelsOf(egress, base_url, keyOf(config, key)) : undefined;
      const isThere = models !== undefined;
      return {
        provider: name,
        state: isConfigured
          ? isLocal && line.wire === "openai" && !isThere
            ? "missing"
            : "ready"
          : isThere && isLocal
            ? "found"
            : "off",
        base_url: isLocal ? withoutLogin(base_url) : null,
        usual_model,
        models: models ?? [],
        set:
          isThere && url && !isConfigured
            ? `${envOf(url)}=${hostOf(line.name, base_url)}`
            : envOf(key ?? url ?? ""),
      };
    }),
  );
  const offline: ProviderState = {
    provider: "offline",
    state: "ready",
    base_url: null,
    usual_model: "errand",
    models: ["errand"],
    set: "",
  };
  return [...states, offline];
}

const keyOf = (config: ModelConfig, key: keyof ModelConfig | undefined): string | undefined =>
  key && (config[key] as string | undefined);

const hostOf = (name: string, base_url: string): string =>
  name === "ollama" ? base_url.replace(/\/v1$/, "") : base_url;

const withoutLogin = (url: string): string => url.replace(/:\/\/[^\s/@]+@/, "://***@");

/** The models that a server has; undefined: it is not there, or it is something else. */
async function modelsOf(
  egress: Egress,
  base_url: string,
  api_key: string | undefined,
): Promise<string[] | undefined> {
  try {
    const answer = await egress.request({
      method: "GET",
      url: `${base_url.replace(/\/+$/, "")}/models`,
      headers: api_key ? { authorization: `Bearer ${api_key}` } : {},
      timeoutMs: PATIENCE_MS,
      maxBytes: LARGEST_ANSWER,
      trusted: true, // named in the configuration, or on this machine
    });
    if (answer.status !== 200) return undefined;
    const said: unknown = JSON.parse(new TextDecoder().decode(answer.body));
    const list = isObject(said) && Array.isArray(said["data"]) ? said["data"] : undefined;
    return list?.flatMap((one) => (isObject(one) && typeof one["id"] === "string" ? [one["id"]] : []));
  } catch {
    return undefined;
  }
}
