import { openaiError } from "../http/errors.ts";
import type { StreamProtocol } from "../http/message-stream.ts";
import type { StreamPart, StreamUsage } from "../http/part-log.ts";
import { type Call, failureOf, Heard } from "./heard.ts";

type About = { message_id: string; model: string; created_at: number };

export const secondsOf = (ms: number): number => Math.floor(ms / 1_000);

const idOf = ({ message_id }: About): string => `chatcmpl-${message_id.replaceAll("-", "")}`;

export const usageOf = ({ prompt_tokens, completion_tokens }: StreamUsage) => ({
  prompt_tokens,
  completion_tokens,
  total_tokens: prompt_tokens + completion_tokens,
});

const wireCall = ({ id, name, args, provider_data }: Call) => ({
  id,
  type: "function",
  function: { name, arguments: JSON.stringify(args) },
  // The client gives the call back as it got it.
  extra_content: provider_data,
});

/** An answer as a chat completion. */
export const chatCompletion = (about: About, { text, reasoning, calls, reason, usage }: Heard) => ({
  id: idOf(about),
  object: "chat.completion",
  created: secondsOf(about.created_at),
  model: about.model,
  choices: [
    {
      index: 0,
      message: {
        role: "assistant",
        content: text === "" && calls.length > 0 ? null : text,
        refusal: null,
        ...(reasoning ? { reasoning_content: reasoning } : {}),
        ...(calls.length > 0 ? { tool_calls: calls.map(wireCall) } : {}),
      },
      logprobs: null,
      finish_reason: reason,
    },
  ],
  usage: usageOf(usage),
});

/** The same as server-sent events. */
export const chatChunks = (about: About, include_usage: boolean): StreamProtocol => ({
  headers: { "content-type": "text/event-stream; charset=utf-8" },
  heartbeat: ": keep-alive\n\n",
  writer: () => new ChunkWriter(about, include_usage),
});

class ChunkWriter {
  readonly #heard = new Heard();
  readonly #head: string;
  readonly #usage: string;
  readonly #before: string;
  readonly #after: string;
  #isBegun = false;

  constructor(about: About, include_usage: boolean) {
    const { created_at, model } = about;
    const created = secondsOf(created_at);
    const head = JSON.stringify({ id: idOf(about), object: "chat.completion.chunk", created, model });
    // What is the same in every chunk is written once: a chunk is sent for each word.
    this.#head = `data: ${head.slice(0, -1)},"choices":`;
    this.#usage = include_usage ? ',"usage":null' : "";
    this.#before = `${this.#head}[{"index":0,"delta":`;
    this.#after = `,"logprobs":null,"finish_reason":null}]${this.#usage}}\n\n`;
  }

  part(part: StreamPart): string {
    const told = this.#heard.add(part);
    if (told !== "") return this.#begin() + this.#delta(`{"content":${JSON.stringify(told)}}`);
    switch (part.type) {
      case "reasoning":
        return this.#begin() + this.#delta(`{"reasoning_content":${JSON.stringify(part.text)}}`);
      case "tool_call": {
        if (!part.is_readers) return "";
        const index = this.#heard.calls.length - 1;
        return (
          this.#begin() +
          this.#delta(JSON.stringify({ tool_calls: [{ index, ...wireCall(this.#heard.calls[index]!) }] }))
        );
      }
      case "finish":
        return part.error
          ? `data: ${JSON.stringify(wireError(part.error))}\n\n`
          : this.#begin() + this.#finish();
      default:
        return "";
    }
  }

  end(): string {
    return "data: [DONE]\n\n";
  }

  #delta(delta: string): string {
    return this.#before + delta + this.#after;
  }

  #begin(): string {
    if (this.#isBegun) return "";
    this.#isBegun = true;
    return this.#delta('{"role":"assistant","content":""}');
  }

  #finish(): string {
    const { reason, usage } = this.#heard;
    const last = `${this.#head}[{"index":0,"delta":{},"logprobs":null,"finish_reason":"${reason}"}]${this.#usage}}\n\n`;
    return this.#usage === ""
      ? last
      : `${last}${this.#head}[],"usage":${JSON.stringify(usageOf(usage))}}\n\n`;
  }
}

/** A failure after the first word, in the stream. */
export const wireError = (error: { code: string; message: string }) =>
  openaiError(failureOf(error), error.code.toLowerCase());
