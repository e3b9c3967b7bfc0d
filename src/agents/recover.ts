import type { Clock } from "../lib/clock.ts";
import { newId } from "../lib/ids.ts";
import { addWords } from "../models/words.ts";
import type { Attachments } from "./attachments.ts";
import type { AnswerPart, ConversationStore, TurnRow } from "./conversation-store.ts";
import type { StepStore } from "./step-store.ts";

type Deps = {
  store: Pick<ConversationStore, "unfinishedStreams" | "finish">;
  steps: Pick<StepStore, "steps" | "words">;
  attachments: Pick<Attachments, "dropLost">;
  clock: Clock;
};

/**
 * At start: streams that died with the program have nobody left to answer, and say so in their
 * conversation; how many there were. Turns with a job are run again by it.
 */
export async function recoverStreams({ store, steps, attachments, clock }: Deps): Promise<number> {
  const unfinished = await store.unfinishedStreams();
  await Promise.all(
    unfinished.map(async (turn) => {
      await store.finish(interruptedByCrash(turn, await saidBefore(steps, turn), clock.now()));
    }),
  );
  await attachments.dropLost();
  return unfinished.length;
}

/** What a turn had come to; of the words after its last whole step, those are there that were kept by then. */
export async function saidBefore(steps: Deps["steps"], { id }: TurnRow): Promise<AnswerPart[]> {
  const parts = (await steps.steps(id)).flatMap((step) => (step.path === "" ? step.parts : []));
  const whole = parts.length;
  for (const words of await steps.words(id)) addWords(parts, words, { from: whole });
  return parts;
}

/** An answer that nobody goes on with. */
export const brokenOffAnswer = (
  { id, conversation_id, message_id, answer_id }: TurnRow,
  parts: AnswerPart[],
  now: number,
) => ({
  id: message_id ?? answer_id ?? newId(), // none where an earlier version began it
  conversation_id,
  turn_id: id,
  role: "assistant" as const,
  parts,
  state: "interrupted" as const,
  usage: null,
  created_at: now,
});

const interruptedByCrash = (turn: TurnRow, parts: AnswerPart[], now: number) => ({
  turn_id: turn.id,
  conversation_id: turn.conversation_id,
  state: "interrupted" as const,
  error: JSON.stringify({ code: "INTERRUPTED", message: "Errand stopped while this was being answered." }),
  ended_at: now,
  message: brokenOffAnswer(turn, parts, now),
  outbox: [],
});
