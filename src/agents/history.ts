import type { ContentPart, ModelMessage } from "../models/model.ts";
import type { AnswerPart, MessageRow } from "./conversation-store.ts";
import { textOf } from "./events.ts";

/**
 * What the model is told of a conversation. Roles alternate and the user begins, as many models' templates
 * demand: messages whose answer failed are joined with the one after them.
 */
export function messagesOf(
  system_prompt: string | null,
  history: MessageRow[],
  pictures: Pictures = new Map(),
): ModelMessage[] {
  const said: ModelMessage[] = [];
  for (const message of history) {
    if (!COUNTS.has(message.state)) continue;
    if (message.role === "assistant") {
      if (said.length > 0) said.push(...answerMessages(message.parts as AnswerPart[]));
      continue;
    }
    const content = toldOf(message, pictures);
    const last = said.at(-1);
    if (content.length === 0) continue;
    if (last?.role === "user") last.content = joined(last.content, content);
    else said.push({ role: "user", content });
  }
  return system_prompt ? [{ role: "system", content: system_prompt }, ...said] : said;
}

/** What was stopped was read until then, and is what the next message answers. */
const COUNTS: ReadonlySet<MessageRow["state"]> = new Set(["complete", "stopped", "waiting"]);

/** Pictures of a conversation as a model takes them, by the attachment's id. */
export type Pictures = ReadonlyMap<string, { media_type: string; data: string }>;

/** The pictures that the model is shown, the newest; for the others it is told that there was one. */
export function shownPictures(history: MessageRow[], most: number): string[] {
  const ids = history.flatMap(({ parts }) =>
    parts.flatMap((part) => (part.type === "image" ? [part.attachment_id] : [])),
  );
  return [...new Set(ids.reverse())].slice(0, most);
}

function toldOf(message: MessageRow, pictures: Pictures): string | ContentPart[] {
  const context = message.parts.find((part) => part.type === "context");
  const text = textOf(message);
  const words = context ? `${text}\n\nContext:\n${JSON.stringify(context.facts)}` : text;
  const images = message.parts.filter((part) => part.type === "image");
  if (images.length === 0) return words;
  return [
    ...(words === "" ? [] : [{ type: "text" as const, text: words }]),
    ...images.map(({ attachment_id }): ContentPart => {
      const picture = pictures.get(attachment_id);
      return picture ? { type: "image", ...picture } : { type: "text", text: "[A picture was here.]" };
    }),
  ];
}

export function joined(a: ModelMessage["content"], b: ModelMessage["content"]): ModelMessage["content"] {
  if (typeof a === "string" && typeof b === "string") return `${a}\n\n${b}`;
  const parts = (content: ModelMessage["content"]): ContentPart[] =>
    typeof content === "string" ? [{ type: "text", text: content }] : content;
  return [...parts(a), ...parts(b)];
}

const UNANSWERED = "This call has not run: it waits for somebody's approval.";

/** An answer as the model gave it: for each step its words with the calls, then what the calls gave. */
export function answerMessages(parts: AnswerPart[]): ModelMessage[] {
  return stepsOf(parts).flatMap((step): ModelMessage[] => {
    const results = new Map(step.flatMap((part) => (part.type === "tool_result" ? [[part.id, part]] : [])));
    const content = textOf({ parts: step });
    const calls = step.flatMap((part) => (part.type === "tool_call" ? [part] : []));
    const thought = step.flatMap((part) => (part.type === "reasoning" ? [part.text] : []));
    const reasoning = thought.length > 0 ? { reasoning: thought.join("") } : {};
    if (calls.length === 0) return content === "" ? [] : [{ role: "assistant", content, ...reasoning }];
    return [
      {
        role: "assistant",
        content,
        ...reasoning,
        tool_calls: calls.map(({ type: _, ...call }) => call),
      },
      ...calls.map(({ id }): ModelMessage => {
        const found = results.get(id);
        const result = found?.type === "tool_result" ? found.result : UNANSWERED;
        return {
          role: "tool",
          tool_call_id: id,
          content: typeof result === "string" ? result : JSON.stringify(result),
        };
      }),
    ];
  });
}

/** The steps of an answer: one ends where something follows a result. */
function stepsOf(parts: AnswerPart[]): AnswerPart[][] {
  const steps: AnswerPart[][] = [];
  let last: AnswerPart | undefined;
  for (const part of parts) {
    if (!last || (last.type === "tool_result" && part.type !== "tool_result")) steps.push([]);
    steps.at(-1)!.push(part);
    last = part;
  }
  return steps;
}

// Models count tokens each in its own way; four characters of plain text are about one with all of them.
const CHARACTERS_A_TOKEN = 4;
const TOKENS_A_PICTURE = 1_000;
const TOKENS_A_MESSAGE = 4;

/** About how many tokens a message takes. */
export function tokensOf({ content, tool_calls }: ModelMessage): number {
  const words =
    typeof content === "string"
      ? content.length / CHARACTERS_A_TOKEN
      : content.reduce(
          (sum, part) =>
            sum + (part.type === "text" ? part.text.length / CHARACTERS_A_TOKEN : TOKENS_A_PICTURE),
          0,
        );
  const calls = tool_calls ? JSON.stringify(tool_calls).length / CHARACTERS_A_TOKEN : 0;
  return Math.ceil(words + calls) + TOKENS_A_MESSAGE;
}

/**
 * Leaves out the oldest until the rest takes at most `budget` tokens. A call goes with its results, and what
 * the model is told to be and the last message of the user always stay.
 */
export function trimmed(messages: ModelMessage[], budget: number): ModelMessage[] {
  const costs = messages.map(tokensOf);
  let total = costs.reduce((sum, cost) => sum + cost, 0);
  if (total <= budget) return messages;
  const lastUser = messages.findLastIndex(({ role }) => role === "user");
  const left = new Set<number>();
  for (const group of groupsOf(messages)) {
    const isKept = group.some((index) => index === lastUser || messages[index]!.role === "system");
    const isNewest = group.at(-1) === messages.length - 1;
    if (isKept || isNewest) continue;
    for (const index of group) {
      left.add(index);
      total -= costs[index]!;
    }
    if (total <= budget) break;
  }
  const kept = messages.filter((_, index) => !left.has(index));
  // What the user said first may be gone; an answer without its question confuses more than it helps.
  const from = kept.findIndex(({ role }) => role === "user");
  return kept.filter(({ role }, index) => role === "system" || index >= from);
}

/** Indexes that stay or go together: a message, with the results of its calls. */
function groupsOf(messages: ModelMessage[]): number[][] {
  const groups: number[][] = [];
  for (const [index, { role }] of messages.entries()) {
    if (role === "tool" && groups.length > 0) groups.at(-1)!.push(index);
    else groups.push([index]);
  }
  return groups;
}
