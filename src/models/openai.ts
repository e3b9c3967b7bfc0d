import type { Egress } from "../egress/egress.ts";
import type { Clock } from "../lib/clock.ts";
import { isObject, type Json } from "../lib/json.ts";
import { sha256Hex } from "../lib/secrets.ts";
import type {
  ContentPart,
  ModelMessage,
  ModelPart,
  ModelRequest,
  Provider,
  ToolCall,
  ToolChoice,
} from "./model.ts";
import {
  type AnswerReading,
  addressFor,
  argumentsOf,
  brokenOff,
  countOf,
  failedUnderWay,
  wordsOf as failureWordsOf,
  MOST_CALLS,
  parsed,
  partsOf,
  tooManyCalls,
} from "./wire.ts";
import { SameButTheWord } from "./words.ts";

/** In what a vendor's server differs from the others that speak this protocol. */
export type OpenAiQuirks = {
  /** Refuses `stream_options`; it sends the usage unasked. */
  noStreamOptions?: true;
  /** Calls the longest answer `max_completion_tokens`, and refuses `max_tokens` for some models. */
  newTokenLimit?: true;
  /** The form of answers that it can be asked for: a schema unless stated. */
  json?: "object";
  /** Takes ids of calls of nine letters and digits alone. */
  shortCallIds?: true;
  /** Refuses calls without the signature that it gave them, save by models of these names. */
  unsigned?: RegExp;
  /** Refuses answers of a model that thinks without its thoughts; models of these names always do. */
  thoughts?: RegExp;
};

/**
 * Any server that speaks OpenAI's chat completions: OpenAI itself, Ollama, vLLM, llama.cpp, LM Studio and
 * most vendors.
 */
export function openai(options: {
  name: string;
  base_url: string;
  home?: string;
  api_key?: string;
  usual_model?: string;
  configured: boolean;
  quirks?: OpenAiQuirks;
  egress: Egress;
  clock: Clock;
}): Provider {
  const { name, configured, usual_model, quirks = {} } = options;

  return {
    name,
    configured,
    usual_model,
    stream(request, model) {
      const { limits, signal, access } = request;
      const api_key = access?.api_key ?? options.api_key;
      const asking = {
        url: `${addressFor(options, request)}/chat/completions`,
        headers: (api_key ? { authorization: `Bearer ${api_key}` } : {}) as Record<string, string>,
        body: wireRequest(request, model, { name, quirks }),
        limits,
        trusted: access === undefined,
        signal,
      };
      return partsOf(options, asking, new Reading(name));
    },
  };
}

type Vendor = { name: string; quirks: OpenAiQuirks };

function wireRequest(request: ModelRequest, model: string, vendor: Vendor) {
  const { quirks } = vendor;
  const { messages, tools, tool_choice, temperature, max_tokens, reasoning_effort, response_format } =
    request;
  const { thoughts } = quirks;
  const thinks =
    thoughts !== undefined && (thoughts.test(model) || messages.some(({ reasoning }) => reasoning));
  const idOf = quirks.shortCallIds ? shortId : (id: string) => id;
  const isSigned = quirks.unsigned !== undefined && !quirks.unsigned.test(model);
  const extraOf = ({ provider_data }: ToolCall, index: number): Json | undefined =>
    provider_data?.[vendor.name] ?? (isSigned && index === 0 ? UNSIGNED : undefined);
  return {
    model,
    messages: messages.map((message) => ({
      ...wireMessage(message, idOf, extraOf),
      ...(thinks && message.role === "assistant" ? { reasoning_content: message.reasoning ?? "" } : {}),
    })),
    ...(tools && tools.length > 0
      ? {
          tools: tools.map((tool) => ({ type: "function", function: tool })),
          ...(tool_choice ? { tool_choice: wireChoice(tool_choice) } : {}),
        }
      : {}),
    ...(temperature === undefined ? {} : { temperature }),
    ...(max_tokens === undefined
      ? {}
      : { [quirks.newTokenLimit ? "max_completion_tokens" : "max_tokens"]: max_tokens }),
    ...(reasoning_effort === undefined ? {} : { reasoning_effort }),
    ...(response_format ? { response_format: wireFormat(response_format, quirks) } : {}),
    stream: true,
    ...(quirks.noStreamOptions ? {} : { stream_options: { include_usage: true } }),
  };
}

