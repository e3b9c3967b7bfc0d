import { LivePartLog } from "../http/part-log.ts";
import type { Clock } from "../lib/clock.ts";
import { NO_USAGE } from "./answer.ts";
import type { ConversationStore, MessageRow, TurnRow } from "./conversation-store.ts";
import type { LiveTurn, LiveTurns } from "./live-turns.ts";
import type { ApprovalRow, StepStore } from "./step-store.ts";
import { tellEnd } from "./tell-end.ts";

/**
 * An ended answer as a stream once more, from what is on record of it; its steps are told as one. One that waits
 * asks once more: `asked` are the approvals that nobody has answered.
 */
function recordedLog(
  clock: Clock,
  answer: {
    message_id: string;
    turn: TurnRow | undefined;
    message: MessageRow | undefined;
    asked: ApprovalRow[];
  },
): LivePartLog {
  const { turn, message, asked } = answer;
  const log = new LivePartLog(clock);
  const usage = message?.usage ?? NO_USAGE;
  log.append({ type: "start_step", message_id: message?.id ?? answer.message_id });
  for (const part of message?.parts ?? []) {
    if (part.type === "tool_result") {
      const { id, result, is_error } = part;
      log.append({ type: "tool_result", id, result, ...(is_error ? { is_error } : {}) });
    } else if (part.type !== "image" && part.type !== "context") log.append(part);
  }
  const error = turn?.error ? (JSON.parse(turn.error) as { code: string; message: string }) : undefined;
  const reason = turn?.state === "waiting" ? "tool-calls" : "stop";
  if (turn?.state === "success" || turn?.state === "waiting")
    log.append({ type: "finish_step", reason, usage });
  tellEnd(log, { reason: error ? "error" : reason, usage, error, asked });
  return log;
}

/** A stream that was begun under the same Idempotency-Key: as it runs, or from the record. */
export async function again(
  {
    store,
    steps,
    live,
    clock,
  }: {
    store: Pick<ConversationStore, "turn" | "message">;
    steps: Pick<StepStore, "approvals">;
    live: Pick<LiveTurns, "turn">;
    clock: Clock;
  },
  ref: Omit<LiveTurn, "log">,
): Promise<LiveTurn> {
  const running = live.turn(ref.turn_id);
  if (running) return { ...running, replayed: true };
  const turn = await store.turn(ref.turn_id);
  const message = turn?.message_id ? await store.message(turn.message_id) : undefined;
  const asked = turn?.state === "waiting" ? await steps.approvals(turn.id) : [];
  const waiting = asked.filter(({ state }) => state === "pending");
  return { ...ref, log: recordedLog(clock, { ...ref, turn, message, asked: waiting }), replayed: true };
}
