import type { LivePartLog } from "../http/part-log.ts";
import { type Clock, realTime } from "../lib/clock.ts";
import type { ModelMessage } from "../models/model.ts";
import { askModelOf, type ModelDeps, modelOf } from "./agent-model.ts";
import type { AnswerEnd } from "./answer.ts";
import type { ConversationRow, ConversationStore, TurnRow } from "./conversation-store.ts";
import { textOf } from "./events.ts";
import type { AgentTarget } from "./service.ts";

type Deps = ModelDeps & { store: Pick<ConversationStore, "history" | "note">; clock: Clock };

type Answered = {
  agent: AgentTarget;
  conversation: ConversationRow;
  turn: TurnRow;
  end: AnswerEnd;
  signal: AbortSignal;
};

/** A reader waits for the last line meanwhile. */
const PATIENCE_MS = 10_000;
const LONGEST_QUOTE = 2_000;
const LONGEST_TITLE = 80;
const LONGEST_REPLY = 120;
const MOST_REPLIES = 3;

/**
 * What follows an answer that is on record: a title for a conversation without one, and what the user may
 * say next, told to `log` and kept with the conversation. Made by the agent's model where somebody reads
 * along, by rule elsewhere and offline. Nothing of it can fail the turn.
 */
export async function tidyUp(deps: Deps, answered: Answered, log: LivePartLog): Promise<void> {
  const { agent, conversation, turn, end } = answered;
  const { auto_generate_title, suggest_replies } = agent.settings;
  const wantsTitle = auto_generate_title && conversation.title === null;
  if (end.state !== "success" || !(wantsTitle || suggest_replies)) return;
  try {
    const history = await deps.store.history(turn, 2);
    const asked = textOf(history.findLast(({ role }) => role === "user") ?? { parts: [] }).trim();
    if (asked === "") return;
    const talk = { ...answered, asked, said: textOf(end) };
    const [title, replies] = await Promise.all([
      wantsTitle ? titleOf(deps, talk) : undefined,
      suggest_replies ? repliesTo(deps, talk) : undefined,
    ]);
    await deps.store.note(conversation.id, { title, suggested_replies: replies });
    if (title !== undefined) log.append({ type: "data", data: [{ type: "title", title }] });
    if (replies !== undefined && replies.length > 0)
      log.append({ type: "data", data: [{ type: "suggested_replies", suggested_replies: replies }] });
  } catch {
    // The answer stands without them.
  }
}

type Talk = Answered & { asked: string; said: string };

async function titleOf(deps: Deps, talk: Talk): Promise<string> {
  const wish =
    "Write a title for the conversation that the user shows you: at most six words, in its language, and " +
    "nothing else. No quotation marks.";
  const title = cleaned(await told(deps, talk, wish));
  return title === "" ? titleByRule(talk.asked) : title;
}

const cleaned = (text: string): string =>
  cut(
    text
      .replace(/<think>[\s\S]*?<\/think>/g, "")
      .trim()
      .split("\n")[0]!
      .replace(/^["'“”«»*#\s]+|["'“”«»*\s.]+$/g, ""),
    LONGEST_TITLE,
  );

const titleByRule = (asked: string): string => cut(asked.split("\n")[0]!.trim(), 60);

/** Cut between words where there are any. */
function cut(text: string, longest: number): string {
  if (text.length <= longest) return text;
  const kept = text.slice(0, longest - 1);
  const space = kept.lastIndexOf(" ");
  // Not in the middle of a character of two units.
  return `${kept.slice(0, space > longest / 2 ? space : undefined).replace(/[\uD800-\uDBFF]$/, "")}…`;
}

async function repliesTo(deps: Deps, talk: Talk): Promise<string[]> {
  const wish =
    `Suggest ${MOST_REPLIES} short messages that the user may well send next, in the user's own words and ` +
    "language. Answer with a JSON array of strings and nothing else.";
  const list = /\[[\s\S]*\]/.exec(await told(deps, talk, wish))?.[0];
  if (list === undefined) return isOffline(deps, talk) ? ["What can you do?", "How do I add a model?"] : [];
  return listIn(list)
    .filter((reply): reply is string => typeof reply === "string" && reply.trim() !== "")
    .slice(0, MOST_REPLIES)
    .map((reply) => cut(reply.trim(), LONGEST_REPLY));
}

function listIn(text: string): unknown[] {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? value : [];
  } catch {
    return [];
  }
}

const isOffline = ({ models }: Deps, { agent }: Talk): boolean =>
  modelOf(models, agent).startsWith("offline/");

/** What the model makes of the wish; nothing where it is not asked, fails or takes too long. */
async function told(deps: Deps, talk: Talk, wish: string): Promise<string> {
  if (isOffline(deps, talk) || talk.turn.source !== "stream") return "";
  const late = new AbortController();
  const cancel = realTime(deps.clock).after(PATIENCE_MS, () => late.abort());
  const quote = (text: string) => text.slice(0, LONGEST_QUOTE);
  const messages: ModelMessage[] = [
    { role: "system", content: wish },
    { role: "user", content: `User: ${quote(talk.asked)}\n\nAssistant: ${quote(talk.said)}` },
  ];
  try {
    const signal = AbortSignal.any([talk.signal, late.signal]);
    let text = "";
    for await (const part of await askModelOf(deps, talk.agent, { messages, signal }))
      if (part.type === "text") text += part.text;
    return text;
  } catch {
    return "";
  } finally {
    cancel();
  }
}