// By Google's word for calls that another model made, or a client gives back without what came with them. Of calls
// that were made at once only the first is signed.
const UNSIGNED: Json = { google: { thought_signature: "skip_thought_signature_validator" } };

const wireChoice = (choice: ToolChoice) =>
  typeof choice === "string" ? choice : { type: "function", function: choice };

function wireFormat(format: NonNullable<ModelRequest["response_format"]>, { json }: OpenAiQuirks) {
  if (format.type === "json_object" || json === "object") return { type: "json_object" };
  const { schema, name = "answer" } = format;
  return { type: "json_schema", json_schema: { name, schema } };
}

function wireMessage(
  { role, content, tool_calls, tool_call_id }: ModelMessage,
  idOf: (id: string) => string,
  extraOf: (call: ToolCall, index: number) => Json | undefined,
) {
  return {
    role,
    content: typeof content === "string" ? content : content.map(wirePart),
    ...(tool_call_id ? { tool_call_id: idOf(tool_call_id) } : {}),
    ...(tool_calls && tool_calls.length > 0
      ? {
          tool_calls: tool_calls.map((call, index) => ({
            id: idOf(call.id),
            type: "function",
            function: { name: call.name, arguments: JSON.stringify(call.args) },
            extra_content: extraOf(call, index),
          })),
        }
      : {}),
  };
}

const wirePart = (part: ContentPart) =>
  part.type === "text"
    ? part
    : { type: "image_url", image_url: { url: `data:${part.media_type};base64,${part.data}` } };

const shortId = (id: string): string => (/^[A-Za-z0-9]{9}$/.test(id) ? id : sha256Hex(id).slice(0, 9));

// What servers send is theirs: every field is looked at before it is used.
type Delta = {
  content?: unknown;
  reasoning_content?: unknown;
  reasoning?: unknown;
  tool_calls?: unknown;
};
type CallDelta = {
  index?: number;
  id?: string;
  function?: { name?: string; arguments?: unknown };
  extra_content?: Json;
};
type Chunk = {
  error?: unknown;
  choices?: { delta?: Delta | null; message?: Delta | null; finish_reason?: string | null }[];
  usage?: { prompt_tokens?: unknown; completion_tokens?: unknown } | null;
};

/** Reads the server's events; tool calls are put together and given out whole, before `finish`. */
class Reading implements AnswerReading {
  isOver = false;
  readonly #calls: ToolCalls;
  readonly #usage = { prompt_tokens: 0, completion_tokens: 0 };
  readonly #same = new SameButTheWord();
  #reason: string | undefined;

  constructor(vendor: string) {
    this.#calls = new ToolCalls(vendor);
  }

  read(event: string, tell: (part: ModelPart) => void): void {
    if (event === "[DONE]") {
      this.#reason ??= "stop";
      this.isOver = true;
      return;
    }
    const word = this.#same.wordOf(event);
    if (word !== undefined) {
      tell({ type: "text", text: word });
      return;
    }
    const chunk = parsed(event) as Chunk;
    const plain = plainWordOf(chunk);
    if (plain !== undefined) {
      this.#same.learn(event, plain, (other) => plainWordOf(parsed(other) as Chunk));
      tell({ type: "text", text: plain });
      return;
    }
    if (chunk.error) throw failedUnderWay(failureWordsOf(chunk.error));
    if (chunk.usage) {
      this.#usage.prompt_tokens = countOf(chunk.usage.prompt_tokens);
      this.#usage.completion_tokens = countOf(chunk.usage.completion_tokens);
    }
    const choice = chunk.choices?.[0];
    const delta = choice?.delta;
    const reasoning =
      textOf(delta?.reasoning_content) || textOf(delta?.reasoning) || thoughtsOf(delta?.content);
    if (reasoning) tell({ type: "reasoning", text: reasoning });
    const text = textOf(delta?.content) || saidOf(delta?.content);
    if (text) tell({ type: "text", text });
    for (const call of Array.isArray(delta?.tool_calls) ? delta.tool_calls : []) {
      if (isObject(call)) this.#calls.add(call);
    }
    if (choice?.finish_reason) this.#reason = choice.finish_reason;
  }

