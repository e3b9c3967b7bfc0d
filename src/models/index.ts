import type { Config } from "../config.ts";
import type { Egress } from "../egress/egress.ts";
import type { Clock } from "../lib/clock.ts";
import { anthropic } from "./anthropic.ts";
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
import { baseUrlOf, PROVIDERS } from "./providers.ts";
import { brokenOff } from "./wire.ts";

/** What models are made from: the settings that the table of providers names, and which one is the default. */
export type ModelConfig = { [Name in keyof Config]?: Config[Name] | undefined };

const providerOf = (model: string): string => model.slice(0, model.indexOf("/"));

const AGAIN_MS = 500;
/** A server that wants us to wait longer than this is given up for now. */
const LONGEST_WAIT_MS = 5_000;

const providersOf = (config: ModelConfig, deps: { egress: Egress; clock: Clock }): Provider[] => [
  ...PROVIDERS.map((line) => {
    const { name, wire, usual_model, quirks, key, url } = line;
    const api_key = key && (config[key] as string | undefined);
    const isElsewhere = url !== undefined && config[url] !== undefined;
    const options = {
      ...deps,
      name,
      usual_model,
      api_key,
      base_url: baseUrlOf(line, config as Partial<Config>),
      home: key && line.base_url,
      configured: api_key !== undefined || isElsewhere,
    };
    if (wire === "anthropic") return anthropic(options);
    // Only OpenAI's own servers are known to take the newer name of the limit.
    const newTokenLimit = name === "openai" && !isElsewhere ? { newTokenLimit: true as const } : {};
    return openai({ ...options, quirks: { ...quirks, ...newTokenLimit } });
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
  const usual = providers.find((provider) => provider.configured && provider.usual_model !== undefined)!;
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

  /** Asks the model, once more where that may help, then the others in turn; with the first part it is settled. */
  async function begin(request: ModelRequest): Promise<Begun> {
    const { signal } = request;
    // A caller's own key is for the provider that it was given for.
    const access = (model: string) =>
      providerOf(model) === providerOf(request.model) ? request.access : undefined;
    const others = (request.fallback_models ?? []).map((model) => ({
      ...request,
      model,
      access: access(model),
    }));
    let failure: unknown;
    for (const asked of [request, ...others]) {
      for (let attempt = 1; ; attempt++) {
        try {
          const { provider, name } = find(asked);
          const parts = provider.stream(asked, name)[Symbol.asyncIterator]();
          return { parts, first: await parts.next() };
        } catch (error) {
          if (signal.aborted || !(error instanceof ModelError)) throw error;
          failure ??= error;
          const wait = error.retry_after ?? AGAIN_MS;
          if (!error.retryable || attempt > 1 || wait > LONGEST_WAIT_MS) break;
          await pause(clock, wait, signal);
        }
      }
    }
    // The agent's own model is the one to tell of.
    throw failure;
  }

  const stream = (request: ModelRequest): AsyncIterable<ModelPart> => ({
    [Symbol.asyncIterator]: () => new Settling(() => begin(request)),
  });

  return {
    default_model,
    stream,

    async complete(request): Promise<Answer> {
      let text = "";
      for await (const part of stream(request)) {
        if (part.type === "text") text += part.text;
        if (part.type === "finish") return { text, finish_reason: part.reason, usage: part.usage };
      }
      throw brokenOff();
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

type Begun = { parts: AsyncIterator<ModelPart>; first: IteratorResult<ModelPart> };

/** Parts of whichever model begins to answer. Not a generator: from the first on it does nothing but hand them on. */
class Settling implements AsyncIterator<ModelPart> {
  readonly #begin: () => Promise<Begun>;
  #parts: AsyncIterator<ModelPart> | undefined;

  constructor(begin: () => Promise<Begun>) {
    this.#begin = begin;
  }

  next(): Promise<IteratorResult<ModelPart>> {
    return this.#parts ? this.#parts.next() : this.#first();
  }

  async #first(): Promise<IteratorResult<ModelPart>> {
    const { parts, first } = await this.#begin();
    this.#parts = parts;
    return first;
  }

  async return(): Promise<IteratorResult<ModelPart>> {
    await this.#parts?.return?.();
    return { done: true, value: undefined };
  }
}

function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      cancel();
      reject(signal.reason);
    };
    const cancel = clock.after(ms, () => {
      signal.removeEventListener("abort", abort);
      resolve();
    });
    signal.addEventListener("abort", abort, { once: true });
  });
}
