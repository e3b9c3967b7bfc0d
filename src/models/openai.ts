import { createParser } from "eventsource-parser";
import { type Egress, EgressError } from "../egress/egress.ts";
import type { Clock } from "../lib/clock.ts";
import type { Json } from "../lib/json.ts";
import { type ModelErrorCode, ModelError, type ModelMessage, type ModelPart, type ModelRequest, type Provider } from "./model.ts";

/** Time limits of a call, in milliseconds. */
const LIMITS = { first_part: 60_000, between_parts: 60_000, whole: 30 * 60_000 };
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
  const base = (options.base_url ?? "https://api.openai.com/v1").replace(/\/+$/, "");

  async function* stream(request: ModelRequest, model: string): AsyncIterable<ModelPart> {
    const limit = deadline(options.clock, request.signal);
    try {
      const answer = await options.egress.stream({
        method: "POST",
        url: `${base}/chat/completions`,
        headers: {
          "content-type": "application/json",
          accept: "text/event-stream",
          ...(options.api_key ? { authorization: `Bearer ${options.api_key}` } : {}),
        },
        body: JSON.stringify(wireRequest(request, model)),
        timeoutMs: LIMITS.whole,
        maxBytes: LARGEST_STREAM,
        // The operator named this server in the configuration; a local one is the usual case.
        trusted: true,
        signal: limit.signal,
      });
      if (answer.status !== 200) throw refusal(answer.status, await textOf(answer.body));
      for await (const part of partsOf(answer.body)) {
        limit.extend();
        yield part;
      }
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
  let cancel = arm(LIMITS.first_part, "begin to answer");
  return {
    signal: AbortSignal.any([outer, inner.signal]),
    extend() {
      cancel();
      cancel = arm(LIMITS.between_parts, "go on");
    },
    end: () => cancel(),
    exceeded: () => (late ? new ModelError("MODEL_TIMEOUT", `The model did not ${late} in time.`, true) : undefined),
  };
}

function wireRequest({ messages, tools, temperature, max_tokens }: ModelRequest, model: string) {
  return {
    model,
    messages: messages.map(wireMessage),
    ...(tools && tools.length > 0
      ? { tools: tools.map((tool) => ({ type: "function", function: tool })), parallel_tool_calls: true }
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
    content,
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

type Delta = {
  content?: string | null;
  reasoning_content?: string | null;
  reasoning?: string | null;
  tool_calls?: { index?: number; id?: string; function?: { name?: string; arguments?: string } }[];
};
type Chunk = {
  error?: { message?: string } | string;
  choices?: { delta?: Delta; finish_reason?: string | null }[];
  usage?: { prompt_tokens?: number; completion_tokens?: number } | null;
};

/** Reads the server's events; tool calls are put together and given out whole, before `finish`. */
async function* partsOf(body: AsyncIterable<Uint8Array>): AsyncIterable<ModelPart> {
  const calls = new ToolCalls();
  const usage = { prompt_tokens: 0, completion_tokens: 0 };
  let reason: string | undefined;
  for await (const chunk of chunksOf(body)) {
    if (chunk.error) throw new ModelError("MODEL_FAILED", "The model's server reported a failure under way.", true);
    if (chunk.usage) {
      usage.prompt_tokens = chunk.usage.prompt_tokens ?? 0;
      usage.completion_tokens = chunk.usage.completion_tokens ?? 0;
    }
    const choice = chunk.choices?.[0];
    const delta = choice?.delta;
    const reasoning = delta?.reasoning_content ?? delta?.reasoning;
    if (reasoning) yield { type: "reasoning", text: reasoning };
    if (delta?.content) yield { type: "text", text: delta.content };
    for (const call of delta?.tool_calls ?? []) calls.add(call);
    if (choice?.finish_reason) reason = choice.finish_reason;
  }
  // Some servers leave out [DONE], none leaves out the reason of an answer that is whole.
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

async function* chunksOf(body: AsyncIterable<Uint8Array>): AsyncIterable<Chunk> {
  const decoder = new TextDecoder();
  const waiting: string[] = [];
  const parser = createParser({ onEvent: ({ data }) => waiting.push(data) });
  for await (const bytes of body) {
    parser.feed(decoder.decode(bytes, { stream: true }));
    for (const data of waiting.splice(0)) {
      if (data === "[DONE]") return;
      yield parsed(data);
    }
  }
}

function parsed(data: string): Chunk {
  try {
    return JSON.parse(data) as Chunk;
  } catch {
    throw new ModelError("MODEL_GARBAGE", "The model's server sent something that cannot be read.", false);
  }
}

/** Deltas of calls may come without an index or an id; then they continue the last one. */
class ToolCalls {
  readonly #calls: { id: string; name: string; args: string; index?: number }[] = [];

  add({ index, id, function: given }: NonNullable<Delta["tool_calls"]>[number]): void {
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
    return this.#calls.map(({ id, name, args }) => ({ type: "tool_call", id, name, args: argumentsOf(args) }));
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
  const make = (code: ModelErrorCode, what: string, retryable: boolean) => new ModelError(code, what, retryable);
  // With these the server may repeat the key that it was given.
  if (status === 401 || status === 403) {
    return make("MODEL_UNAUTHORIZED", `The model's server refuses the configured key (${status}).`, false);
  }
  if (status === 429) return make("MODEL_RATE_LIMITED", "The model's server takes no more requests at the moment.", true);
  if (status >= 500) return make("MODEL_FAILED", `The model's server failed (${status}).`, true);
  return make("MODEL_REFUSED", `The model's server refused the request (${status})${said}`, false);
}

function toModelError(error: unknown): unknown {
  if (!(error instanceof EgressError)) return error;
  if (error.class === "timeout") return new ModelError("MODEL_TIMEOUT", "The model took too long.", true);
  return new ModelError("MODEL_UNREACHABLE", `The model's server cannot be reached (${error.class}).`, true);
}
