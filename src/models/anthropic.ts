import type { Egress } from "../egress/egress.ts";
import type { Clock } from "../lib/clock.ts";
import { isObject } from "../lib/json.ts";
import {
  type ContentPart,
  type ModelMessage,
  type ModelPart,
  type ModelRequest,
  type Provider,
  type ToolChoice,
  wordsIn,
} from "./model.ts";
import {
  type AnswerReading,
  addressFor,
  argumentsOf,
  brokenOff,
  countOf,
  failedUnderWay,
  MOST_CALLS,
  parsed,
  partsOf,
  tooManyCalls,
  wordsOf,
} from "./wire.ts";

const VERSION = "2023-06-01";
// The protocol wants a limit with every request.
const USUAL_MAX_TOKENS = 8_192;
const THOUGHTS = { minimal: 1_024, low: 2_048, medium: 8_192, high: 24_576 };

/** Anthropic's messages: a client of our own on the egress module, as for the other wire. */
export function anthropic(options: {
  name: string;
  base_url: string;
  home?: string;
  api_key?: string;
  usual_model?: string;
  configured: boolean;
  egress: Egress;
  clock: Clock;
}): Provider {
  const { name, configured, usual_model } = options;

  return {
    name,
    configured,
    usual_model,
    stream(request, model) {
      const { limits, signal, access } = request;
      const api_key = access?.api_key ?? options.api_key;
      const asking = {
        // Users know the address with and without its version.
        url: `${addressFor(options, request).replace(/\/v1$/, "")}/v1/messages`,
        headers: { "anthropic-version": VERSION, ...(api_key ? { "x-api-key": api_key } : {}) },
        body: wireRequest(request, model),
        limits,
        trusted: access === undefined,
        signal,
      };
      return partsOf(options, asking, new Reading());
    },
  };
}

function wireRequest(request: ModelRequest, model: string) {
  const { messages, tools, tool_choice, temperature, max_tokens = USUAL_MAX_TOKENS } = request;
  const system = messages
    .filter(({ role }) => role === "system")
    .map(wordsIn)
    .join("\n\n");
  const thinking = thinkingOf(request);
  return {
    model,
    max_tokens: thinking ? max_tokens + thinking.budget_tokens : max_tokens,
    ...(system ? { system } : {}),
    messages: wireMessages(messages),
    ...(tools && tools.length > 0
      ? {
          tools: tools.map(({ name, description, parameters }) => ({
            name,
            description,
            input_schema: parameters,
          })),
          ...(tool_choice ? { tool_choice: wireChoice(tool_choice) } : {}),
        }
      : {}),
    // With thoughts the temperature is not to be chosen; without, it goes to 1 here and to 2 elsewhere.
    ...(temperature === undefined || thinking ? {} : { temperature: Math.min(1, temperature) }),
    ...(thinking ? { thinking } : {}),
    stream: true,
  };
}

const wireChoice = (choice: ToolChoice) =>
  typeof choice === "object"
    ? { type: "tool", name: choice.name }
    : { type: choice === "required" ? "any" : choice };

/**
 * Thoughts are asked for where a question begins. Between calls of tools the protocol wants the signed
 * thoughts of the step before sent back; without them the rest of the answer goes on without thinking aloud.
 */
function thinkingOf({ messages, reasoning_effort, tool_choice }: ModelRequest) {
  // Who has to call something is not let think first.
  const isForced = tool_choice !== undefined && tool_choice !== "none";
  if (reasoning_effort === undefined || isForced || messages.at(-1)?.role === "tool") return undefined;
  return { type: "enabled", budget_tokens: THOUGHTS[reasoning_effort] };
}

type Block = Record<string, unknown>;

/** Roles alternate; results of calls are the user's. Empty text is refused, so it is left out. */
function wireMessages(messages: ModelMessage[]): { role: "user" | "assistant"; content: Block[] }[] {
  const said: { role: "user" | "assistant"; content: Block[] }[] = [];
  for (const message of messages) {
    if (message.role === "system") continue;
    const role = message.role === "assistant" ? "assistant" : "user";
    const blocks = blocksOf(message);
    const last = said.at(-1);
    if (blocks.length === 0) continue;
    if (last?.role === role) last.content.push(...blocks);
    else said.push({ role, content: blocks });
  }
  return said;
}

