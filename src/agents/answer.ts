import type { StreamPart } from "../http/part-log.ts";
import { ModelError, type ModelMessage, type Usage } from "../models/model.ts";
import type { Attachments } from "./attachments.ts";
import type { AnswerPart, ConversationStore, MessageRow, TurnRow } from "./conversation-store.ts";
import { messagesOf, type Pictures, shownPictures } from "./history.ts";
import { type Journal, TurnLost } from "./journal.ts";
import { STOPPED } from "./live-turns.ts";
import type { AgentTarget } from "./service.ts";
import { Stopping } from "./tools.ts";
import { type Asked, type LoopDeps, runLoop, type TheirTools } from "./turn-loop.ts";

/** At most so many messages of a conversation are looked at; how many of them the model is sent, its window says. */
export const HISTORY = 200;

export type AnswerEnd = {
  /** cancelled: somebody stopped it; waiting: for approvals; lost: it is no longer worked here. */
  state: "success" | "failed" | "interrupted" | "cancelled" | "waiting" | "lost";
  /** Why the model stopped: stop, length, tool-calls, content-filter, other; or error, or stopped. */
  reason: string;
  parts: AnswerPart[];
  usage: Usage;
  error?: { code: string; message: string };
  /** Set where another attempt could go better. */
  retryable: boolean;
  /** What was thrown, where the failure is one of our own. */
  cause?: unknown;
  /** Calls that somebody has to approve before the answer goes on. */
  asked: Asked[];
};

const MOST_PICTURES = 20;

export type AnswerDeps = LoopDeps & {
  store: Pick<ConversationStore, "history">;
  attachments: Pick<Attachments, "forModel">;
};

export type AnswerRequest = {
  agent: AgentTarget;
  turn: TurnRow;
  message_id: string;
  journal: Journal;
  signal: AbortSignal;
  /** The message that is answered, where it may not be on record yet; `isFirst`: nothing was said before it. */
  heard?: { message: MessageRow; isFirst: boolean } | undefined;
};

export const NO_USAGE: Usage = { prompt_tokens: 0, completion_tokens: 0 };

/**
 * Lets the agent answer the conversation so far and tells every part to `append`, in the order of the
 * data stream: start, reasoning and text, calls, results, end of the step. The end of the message is the
 * caller's to say, once the answer is on record. Never throws: what goes wrong is part of the answer.
 */
export async function answer(
  deps: AnswerDeps,
  request: AnswerRequest,
  append: (part: StreamPart) => void,
): Promise<AnswerEnd> {
  const { agent, turn } = request;
  const hear = async () => {
    const history = await historyOf(deps, request);
    const heard = history.filter((message) => message.turn_id !== turn.id || message.role === "user");
    return messagesOf(agent.settings.system_prompt, heard, await picturesOf(deps, heard));
  };
  return answerWhat(deps, { ...request, hear, isOnRecord: true }, append);
}

/**
 * The same to what `hear` gives, the agent's own prompt first. Only where the turn is on record can anybody
 * be asked for an approval.
 */
export async function answerWhat(
  deps: LoopDeps,
  request: AnswerRequest & { hear(): Promise<ModelMessage[]>; isOnRecord: boolean; theirs?: TheirTools },
  append: (part: StreamPart) => void,
): Promise<AnswerEnd> {
  const { agent, turn, message_id, journal, signal, theirs } = request;
  const parts: AnswerPart[] = [];
  const asked: Asked[] = [];
  const usage = { ...NO_USAGE };
  const said = { parts, usage, asked, retryable: false };
  try {
    const end = await runLoop(deps, {
      agent,
      said: await request.hear(),
      place: { turn, path: "", ancestors: [agent.id] },
      journal,
      message_id,
      signal,
      append,
      theirs,
      parts,
      usage,
      asked: request.isOnRecord ? asked : undefined,
    });
    if (end.kind === "waiting") return { ...said, state: "waiting", reason: "tool-calls" };
    return { ...said, state: "success", reason: end.reason };
  } catch (error) {
    const failure = { ...said, reason: "error" };
    if (error instanceof TurnLost) return { ...failure, state: "lost" };
    // An end that somebody asked for is no failure.
    if (signal.reason === STOPPED) return { ...said, state: "cancelled", reason: "stopped" };
    if (!signal.aborted && !(error instanceof Stopping))
      return { ...failure, state: "failed", ...wordsOf(error) };
    const stopped = { code: "INTERRUPTED", message: "The answer was interrupted." };
    return { ...failure, state: "interrupted", error: stopped, retryable: true };
  }
}

async function historyOf({ store }: AnswerDeps, { turn, heard }: AnswerRequest): Promise<MessageRow[]> {
  if (heard?.isFirst) return [heard.message];
  const history = await store.history(turn, HISTORY);
  if (!heard || history.some(({ id }) => id === heard.message.id)) return history;
  return [...history.slice(1 - HISTORY), heard.message];
}

async function picturesOf({ attachments }: AnswerDeps, history: MessageRow[]): Promise<Pictures> {
  const pictures = new Map<string, { media_type: string; data: string }>();
  for (const id of shownPictures(history, MOST_PICTURES)) {
    const picture = await attachments.forModel(id);
    if (picture) pictures.set(id, picture);
  }
  return pictures;
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
