import { createParser } from "eventsource-parser";

export type Chunk = { type: string; [key: string]: unknown };

/** What AI SDK 5.0.0, the strictest of its readers, takes: these types with these keys and no other. */
const KEYS: Record<string, string[]> = {
  start: ["messageId"],
  "start-step": [],
  "text-start": ["id"],
  "text-delta": ["id", "delta"],
  "text-end": ["id"],
  "reasoning-start": ["id"],
  "reasoning-delta": ["id", "delta"],
  "reasoning-end": ["id"],
  "tool-input-available": ["toolCallId", "toolName", "input", "dynamic"],
  "tool-output-available": ["toolCallId", "output", "dynamic"],
  "tool-output-error": ["toolCallId", "errorText", "dynamic"],
  "finish-step": [],
  finish: ["messageMetadata"],
  abort: [],
  error: ["errorText"],
};

/** Reads a UI message stream; throws at what a client would throw at. */
export function readUiMessageStream(text: string): Chunk[] {
  const chunks: Chunk[] = [];
  const open = new Set<string>();
  let isDone = false;
  const parser = createParser({
    onEvent({ data }) {
      if (isDone) throw new Error("something after [DONE]");
      if (data === "[DONE]") {
        isDone = true;
        return;
      }
      const chunk = JSON.parse(data) as Chunk;
      check(chunk, open);
      chunks.push(chunk);
    },
  });
  parser.feed(text);
  if (!isDone) throw new Error("no [DONE]");
  if (open.size > 0) throw new Error(`left open: ${[...open]}`);
  return chunks;
}

function check({ type, ...rest }: Chunk, open: Set<string>): void {
  const keys = type.startsWith("data-") ? ["data"] : KEYS[type];
  if (!keys) throw new Error(`unknown type ${type}`);
  const given = Object.keys(rest);
  if (given.length !== keys.length || !given.every((key) => keys.includes(key)))
    throw new Error(`${type} has ${given}`);
  const [kind, step] = type.split("-");
  if (kind !== "text" && kind !== "reasoning") return;
  const block = `${kind} ${rest["id"]}`;
  if (open.has(block) === (step === "start")) throw new Error(`${type} of ${block}`);
  if (step === "start") open.add(block);
  if (step === "end") open.delete(block);
}