  *end(): Iterable<ModelPart> {
    // Some servers leave out [DONE], some the reason; with neither the answer is not whole.
    if (this.#reason === undefined) throw brokenOff();
    const whole = this.#calls.whole();
    for (const call of whole) yield { type: "tool_call", ...call };
    const reason = whole.length > 0 ? "tool-calls" : (REASONS[this.#reason] ?? "other");
    yield { type: "finish", reason, usage: this.#usage };
  }
}

/** The word of an event that says nothing else. */
function plainWordOf({ error, usage, choices }: Chunk): string | undefined {
  const { delta, finish_reason } = choices?.[0] ?? {};
  const { content, reasoning_content, reasoning, tool_calls } = delta ?? {};
  const isPlain = !error && !usage && !finish_reason && !reasoning_content && !reasoning && !tool_calls;
  return isPlain && typeof content === "string" && content !== "" ? content : undefined;
}

const REASONS: Record<string, string> = {
  stop: "stop",
  length: "length",
  content_filter: "content-filter",
  tool_calls: "stop", // said although nothing was called
};

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

// Some models' servers send content as a list of what is said and what is thought.
const partsIn = (content: unknown, type: string): Record<string, unknown>[] =>
  Array.isArray(content) ? content.filter((part) => isObject(part) && part["type"] === type) : [];
const saidOf = (content: unknown): string =>
  partsIn(content, "text")
    .map((part) => textOf(part["text"]))
    .join("");
const thoughtsOf = (content: unknown): string =>
  partsIn(content, "thinking")
    .map((part) => textOf(part["thinking"]) || saidOf(part["thinking"]))
    .join("");

type Building = { id: string; name: string; args: string; index?: number; extra?: Json };

/** Deltas of calls may come without an index or an id, and whole calls under one and the same index. */
class ToolCalls {
  readonly #calls: Building[] = [];

  constructor(readonly vendor: string) {}

  add({ index, id, function: given, extra_content }: CallDelta): void {
    let call = this.#find(index, id, given?.name);
    if (!call) {
      if (this.#calls.length === MOST_CALLS) throw tooManyCalls();
      call = { id: id || `call_${this.#calls.length + 1}`, name: "", args: "", index };
      this.#calls.push(call);
    }
    if (given?.name && call.name !== given.name) call.name += given.name;
    if (given?.arguments !== undefined && given.arguments !== null)
      call.args += argumentText(given.arguments);
    if (extra_content !== undefined) call.extra = extra_content;
  }

  #find(index: number | undefined, id: string | undefined, name: string | undefined): Building | undefined {
    const call =
      index === undefined ? this.#calls.at(-1) : this.#calls.findLast((each) => each.index === index);
    if (!call) return undefined;
    const isOther = id !== undefined && id !== "" && id !== call.id;
    if (index === undefined) return isOther || (name && call.args !== "") ? undefined : call;
    // A server that gives each delta an id of its own means one call, unless it begins a name anew.
    return isOther && name && call.args !== "" ? undefined : call;
  }

  whole(): ToolCall[] {
    return this.#calls.map(({ id, name, args, extra }) => ({
      id,
      name,
      args: argumentsOf(args),
      ...(extra === undefined ? {} : { provider_data: { [this.vendor]: extra } }),
    }));
  }
}

const argumentText = (given: unknown): string => (typeof given === "string" ? given : JSON.stringify(given));
