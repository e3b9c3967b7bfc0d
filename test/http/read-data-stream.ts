import type { StreamPart } from "../../src/http/part-log.ts";

/**
 * Reads a v1 stream as the strictest of its clients do: one known code, a colon, JSON of the code's own
 * shape; empty lines are nothing. Throws at everything else.
 */
export function readDataStream(text: string): StreamPart[] {
  if (text !== "" && !text.endsWith("\n")) throw new Error("the last line is cut");
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map(readLine);
}

function readLine(line: string): StreamPart {
  if (line[1] !== ":") throw new Error(`no code: ${line}`);
  const value: unknown = JSON.parse(line.slice(2));
  switch (line[0]) {
    case "0":
      return { type: "text", text: string(value) };
    case "g":
      return { type: "reasoning", text: string(value) };
    case "3":
      return { type: "error", message: string(value) };
    case "2":
      if (!Array.isArray(value)) throw new Error(`no array: ${line}`);
      return { type: "data", data: value };
    case "f":
      return { type: "start_step", message_id: string(object(value, "messageId")["messageId"]) };
    case "9": {
      const { toolCallId, toolName, args } = object(value, "toolCallId", "toolName", "args");
      return {
        type: "tool_call",
        id: string(toolCallId),
        name: string(toolName),
        args: object(args) as never,
      };
    }
    case "a": {
      const { toolCallId, result } = object(value, "toolCallId", "result");
      return { type: "tool_result", id: string(toolCallId), result: result as never };
    }
    case "e": {
      const { finishReason, usage, isContinued } = object(value, "finishReason", "usage", "isContinued");
      if (isContinued !== false) throw new Error(`continued: ${line}`);
      return { type: "finish_step", reason: string(finishReason), usage: usageOf(usage) };
    }
    case "d": {
      const { finishReason, usage, error } = object(value, "finishReason", "usage");
      const end: StreamPart = { type: "finish", reason: string(finishReason), usage: usageOf(usage) };
      if (error !== undefined) {
        const { code, message } = object(error, "code", "message");
        end.error = { code: string(code), message: string(message) };
      }
      return end;
    }
    default:
      throw new Error(`unknown code: ${line}`);
  }
}

function string(value: unknown): string {
  if (typeof value !== "string") throw new Error(`no string: ${JSON.stringify(value)}`);
  return value;
}

function object(value: unknown, ...names: string[]): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error("no object");
  for (const name of names) if (!Object.hasOwn(value, name)) throw new Error(`${name} is missing`);
  return value as Record<string, unknown>;
}

function usageOf(value: unknown) {
  const { promptTokens, completionTokens } = object(value, "promptTokens", "completionTokens");
  if (typeof promptTokens !== "number" || typeof completionTokens !== "number") throw new Error("no usage");
  return { prompt_tokens: promptTokens, completion_tokens: completionTokens };
}
