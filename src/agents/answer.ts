import type { StreamPart } from "../http/data-stream.ts";
import { ModelError, type ModelMessage, type Models, type Usage } from "../models/model.ts";
import type { MessagePart, MessageRow } from "./conversation-store.ts";
import { textOf } from "./events.ts";
import type { AgentTarget } from "./service.ts";

/** The last so many messages of a conversation go to the model. */
export const HISTORY = 40;

export type AnswerEnd = {
  state: "success" | "failed" | "interrupted";
  parts: MessagePart[];
  usage: Usage;
  error?: { code: string; message: string };
  /** Set where another attempt could go better. */
  retryable: boolean;
};

const NO_USAGE: Usage = { prompt_tokens: 0, completion_tokens: 0 };

/**
 * Lets the model answer the conversation so far and tells every part to `append`, in the order of the
 * data stream: start, reasoning and text, end of the step. The end of the message is the caller's to say,
 * once the answer is on record. Never throws: what goes wrong is part of the answer.
 */
export async function answer(
  { models }: { models: Models },
  request: { agent: AgentTarget; history: MessageRow[]; message_id: string; signal: AbortSignal },
  append: (part: StreamPart) => void,
): Promise<AnswerEnd> {
  const { agent, history, message_id, signal } = request;
  const { settings } = agent;
  const parts: MessagePart[] = [];
  append({ type: "start_step", message_id });
  try {
    const stream = models.stream({
      model: settings.model ?? models.default_model,
      messages: messagesOf(settings.system_prompt, history),
      temperature: settings.model_config.temperature,
      max_tokens: settings.model_config.max_tokens,
      signal,
    });
    for await (const part of stream) {
      if (part.type === "text" || part.type === "reasoning") {
        add(parts, part);
        append(part);
      } else if (part.type === "finish") {
        append({ type: "finish_step", reason: part.reason, usage: part.usage });
        return { state: "success", parts, usage: part.usage, retryable: false };
      }
    }
    throw new ModelError("MODEL_INTERRUPTED", "The model's answer broke off.", true);
  } catch (error) {
    if (signal.aborted) {
      const stopped = { code: "INTERRUPTED", message: "The answer was interrupted." };
      return { state: "interrupted", parts, usage: NO_USAGE, error: stopped, retryable: true };
    }
    return { state: "failed", parts, usage: NO_USAGE, ...wordsOf(error) };
  }
}

function add(parts: MessagePart[], { type, text }: MessagePart): void {
  const last = parts.at(-1);
  if (last?.type === type) last.text += text;
  else parts.push({ type, text });
}

function messagesOf(system_prompt: string | null, history: MessageRow[]): ModelMessage[] {
  const said = history
    .filter((message) => message.state === "complete")
    .map((message) => ({ role: message.role, content: textOf(message) }));
  return system_prompt ? [{ role: "system", content: system_prompt }, ...said] : said;
}

function wordsOf(error: unknown): { error: { code: string; message: string }; retryable: boolean; cause?: unknown } {
  if (error instanceof ModelError) {
    return { error: { code: error.code, message: error.message }, retryable: error.retryable };
  }
  const words = { code: "INTERNAL", message: "The answer failed for a reason of Errand's own; the log has it." };
  return { error: words, retryable: false, cause: error };
}
