import type { StreamProtocol } from "./message-stream.ts";
import type { StreamPart, StreamUsage } from "./part-log.ts";

/** The data stream, version 1 (interface 4.2): lines of a one-character prefix, a colon and JSON. */
export const dataStream: StreamProtocol = {
  headers: {
    "content-type": "text/plain; charset=utf-8",
    "x-service-ai-data-stream": "v1",
    // assistant-ui picks its decoder by this one.
    "x-vercel-ai-data-stream": "v1",
  },
  heartbeat: "\n",
  writer: () => ({ part: dataStreamLine, end: () => "" }),
};

/**
 * One line of it. Every payload is JSON as the field's clients parse it strictly: text and errors are JSON
 * strings, a tool's result is wrapped with its call's id.
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
      return `9:${JSON.stringify({ toolCallId: part.id, toolName: part.name, args: argsOf(part.args) })}\n`;
    case "tool_result":
      return `a:${JSON.stringify({ toolCallId: part.id, result: part.result })}\n`;
    case "approval_request":
      return `2:${JSON.stringify([part])}\n`;
    case "finish_step":
      return `e:${JSON.stringify({ finishReason: part.reason, usage: wireUsage(part.usage), isContinued: false })}\n`;
    case "finish":
      return `d:${JSON.stringify({ finishReason: wireReason(part.reason), usage: wireUsage(part.usage), error: part.error })}\n`;
    case "error":
      return `3:${JSON.stringify(part.message)}\n`;
  }
}

// What the model wrote may be no object; a strict client takes nothing else.
const argsOf = (args: Extract<StreamPart, { type: "tool_call" }>["args"]) =>
  typeof args === "object" ? args : { input: args };

// The clients' own list of reasons knows no "stopped".
const wireReason = (reason: string): string => (reason === "stopped" ? "other" : reason);

const wireUsage = ({ prompt_tokens, completion_tokens }: StreamUsage) => ({
  promptTokens: prompt_tokens,
  completionTokens: completion_tokens,
});
