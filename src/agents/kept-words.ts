import type { PartLog } from "../http/part-log.ts";
import { type Clock, realTime } from "../lib/clock.ts";
import { addWords, type Words } from "../models/words.ts";
import type { SaidWords, StepStore } from "./step-store.ts";

/** How often words are kept: at most so much of what was read is gone after a crash. */
export const KEPT_EVERY_MS = 2_000;
/** Answers to one write, so that those of thousands let others' writes between. */
const MOST_AT_ONCE = 250;

/** An answer under way: how far its log has been gone through, and whether words of its step are on record. */
type Followed = { turn_id: string; log: PartLog; at: number; isSpeaking: boolean; hasKept: boolean };

export type KeptWords = ReturnType<typeof createKeptWords>;

/**
 * Keeps what answers say while they say it, all in one beat, so that after a crash what was read is in the
 * conversation. Only words of the step under way: once it calls something it is about to be on record as a whole.
 */
export function createKeptWords({ steps, clock }: { steps: Pick<StepStore, "keepWords">; clock: Clock }) {
  const followed = new Set<Followed>();
  let isArmed = false;

  function arm(): void {
    if (isArmed || followed.size === 0) return;
    isArmed = true;
    realTime(clock).after(KEPT_EVERY_MS, async () => {
      await keepAll();
      isArmed = false;
      arm();
    });
  }

  async function keepAll(): Promise<void> {
    const said = [...followed].flatMap((one) => {
      const heard = hear(one);
      return heard ? [{ one, ...heard }] : [];
    });
    const writes = [];
    for (let from = 0; from < said.length; from += MOST_AT_ONCE) {
      const some = said.slice(from, from + MOST_AT_ONCE);
      writes.push(
        steps.keepWords(some.map(({ words }) => words)).then(
          () => {
            for (const { one, next } of some) Object.assign(one, next);
          },
          () => {}, // a disk that refuses shows elsewhere; the words are tried again with those of the next beat
        ),
      );
    }
    await Promise.all(writes);
  }

  return {
    /** Keeps the words of an answer that is on record, until the answered function is called. */
    follow(turn_id: string, log: PartLog): () => void {
      const one = { turn_id, log, at: 0, isSpeaking: false, hasKept: false };
      followed.add(one);
      arm();
      return () => followed.delete(one);
    },
  };
}

/** What has been said since `at`, and where that leads; undefined: no word. */
function hear(one: Followed): { words: SaidWords; next: Partial<Followed> } | undefined {
  const { turn_id, log } = one;
  let { isSpeaking, hasKept } = one;
  let parts: Words[] = [];
  for (let at = one.at; at < log.parts.length; at++) {
    const part = log.parts[at]!;
    if (part.type === "start_step" || part.type === "tool_call") {
      isSpeaking = part.type === "start_step";
      hasKept = false;
      parts = [];
    } else if (isSpeaking && (part.type === "text" || part.type === "reasoning")) addWords(parts, part);
  }
  if (parts.length === 0) {
    Object.assign(one, { at: log.parts.length, isSpeaking, hasKept });
    return undefined;
  }
  const next = { at: log.parts.length, isSpeaking, hasKept: true };
  return { words: { turn_id, parts, isFirst: !hasKept }, next };
}
