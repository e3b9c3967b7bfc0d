import { createParser } from "eventsource-parser";
import { type Egress, EgressError } from "../egress/egress.ts";
import type { Clock } from "../lib/clock.ts";
import { isObject, type Json } from "../lib/json.ts";
import {
  type ContentPart,
  ModelError,
  type ModelErrorCode,
  type ModelMessage,
  type ModelPart,
  type ModelRequest,
  type Provider,
} from "./model.ts";

const OPENAI = "https://api.openai.com/v1";

/** Time limits of a call, in milliseconds. A local server loads its model before its first event. */
const LIMITS = { first_event: 120_000, between_events: 60_000, whole: 30 * 60_000 };
const LARGEST_STREAM = 64 * 1024 * 1024;

/**
 * Any server that speaks OpenAI's chat completions: OpenAI itself, Ollama, vLLM, llama.cpp, LM Studio and
 * most vendors. A client of our own on the egress module, since `fetch`, and with it the official package,
 * holds at most 256 requests of a whole process.
 */
export function openai(options: {
  name: string;
  base_url?: string;
  api_key?: string;
  usual_model?: string;
  configured: boolean;
  egress: Egress;
  clock: Clock;
}): Provider {
  const slashless = (url: string) => url.replace(/\/+$/, "");
  const base = slashless(options.base_url ?? OPENAI);

  /** Where a caller's own key goes: never to a server that it was not meant for. */
  function baseFor({ access }: ModelRequest): string {
    if (!access) return base;
    const url = access.base_url ?? (options.name === "openai" ? OPENAI : undefined);
    if (url === undefined) {
      const message = `A key for ${options.name} needs a base_url beside it.`;
      throw new ModelError("MODEL_UNKNOWN", message, false);
    }
    return slashless(url);
  }

  async function* stream(request: ModelRequest, model: string): AsyncIterable<ModelPart> {
    const api_key = request.access?.api_key ?? options.api_key;
    const limit = deadline(options.clock, request.signal);
    try {
      const answer = await options.egress.stream({
        method: "POST",
        url: `${baseFor(request)}/chat/completions`,
        headers: {
          "content-type": "application/json",
          accept: "text/event-stream",
          ...(api_key ? { authorization: `Bearer ${api_key}` } : {}),
        },
        body: JSON.stringify(wireRequest(request, model)),
        timeoutMs: LIMITS.whole,
        maxBytes: LARGEST_STREAM,
        // The operator named this server in the configuration; a local one is the usual case.
        trusted: request.access === undefined,
        signal: limit.signal,
      });
      if (answer.status !== 200) throw refusal(answer.status, await textOf(answer.body));
      yield* partsOf(chunksOf(answer.body, limit.extend));
    } catch (error) {
      throw request.signal.aborted ? error : (limit.exceeded() ?? toModelError(error));
    } finally {
      limit.end();
    }
  }

  return { name: options.name, configured: options.configured, usual_model: options.usual_model, stream };
}

/** Aborts with the caller, after too long a silence, and never leaves a timer behind. */
function deadline(clock: Clock, outer: AbortSignal) {
  const inner = new AbortController();
  let late: string | undefined;
  const arm = (ms: number, what: string) =>
    clock.after(ms, () => {
      late = what;
      inner.abort();
    });
  let cancel = arm(LIMITS.first_event, "begin to answer");
  return {
    signal: AbortSignal.any([outer, inner.signal]),
    extend() {
      cancel();
      cancel = arm(LIMITS.between_events, "go on");
    },
    end: () => cancel(),
    exceeded: () =>
      late ? new ModelError("MODEL_TIMEOUT", `The model did not ${late} in time.`, true) : undefined,
  };
}

function wireRequest({ messages, tools, tool_choice, temperature, max_tokens }: ModelRequest, model: string) {
  return {
    model,
    messages: messages.map(wireMessage),
    ...(tools && tools.length > 0
      ? {
          tools: tools.map((tool) => ({ type: "function", function: tool })),
          ...(tool_choice ? { tool_choice } : { parallel_tool_calls: true }),
        }
      : {}),
    ...(temperature === undefined ? {} : { temperature }),
    ...(max_tokens === undefined ? {} : { max_tokens }),
    stream: true,
    stream_options: { include_usage: true },
  };
}

function wireMessage({ role, content, tool_calls, tool_call_id }: ModelMessage) {
  return {
    role,
    content: typeof content === "string" ? content : content.map(wirePart),
    ...(tool_call_id ? { tool_call_id } : {}),
    ...(tool_calls && tool_calls.length > 0
      ? {
          tool_calls: tool_calls.map(({ id, name, args }) => ({
            id,
            type: "function",
            function: { name, arguments: JSON.stringify(args) },
          })),
        }
      : {}),
  };
}

const wirePart = (part: ContentPart) =>
  part.type === "text"
    ? part
    : { type: "image_url", image_url: { url: `data:${part.media_type};base64,${part.data}` } };

// What servers send is theirs: every field is looked at before it is used.
type Delta = {
  content?: unknown;
  reasoning_content?: unknown;
  reasoning?: unknown;
  tool_calls?: unknown;
};
type CallDelta = { index?: number; id?: string; function?: { name?: string; arguments?: string } };
type Chunk = {
  error?: unknown;
  choices?: { delta?: Delta | null; finish_reason?: string | null }[];
  usage?: { prompt_tokens?: unknown; completion_tokens?: unknown } | null;
};

