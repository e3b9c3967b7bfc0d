import type { PartLog, StreamPart, StreamUsage } from "../http/part-log.ts";
import { AppError } from "../lib/errors.ts";
import type { ToolCall } from "../models/model.ts";

export type Call = Pick<ToolCall, "id" | "name" | "args" | "provider_data">;

/** An answer's end, in the words of a chat completion. */
export type FinishReason = "stop" | "length" | "tool_calls" | "content_filter";

/** What has come of an answer, for clients that know of one step: those of the agent are told as one text. */
export class Heard {
  text = "";
  reasoning = "";
  readonly calls: Call[] = [];
  usage: StreamUsage = { prompt_tokens: 0, completion_tokens: 0 };
  reason: FinishReason = "stop";
  error: { code: string; message: string } | undefined;
  #isNewStep = false;

  /** Takes a part in; answers what of it is text to be told, with the gap that parts it from a step before. */
  add(part: StreamPart): string {
    switch (part.type) {
      case "start_step":
        this.#isNewStep = true;
        return "";
      case "text":
        return this.#say(part.text);
      case "reasoning":
        this.reasoning += part.text;
        return "";
      case "tool_call":
        if (part.is_readers) {
          const { id, name, args, provider_data } = part;
          this.calls.push({ id, name, args, provider_data });
        }
        return "";
      case "approval_request":
        this.#isNewStep = true;
        return this.#say(
          `The call ${part.tool_name}(${JSON.stringify(part.args)}) waits for approval ${part.approval_id}.`,
        );
      case "finish":
        this.usage = part.usage;
        this.error = part.error;
        this.reason = this.calls.length > 0 ? "tool_calls" : (REASONS[part.reason] ?? "stop");
        return "";
      default:
        return "";
    }
  }

  #say(text: string): string {
    const told = this.#isNewStep && this.text !== "" && text !== "" ? `\n\n${text}` : text;
    if (text !== "") this.#isNewStep = false;
    this.text += told;
    return told;
  }
}

const REASONS: Record<string, FinishReason> = { length: "length", "content-filter": "content_filter" };

/** How long a client is left without the head of its answer, so that a failure can still have a status. */
const HEAD_MS = 8_000;

const BEGINS: ReadonlySet<StreamPart["type"]> = new Set([
  "text",
  "reasoning",
  "tool_call",
  "approval_request",
]);

/**
 * Waits until an answer has begun. Throws where it has failed before its first word.
 */
export async function begun(log: PartLog): Promise<void> {
  for (let seen = 0; ; ) {
    for (; seen < log.parts.length; seen++) {
      const part = log.parts[seen]!;
      if (part.type === "finish" && part.error) throw failureOf(part.error);
      if (BEGINS.has(part.type)) return;
    }
    if (log.done || !(await log.changed(HEAD_MS))) return;
  }
}

/** The whole answer. Throws where it has failed. */
export async function whole(log: PartLog): Promise<Heard> {
  while (!log.done) await log.changed(60_000);
  const heard = new Heard();
  for (const part of log.parts) heard.add(part);
  if (heard.error) throw failureOf(heard.error);
  return heard;
}

// The client's own tries would only repeat ours.
const SETTLED = { headers: { "x-should-retry": "false" } };

/** An answer that failed, as an error of the request. */
export function failureOf({ code, message }: { code: string; message: string }): AppError {
  switch (code) {
    case "MODEL_RATE_LIMITED":
      return new AppError("rate_limited", message);
    case "MODEL_REFUSED":
      return new AppError("invalid_input", message);
    case "INTERNAL":
      return new AppError("internal", message);
    default:
      return new AppError("unavailable", message, SETTLED);
  }
}
