import { isObject, type Json } from "../lib/json.ts";
import type { StreamProtocol } from "./message-stream.ts";
import type { StreamPart } from "./part-log.ts";

/**
 * The UI message stream of AI SDK 5 and later: server-sent events, each a chunk as JSON, `[DONE]` at last.
 * Kept to the chunk types and keys that 5.0.0 knows, since a client throws at a type that it does not know;
 * with `approvals`, for clients of version 6 and later, also `tool-approval-request`.
 */
export const uiMessageStream = ({ approvals = false } = {}): StreamProtocol => ({
  headers: {
    "content-type": "text/event-stream",
    "x-vercel-ai-ui-message-stream": "v1",
  },
  heartbeat: ": keep-alive\n\n",
  writer: () => new ChunkWriter(approvals),
});

type Chunk = { type: string; [key: string]: unknown };

const event = (chunk: Chunk): string => `data: ${JSON.stringify(chunk)}\n\n`;

/** Text and reasoning come in blocks that begin, grow and end; the log has deltas alone. */
class ChunkWriter {
  readonly #approvals: boolean;
  #isStarted = false;
  /** Parts that came before the message had its id. */
  #early = "";
  #open: "text" | "reasoning" | undefined;
  #blocks = 0;

  constructor(approvals: boolean) {
    this.#approvals = approvals;
  }

  part(part: StreamPart): string {
    if (part.type === "text" || part.type === "reasoning") return this.#delta(part.type, part.text);
    const closed = this.#close();
    switch (part.type) {
      case "start_step":
        // A client that goes on with its message looks for the call in the step that it has it in.
        return closed + this.#start(part.message_id) + (part.retold ? "" : event({ type: "start-step" }));
      case "data":
        return closed + this.#data(part.data);
      case "tool_call":
        return (
          closed +
          event({
            type: "tool-input-available",
            toolCallId: part.id,
            toolName: part.name,
            input: part.args,
            dynamic: true, // the tools are the agent's: the client has no types for them
          })
        );
      case "tool_result":
        return (
          closed +
          event(
            part.is_error
              ? {
                  type: "tool-output-error",
                  toolCallId: part.id,
                  errorText: wordsOf(part.result),
                  dynamic: true,
                }
              : { type: "tool-output-available", toolCallId: part.id, output: part.result, dynamic: true },
          )
        );
      case "approval_request":
        return closed + this.#data([part]) + (this.#approvals ? event(approvalRequest(part)) : "");
      case "finish_step":
        return closed + event({ type: "finish-step" });
      case "error":
        return closed + this.#flush() + event({ type: "error", errorText: part.message });
      case "finish":
        return closed + this.#flush() + finish(part);
    }
  }

  end(): string {
    return `${this.#close()}data: [DONE]\n\n`;
  }

  #start(messageId: string): string {
    if (this.#isStarted) return "";
    this.#isStarted = true;
    return event({ type: "start", messageId }) + this.#flush();
  }

  #flush(): string {
    const early = this.#early;
    this.#early = "";
    return early;
  }

  #delta(kind: "text" | "reasoning", delta: string): string {
    let text = "";
    if (this.#open !== kind) {
      text = this.#close();
      this.#open = kind;
      this.#blocks++;
      text += event({ type: `${kind}-start`, id: `${this.#blocks}` });
    }
    return text + event({ type: `${kind}-delta`, id: `${this.#blocks}`, delta });
  }

  #close(): string {
    const kind = this.#open;
    this.#open = undefined;
    return kind ? event({ type: `${kind}-end`, id: `${this.#blocks}` }) : "";
  }

  #data(list: Json[]): string {
    const text = list.map((item) => this.#datum(item)).join("");
    if (this.#isStarted) return text;
    this.#early += text;
    return "";
  }

  #datum(item: Json): string {
    if (!isObject(item)) return event({ type: "data-value", data: item });
    const { type, ...data } = item;
    const name = typeof type === "string" && NAME.test(type) ? type : "context";
    return event({ type: `data-${name}`, data });
  }
}

const approvalRequest = (part: Extract<StreamPart, { type: "approval_request" }>): Chunk => ({
  type: "tool-approval-request",
  approvalId: part.approval_id,
  toolCallId: part.tool_call_id,
});

/** The words of a failed call; what the model was told may be an object that holds them. */
function wordsOf(result: Json): string {
  if (typeof result === "string") return result;
  const said = isObject(result) ? result["error"] : undefined;
  if (typeof said === "string") return said;
  const message = isObject(said) ? said["message"] : undefined;
  return typeof message === "string" ? message : JSON.stringify(result);
}

const NAME = /^[a-z][a-z0-9_-]{0,60}$/;

function finish({ reason, usage }: Extract<StreamPart, { type: "finish" }>): string {
  if (reason === "stopped") return event({ type: "abort" });
  const { prompt_tokens, completion_tokens } = usage;
  // Not as a key of its own, which 5.0.0 refuses.
  const messageMetadata = {
    finishReason: reason,
    usage: {
      inputTokens: prompt_tokens,
      outputTokens: completion_tokens,
      totalTokens: prompt_tokens + completion_tokens,
    },
  };
  return event({ type: "finish", messageMetadata });
}
