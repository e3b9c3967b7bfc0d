import type { StreamPart } from "../http/part-log.ts";
import { ModelError, type ModelMessage, type Models, type Usage } from "../models/model.ts";
import type { AnswerPart, ConversationStore, MessageRow, TurnRow } from "./conversation-store.ts";
import { textOf } from "./events.ts";
import type { AgentTarget } from "./service.ts";

/** The last so many messages of a conversation go to the model. */
export const HISTORY = 40;

export type AnswerEnd = {
  /** cancelled: somebody stopped it. */
  state: "success" | "failed" | "interrupted" | "cancelled";
  /** Why the model stopped: stop, length, tool-calls, content-filter, other; or error, or stopped. */
  reason: string;
  parts: AnswerPart[];
  usage: Usage;
  error?: { code: string; message: string };
  /** Set where another attempt could go better. */
  retryable: boolean;
  /** What was thrown, where the failure is one of our own. */
  cause?: unknown;
};

export const NO_USAGE: Usage = { prompt_tokens: 0, completion_tokens: 0 };

/**
 * Lets the model answer the conversation so far and tells every part to `append`, in the order of the
 * data stream: start, reasoning and text, end of the step. The end of the message is the caller's to say,
 * once the answer is on record. Never throws: what goes wrong is part of the answer.
 */
export async function answer(
  { store, models }: { store: Pick<ConversationStore, "history">; models: Models },
  request: { agent: AgentTarget; turn: TurnRow; message_id: string; signal: AbortSignal },
  append: (part: StreamPart) => void,
): Promise<AnswerEnd> {
  const { agent, turn, message_id, signal } = request;
  const { settings } = agent;
  const parts: AnswerPart[] = [];
  append({ type: "start_step", message_id });
  try {
    const stream = models.stream({
      model: settings.model ?? models.default_model,
      messages: messagesOf(settings.system_prompt, await store.history(turn, HISTORY)),
      temperature: settings.model_config.temperature,
      max_tokens: settings.model_config.max_tokens,
      signal,
    });
    for await (const part of stream) {
      if (part.type === "text" || part.type === "reasoning") {
        add(parts, part);
        append(part);
      } else if (part.type === "finish") {
        const { reason, usage } = part;
        append({ type: "finish_step", reason, usage });
        return { state: "success", reason, parts, usage, retryable: false };
      }
    }
    throw new ModelError("MODEL_INTERRUPTED", "The model's answer broke off.", true);
  } catch (error) {
    const failure = { reason: "error", parts, usage: NO_USAGE };
    if (!signal.aborted) return { ...failure, state: "failed", ...wordsOf(error) };
    const stopped = { code: "INTERRUPTED", message: "The answer was interrupted." };
    return { ...failure, state: "interrupted", error: stopped, retryable: true };
  }
}

function add(parts: AnswerPart[], { type, text }: { type: "text" | "reasoning"; text: string }): void {
  const last = parts.at(-1);
  if (last?.type === type) last.text += text;
  else parts.push({ type, text });
}

/**
 * What the model is told. Roles alternate and the user begins, as many models' templates demand: messages
 * whose answer failed are joined with the one after them.
 */
export function messagesOf(system_prompt: string | null, history: MessageRow[]): ModelMessage[] {
  const said: ModelMessage[] = [];
  for (const message of history) {
    const content = toldOf(message);
    const last = said.at(-1);
    if (!COUNTS.has(message.state) || content === "" || (!last && message.role === "assistant")) continue;
    if (last?.role === message.role && typeof last.content === "string") last.content += `\n\n${content}`;
    else said.push({ role: message.role, content });
  }
  return system_prompt ? [{ role: "system", content: system_prompt }, ...said] : said;
}

/** What was stopped was read until then, and is what the next message answers. */
const COUNTS: ReadonlySet<MessageRow["state"]> = new Set(["complete", "stopped"]);

function toldOf(message: MessageRow): string {
  const context = message.parts.find((part) => part.type === "context");
  const text = textOf(message);
  return context ? `${text}\n\nContext:\n${JSON.stringify(context.facts)}` : text;
}

function wordsOf(error: unknown): Pick<AnswerEnd, "error" | "retryable" | "cause"> {
  if (error instanceof ModelError) {
    return { error: { code: error.code, message: error.message }, retryable: error.retryable };
  }
  const words = {
    code: "INTERNAL",
    message: "The answer failed for a reason of Errand's own; the log has it.",
  };
  return { error: words, retryable: false, cause: error };
}