function blocksOf(message: ModelMessage): Block[] {
  const { role, content, tool_calls = [], tool_call_id } = message;
  if (role === "tool") {
    return [{ type: "tool_result", tool_use_id: tool_call_id, content: wordsIn(message) || "(nothing)" }];
  }
  const parts: ContentPart[] = typeof content === "string" ? [{ type: "text", text: content }] : content;
  return [
    ...parts.flatMap(blockOf),
    ...tool_calls.map(({ id, name, args }) => ({
      type: "tool_use",
      id,
      name,
      input: isObject(args) ? args : {},
    })),
  ];
}

function blockOf(part: ContentPart): Block[] {
  if (part.type === "text") return part.text.trim() === "" ? [] : [{ type: "text", text: part.text }];
  const { media_type, data } = part;
  return [{ type: "image", source: { type: "base64", media_type, data } }];
}

const REASONS: Record<string, string> = {
  end_turn: "stop",
  stop_sequence: "stop",
  max_tokens: "length",
  tool_use: "stop", // said although nothing was called
  refusal: "content-filter",
};

// What servers send is theirs: every field is looked at before it is used.
const inside = (value: unknown, name: string): Record<string, unknown> => {
  const found = isObject(value) ? value[name] : undefined;
  return isObject(found) ? found : {};
};
const text = (value: unknown): string => (typeof value === "string" ? value : "");

/** Reads the server's events; tool calls are given out whole, before `finish`. */
class Reading implements AnswerReading {
  isOver = false;
  readonly #calls = new Map<unknown, { id: string; name: string; args: string }>();
  readonly #usage = { prompt_tokens: 0, completion_tokens: 0 };
  #reason: string | undefined;

  read(data: string, tell: (part: ModelPart) => void): void {
    const event = parsed(data);
    switch (event["type"]) {
      case "message_start": {
        const used = inside(event["message"], "usage");
        this.#usage.prompt_tokens =
          countOf(used["input_tokens"]) +
          countOf(used["cache_read_input_tokens"]) +
          countOf(used["cache_creation_input_tokens"]);
        this.#usage.completion_tokens = countOf(used["output_tokens"]);
        break;
      }
      case "content_block_start": {
        const block = inside(event, "content_block");
        if (block["type"] === "tool_use") {
          if (this.#calls.size === MOST_CALLS) throw tooManyCalls();
          this.#calls.set(event["index"], { id: text(block["id"]), name: text(block["name"]), args: "" });
        } else if (text(block["text"])) tell({ type: "text", text: text(block["text"]) });
        break;
      }
      case "content_block_delta": {
        const delta = inside(event, "delta");
        if (delta["type"] === "text_delta") tell({ type: "text", text: text(delta["text"]) });
        else if (delta["type"] === "thinking_delta")
          tell({ type: "reasoning", text: text(delta["thinking"]) });
        else if (delta["type"] === "input_json_delta") {
          const call = this.#calls.get(event["index"]);
          if (call) call.args += text(delta["partial_json"]);
        }
        break;
      }
      case "message_delta": {
        const used = inside(event, "usage");
        if (used["output_tokens"] !== undefined)
          this.#usage.completion_tokens = countOf(used["output_tokens"]);
        this.#reason = text(inside(event, "delta")["stop_reason"]) || this.#reason;
        break;
      }
      case "message_stop":
        this.isOver = true;
        break;
      case "error":
        throw failedUnderWay(wordsOf(event["error"]));
    }
  }

  *end(): Iterable<ModelPart> {
    if (this.#reason === undefined && !this.isOver) throw brokenOff();
    for (const { id, name, args } of this.#calls.values()) {
      yield { type: "tool_call", id, name, args: argumentsOf(args) };
    }
    const reason = this.#calls.size > 0 ? "tool-calls" : (REASONS[this.#reason ?? "end_turn"] ?? "other");
    yield { type: "finish", reason, usage: this.#usage };
  }
}
