import type { Clock } from "../lib/clock.ts";
import type { Json } from "../lib/json.ts";

/** What a message stream is made of (interface 4.2), as its producer says it. */
export type StreamPart =
  | { type: "start_step"; message_id: string }
  | { type: "text"; text: string }
  | { type: "reasoning"; text: string }
  | { type: "data"; data: Json[] }
  | { type: "tool_call"; id: string; name: string; args: Json }
  | { type: "tool_result"; id: string; result: Json; is_error?: true }
  | { type: "approval_request"; approval_id: string; tool_call_id: string; tool_name: string; args: Json }
  | { type: "finish_step"; reason: string; usage: StreamUsage }
  | { type: "finish"; reason: string; usage: StreamUsage; error?: { code: string; message: string } }
  | { type: "error"; message: string };

export type StreamUsage = { prompt_tokens: number; completion_tokens: number };

/** A list of parts that grows until it is done; readers follow it with a cursor of their own. */
export type PartLog = {
  readonly parts: readonly StreamPart[];
  readonly done: boolean;
  /** Resolves true when there is more or it is done, false after `ms` of nothing. */
  changed(ms: number): Promise<boolean>;
};

/**
 * One line of the data stream, version 1. Every payload is JSON as the field's clients parse it strictly:
 * text and errors are JSON strings, a tool's result is wrapped with its call's id.
 */
export function dataStreamLine(part: StreamPart): string {
  switch (part.type) {
    case "start_step":
      return `f:${JSON.stringify({ messageId: part.message_id })}\n`;
    case "text":
      return `0:${JSON.stringify(part.text)}\n`;
    case "reasoning":
      return `g:${JSON.stringify(part.text)}\n`;
    case "data":
      return `2:${JSON.stringify(part.data)}\n`;
    case "tool_call":
      return `9:${JSON.stringify({ toolCallId: part.id, toolName: part.name, args: part.args })}\n`;
    case "tool_result":
      return `a:${JSON.stringify({ toolCallId: part.id, result: part.result })}\n`;
    case "approval_request":
      return `2:${JSON.stringify([part])}\n`;
    case "finish_step":
      return `e:${JSON.stringify({ finishReason: part.reason, usage: wireUsage(part.usage), isContinued: false })}\n`;
    case "finish":
      return `d:${JSON.stringify({ finishReason: part.reason, usage: wireUsage(part.usage), error: part.error })}\n`;
    case "error":
      return `3:${JSON.stringify(part.message)}\n`;
  }
}

const wireUsage = ({ prompt_tokens, completion_tokens }: StreamUsage) => ({
  promptTokens: prompt_tokens,
  completionTokens: completion_tokens,
});

const HEARTBEAT_MS = 10_000;
const LARGEST_CHUNK = 16_384;

/**
 * Answers with a log from its beginning on: what there is, then what comes, a bare newline in silences so
 * that nothing between takes the connection for dead. Pulled, so a client that does not read costs
 * nothing; a client that goes away ends its own reading and nothing else.
 */
export function dataStreamResponse(log: PartLog, headers: Record<string, string> = {}): Response {
  const encoder = new TextEncoder();
  let cursor = 0;
  let isGone = false;
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        for (;;) {
          let text = "";
          while (cursor < log.parts.length && text.length < LARGEST_CHUNK)
            text += dataStreamLine(log.parts[cursor++]!);
          if (text) return controller.enqueue(encoder.encode(text));
          if (log.done) return controller.close();
          const hasMore = await log.changed(HEARTBEAT_MS);
          if (isGone) return;
          if (!hasMore) return controller.enqueue(encoder.encode("\n"));
        }
      },
      cancel() {
        isGone = true;
      },
    },
    { highWaterMark: 0 },
  );
  return new Response(body, {
    headers: {
      "content-type": "text/plain; charset=utf-8",
      "x-service-ai-data-stream": "v1",
      // assistant-ui picks its decoder by this one.
      "x-vercel-ai-data-stream": "v1",
      "cache-control": "no-cache",
      "x-accel-buffering": "no",
      ...headers,
    },
  });
}

/** A log that its one producer appends to. */
export class LivePartLog implements PartLog {
  readonly parts: StreamPart[] = [];
  done = false;
  readonly #clock: Clock;
  readonly #waiting = new Set<() => void>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  append(...parts: StreamPart[]): void {
    this.parts.push(...parts);
    this.#wake();
  }

  close(): void {
    this.done = true;
    this.#wake();
  }

  changed(ms: number): Promise<boolean> {
    return new Promise((resolve) => {
      const wake = () => {
        cancel();
        resolve(true);
      };
      const cancel = this.#clock.after(ms, () => {
        this.#waiting.delete(wake);
        resolve(false);
      });
      this.#waiting.add(wake);
    });
  }

  #wake(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const wake of waiting) wake();
  }
}