/** Reads the server's events; tool calls are put together and given out whole, before `finish`. */
async function* partsOf(chunks: AsyncIterable<Chunk>): AsyncIterable<ModelPart> {
  const calls = new ToolCalls();
  const usage = { prompt_tokens: 0, completion_tokens: 0 };
  let reason: string | undefined;
  for await (const chunk of chunks) {
    if (chunk === DONE) {
      reason ??= "stop";
      break;
    }
    if (chunk.error)
      throw new ModelError("MODEL_FAILED", "The model's server reported a failure under way.", true);
    if (chunk.usage) {
      usage.prompt_tokens = countOf(chunk.usage.prompt_tokens);
      usage.completion_tokens = countOf(chunk.usage.completion_tokens);
    }
    const choice = chunk.choices?.[0];
    const delta = choice?.delta;
    const reasoning = wordsOf(delta?.reasoning_content) || wordsOf(delta?.reasoning);
    if (reasoning) yield { type: "reasoning", text: reasoning };
    const text = wordsOf(delta?.content);
    if (text) yield { type: "text", text };
    for (const call of Array.isArray(delta?.tool_calls) ? delta.tool_calls : []) {
      if (isObject(call)) calls.add(call);
    }
    if (choice?.finish_reason) reason = choice.finish_reason;
  }
  // Some servers leave out [DONE], some the reason; with neither the answer is not whole.
  if (reason === undefined) throw new ModelError("MODEL_INTERRUPTED", "The model's answer broke off.", true);
  const whole = calls.whole();
  yield* whole;
  yield { type: "finish", reason: whole.length > 0 ? "tool-calls" : (REASONS[reason] ?? "other"), usage };
}

const REASONS: Record<string, string> = {
  stop: "stop",
  length: "length",
  content_filter: "content-filter",
  tool_calls: "stop", // said although nothing was called
};

const wordsOf = (value: unknown): string => (typeof value === "string" ? value : "");
const countOf = (value: unknown): number => (Number.isSafeInteger(value) ? (value as number) : 0);

const DONE: Chunk = {};

/** The server's events; `heard` is called for each, so that silence can be told from slow work. */
async function* chunksOf(body: AsyncIterable<Uint8Array>, heard: () => void): AsyncIterable<Chunk> {
  const decoder = new TextDecoder();
  const waiting: string[] = [];
  let events = 0;
  const parser = createParser({ onEvent: ({ data }) => waiting.push(data) });
  for await (const bytes of body) {
    parser.feed(decoder.decode(bytes, { stream: true }));
    for (const data of waiting.splice(0)) {
      if (data === "[DONE]") return yield DONE;
      heard();
      events++;
      yield parsed(data);
    }
  }
  parser.feed("\n\n"); // the last event may lack its empty line
  for (const data of waiting) {
    if (data === "[DONE]") return yield DONE;
    events++;
    yield parsed(data);
  }
  if (events === 0) throw garbage();
}

function parsed(data: string): Chunk {
  try {
    const chunk: unknown = JSON.parse(data);
    if (isObject(chunk)) return chunk as Chunk;
  } catch {
    // said below
  }
  throw garbage();
}

const garbage = () =>
  new ModelError("MODEL_GARBAGE", "The model's server sent something that cannot be read.", false);

/** Deltas of calls may come without an index or an id; then they continue the last one. */
class ToolCalls {
  readonly #calls: { id: string; name: string; args: string; index?: number }[] = [];

  add({ index, id, function: given }: CallDelta): void {
    const last = this.#calls.at(-1);
    let call = index === undefined ? undefined : this.#calls.find((each) => each.index === index);
    if (!call && index === undefined && last && (!id || id === last.id)) call = last;
    if (!call) {
      call = { id: id || `call_${this.#calls.length + 1}`, name: "", args: "", index };
      this.#calls.push(call);
    }
    if (given?.name) call.name += given.name;
    if (given?.arguments) call.args += given.arguments;
  }

  whole(): ModelPart[] {
    return this.#calls.map(({ id, name, args }) => ({
      type: "tool_call",
      id,
      name,
      args: argumentsOf(args),
    }));
  }
}

function argumentsOf(text: string): Json {
  if (text.trim() === "") return {};
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text; // checked against the tool's schema, where it is refused with words
  }
}

const LONGEST_REASON = 300;

async function textOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const bytes of body) {
    text += decoder.decode(bytes, { stream: true });
    if (text.length > 10_000) break;
  }
  return text;
}

/** The server's own words help with a wrong model name or a used-up budget; they are cut and hold no key. */
function refusal(status: number, body: string): ModelError {
  let said = "";
  try {
    const { error } = JSON.parse(body) as { error?: { message?: unknown } };
    if (typeof error?.message === "string") said = `: ${error.message.slice(0, LONGEST_REASON)}`;
  } catch {
    // no words
  }
  const make = (code: ModelErrorCode, what: string, retryable: boolean) =>
    new ModelError(code, what, retryable);
  // With these the server may repeat the key that it was given.
  if (status === 401 || status === 403) {
    return make("MODEL_UNAUTHORIZED", `The model's server refuses the configured key (${status}).`, false);
  }
  if (status === 429)
    return make("MODEL_RATE_LIMITED", "The model's server takes no more requests at the moment.", true);
  if (status >= 500) return make("MODEL_FAILED", `The model's server failed (${status}).`, true);
  return make("MODEL_REFUSED", `The model's server refused the request (${status})${said}`, false);
}

function toModelError(error: unknown): unknown {
  if (!(error instanceof EgressError)) return error;
  if (error.class === "timeout") return new ModelError("MODEL_TIMEOUT", "The model took too long.", true);
  return new ModelError("MODEL_UNREACHABLE", `The model's server cannot be reached (${error.class}).`, true);
}
