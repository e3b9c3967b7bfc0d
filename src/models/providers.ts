import type { Config } from "../config.ts";
import type { OpenAiQuirks } from "./openai.ts";

export type ProviderLine = {
  name: string;
  wire: "openai" | "anthropic";
  /** The setting that holds its key; without one it is a server of the operator's own. */
  key?: keyof Config & `${string}_api_key`;
  /** The setting that holds its address. */
  url?: keyof Config;
  base_url: string;
  /** Used where none is named; none where every server has models of its own. */
  usual_model?: string;
  quirks?: OpenAiQuirks;
};

/** Every provider there is, in the order in which one of them becomes the default. */
export const PROVIDERS: ProviderLine[] = [
  {
    name: "openai",
    wire: "openai",
    key: "openai_api_key",
    url: "openai_base_url",
    base_url: "https://api.openai.com/v1",
    usual_model: "gpt-4.1-mini",
  },
  {
    name: "anthropic",
    wire: "anthropic",
    key: "anthropic_api_key",
    url: "anthropic_base_url",
    base_url: "https://api.anthropic.com",
    usual_model: "claude-sonnet-4-5",
  },
  {
    name: "gemini",
    wire: "openai",
    key: "gemini_api_key",
    base_url: "https://generativelanguage.googleapis.com/v1beta/openai",
    usual_model: "gemini-2.5-flash",
    quirks: { unsigned: /^(models\/)?gemini-[12]\.\d/ },
  },
  {
    name: "groq",
    wire: "openai",
    key: "groq_api_key",
    base_url: "https://api.groq.com/openai/v1",
    usual_model: "llama-3.3-70b-versatile",
  },
  {
    name: "mistral",
    wire: "openai",
    key: "mistral_api_key",
    base_url: "https://api.mistral.ai/v1",
    usual_model: "mistral-small-latest",
    quirks: { noStreamOptions: true, shortCallIds: true },
  },
  {
    name: "deepseek",
    wire: "openai",
    key: "deepseek_api_key",
    base_url: "https://api.deepseek.com/v1",
    usual_model: "deepseek-chat",
    quirks: { json: "object", thoughts: /^deepseek-reasoner$/ },
  },
  {
    name: "openrouter",
    wire: "openai",
    key: "openrouter_api_key",
    base_url: "https://openrouter.ai/api/v1",
    usual_model: "openai/gpt-4.1-mini",
  },
  {
    name: "ollama",
    wire: "openai",
    url: "ollama_host",
    base_url: "http://127.0.0.1:11434",
    usual_model: "llama3.2",
  },
  { name: "lmstudio", wire: "openai", url: "lmstudio_base_url", base_url: "http://127.0.0.1:1234/v1" },
  {
    name: "llamacpp",
    wire: "openai",
    url: "llamacpp_base_url",
    base_url: "http://127.0.0.1:8080/v1",
    usual_model: "default", // it serves the one it was started with, whatever it is called
  },
  { name: "vllm", wire: "openai", url: "vllm_base_url", base_url: "http://127.0.0.1:8000/v1" },
];

/** Where a provider's servers are: as configured, else where they usually are. */
export function baseUrlOf({ name, url, base_url }: ProviderLine, config: Partial<Config>): string {
  const given = url && (config[url] as string | undefined);
  // Ollama's own variable names the server, not the interface that is spoken here.
  return name === "ollama" ? `${given ?? base_url}/v1` : (given ?? base_url);
}
