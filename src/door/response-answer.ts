import type { StreamProtocol } from "../http/message-stream.ts";
import type { StreamPart } from "../http/part-log.ts";
import type { JsonObject } from "../lib/json.ts";
import { secondsOf } from "./chat-answer.ts";
import { type Call, Heard } from "./heard.ts";
import type { WireResponse } from "./response-store.ts";
import { itemIdOf, responseIdOf } from "./responses.ts";

type About = {
  message_id: string;
  model: string;
  created_at: number;
  previous_id: string | null;
  store: boolean;
  echo: Record<string, unknown>;
};

/** An answer as a response, made of the parts of its log. */
export function responseOf(about: About, parts: readonly StreamPart[]): WireResponse {
  const writer = new EventWriter(about);
  for (const part of parts) writer.part(part);
  return writer.response;
}

/** The same as server-sent events. */
export const responseEvents = (about: About): StreamProtocol => ({
  headers: { "content-type": "text/event-stream; charset=utf-8" },
  heartbeat: ": keep-alive\n\n",
  writer: () => new EventWriter(about),
});

type Open = { kind: "message" | "reasoning"; id: string; text: string; before: string };

/**
 * The items of a response, each begun, filled and ended:
 *
 *     created, in_progress, (item added, part added, delta*, text done, part done, item done)*, completed
 */
class EventWriter {
  readonly #about: About;
  readonly #heard = new Heard();
  readonly #output: JsonObject[] = [];
  #open: Open | undefined;
  #sequence = 0;
  #isBegun = false;
  #status: "in_progress" | "completed" | "incomplete" | "failed" = "in_progress";

  constructor(about: About) {
    this.#about = about;
  }

  get response(): WireResponse {
    const { message_id, model, created_at, previous_id, store, echo } = this.#about;
    const { usage, reason, error } = this.#heard;
    const hasEnded = this.#status !== "in_progress";
    return {
      id: responseIdOf(message_id),
      object: "response",
      created_at: secondsOf(created_at),
      status: this.#status,
      error: error ? { code: "server_error", message: error.message } : null,
      incomplete_details:
        this.#status === "incomplete"
          ? { reason: reason === "length" ? "max_output_tokens" : "content_filter" }
          : null,
      model,
      output: this.#output,
      parallel_tool_calls: true,
      previous_response_id: previous_id,
      store,
      text: { format: { type: "text" } },
      top_p: null,
      truncation: "disabled",
      usage: hasEnded
        ? {
            input_tokens: usage.prompt_tokens,
            input_tokens_details: { cached_tokens: 0 },
            output_tokens: usage.completion_tokens,
            output_tokens_details: { reasoning_tokens: 0 },
            total_tokens: usage.prompt_tokens + usage.completion_tokens,
          }
        : null,
      ...(echo as JsonObject),
    };
  }

  part(part: StreamPart): string {
    const told = this.#heard.add(part);
    if (told !== "") return this.#begin() + this.#say("message", told);
    switch (part.type) {
      case "reasoning":
        return this.#begin() + this.#say("reasoning", part.text);
      case "tool_call":
        return part.is_readers ? this.#begin() + this.#close() + this.#call(part) : "";
      case "finish":
        return this.#begin() + this.#close() + this.#finish();
      default:
        return "";
    }
  }

  end(): string {
    return "";
  }

  #event(type: string, data: object): string {
    return `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: this.#sequence++, ...data })}\n\n`;
  }

  #begin(): string {
    if (this.#isBegun) return "";
    this.#isBegun = true;
    const { response } = this;
    return this.#event("response.created", { response }) + this.#event("response.in_progress", { response });
  }

  #say(kind: Open["kind"], delta: string): string {
    const begun = this.#open?.kind === kind ? "" : this.#close() + this.#openItem(kind);
    const open = this.#open!;
    open.text += delta;
    // What is the same in every delta of an item is written once: one is sent for each word.
    return `${begun}${open.before}${this.#sequence++},"delta":${JSON.stringify(delta)}}\n\n`;
  }

  #openItem(kind: Open["kind"]): string {
    const output_index = this.#output.length;
    const isText = kind === "message";
    const id = itemIdOf(isText ? "msg" : "rs", this.#about.message_id, output_index);
    const type = isText ? "response.output_text.delta" : "response.reasoning_summary_text.delta";
    const place = isText
      ? { item_id: id, output_index, content_index: 0, logprobs: [] }
      : { item_id: id, output_index, summary_index: 0 };
    const head = JSON.stringify({ type, ...place }).slice(0, -1);
    this.#open = { kind, id, text: "", before: `event: ${type}\ndata: ${head},"sequence_number":` };
    const item: JsonObject = isText
      ? { id, type: "message", status: "in_progress", role: "assistant", content: [] }
      : { id, type: "reasoning", summary: [] };
    this.#output.push(item);
    return this.#event("response.output_item.added", { output_index, item }) + this.#partEvent("added", "");
  }

  #partEvent(what: "added" | "done", text: string): string {
    const { kind, id } = this.#open!;
    const output_index = this.#output.length - 1;
    return kind === "message"
      ? this.#event(`response.content_part.${what}`, {
          item_id: id,
          output_index,
          content_index: 0,
          part: outputText(text),
        })
      : this.#event(`response.reasoning_summary_part.${what}`, {
          item_id: id,
          output_index,
          summary_index: 0,
          part: { type: "summary_text", text },
        });
  }

  #close(): string {
    const open = this.#open;
    if (!open) return "";
    const { kind, id: item_id, text } = open;
    const output_index = this.#output.length - 1;
    const isText = kind === "message";
    const item: JsonObject = isText
      ? { id: item_id, type: "message", status: "completed", role: "assistant", content: [outputText(text)] }
      : { id: item_id, type: "reasoning", summary: [{ type: "summary_text", text }] };
    this.#output[output_index] = item;
    const done = isText
      ? this.#event("response.output_text.done", {
          item_id,
          output_index,
          content_index: 0,
          logprobs: [],
          text,
        })
      : this.#event("response.reasoning_summary_text.done", {
          item_id,
          output_index,
          summary_index: 0,
          text,
        });
    const closed = done + this.#partEvent("done", text);
    this.#open = undefined;
    return closed + this.#event("response.output_item.done", { output_index, item });
  }

  #call({ id: call_id, name, args }: Call): string {
    const output_index = this.#output.length;
    const item_id = itemIdOf("fc", this.#about.message_id, output_index);
    const whole = JSON.stringify(args);
    const item = { id: item_id, type: "function_call", status: "completed", call_id, name, arguments: whole };
    this.#output.push(item);
    return (
      this.#event("response.output_item.added", {
        output_index,
        item: { ...item, status: "in_progress", arguments: "" },
      }) +
      this.#event("response.function_call_arguments.delta", { item_id, output_index, delta: whole }) +
      this.#event("response.function_call_arguments.done", {
        item_id,
        output_index,
        name,
        arguments: whole,
      }) +
      this.#event("response.output_item.done", { output_index, item })
    );
  }

  #finish(): string {
    const { error, reason } = this.#heard;
    const isCut = reason === "length" || reason === "content_filter";
    this.#status = error ? "failed" : isCut ? "incomplete" : "completed";
    return this.#event(`response.${this.#status}`, { response: this.response });
  }
}

const outputText = (text: string) => ({ type: "output_text", text, annotations: [], logprobs: [] });
