import type { Config } from "../config.ts";
import type { Egress } from "../egress/egress.ts";
import type { Clock } from "../lib/clock.ts";
import {
  type Answer,
  ModelError,
  type ModelPart,
  type ModelRequest,
  type Models,
  type Provider,
} from "./model.ts";
import { offline } from "./offline.ts";
import { openai } from "./openai.ts";

type ModelConfig = Pick<Config, "default_model" | "openai_api_key" | "openai_base_url" | "ollama_host">;

const AGAIN_MS = 500;

/** Every provider there is: one file each, one line here. */
const providersOf = (config: ModelConfig, deps: { egress: Egress; clock: Clock }): Provider[] => [
  openai({
    ...deps,
    name: "openai",
    configured: config.openai_api_key !== undefined || config.openai_base_url !== undefined,
    base_url: config.openai_base_url,
    api_key: config.openai_api_key,
    usual_model: "gpt-4.1-mini",
  }),
  openai({
    ...deps,
    name: "ollama",
    configured: config.ollama_host !== undefined,
    base_url: config.ollama_host && `${config.ollama_host}/v1`,
    usual_model: "llama3.2",
  }),
  offline,
];

export function createModels({
  config,
  egress,
  clock,
}: {
  config: ModelConfig;
  egress: Egress;
  clock: Clock;
}): Models {
  const providers = providersOf(config, { egress, clock });
  const usual = providers.find((provider) => provider.configured)!;
  const default_model = config.default_model ?? `${usual.name}/${usual.usual_model}`;

  function find({ model, access }: ModelRequest): { provider: Provider; name: string } {
    const slash = model.indexOf("/");
    const provider = providers.find((each) => each.name === model.slice(0, slash));
    if (!provider || slash < 0) {
      const known = providers.map((each) => each.name).join(", ");
      throw new ModelError("MODEL_UNKNOWN", `There is no model ${model}; providers are ${known}.`, false);
    }
    if (!provider.configured && !access) {
      throw new ModelError("MODEL_UNKNOWN", `The provider ${provider.name} is not configured here.`, false);
    }
    return { provider, name: model.slice(slash + 1) };
  }

  async function* stream(request: ModelRequest): AsyncIterable<ModelPart> {
    const { provider, name } = find(request);
    for (let attempt = 1; ; attempt++) {
      let hasBegun = false;
      try {
        for await (const part of provider.stream(request, name)) {
          hasBegun = true;
          yield part;
        }
        return;
      } catch (error) {
        const again = error instanceof ModelError && error.retryable && !hasBegun && attempt === 1;
        if (!again || request.signal.aborted) throw error;
        await new Promise<void>((resolve) => clock.after(AGAIN_MS, resolve));
      }
    }
  }

  return {
    default_model,
    stream,

    async complete(request): Promise<Answer> {
      let text = "";
      for await (const part of stream(request)) {
        if (part.type === "text") text += part.text;
        if (part.type === "finish") return { text, finish_reason: part.reason, usage: part.usage };
      }
      throw new ModelError("MODEL_INTERRUPTED", "The model's answer broke off.", true);
    },

    list: () =>
      providers.map(({ name, configured, usual_model = null }) => ({
        provider: name,
        configured,
        usual_model,
        is_default: default_model.startsWith(`${name}/`),
      })),
  };
}
