import { withOutbox } from "../events/outbox.ts";
import type { Events } from "../events/service.ts";
import type { Lease } from "../jobs/job.ts";
import { persist } from "../jobs/persist.ts";
import type { Runner } from "../jobs/runner.ts";
import type { Clock } from "../lib/clock.ts";
import type { AnswerEnd } from "./answer.ts";
import type { ConversationRow, ConversationStore, TurnRow } from "./conversation-store.ts";
import { messageEvent } from "./events.ts";
import type { AgentSettings } from "./schema.ts";
import type { ApprovalRow, StepStore } from "./step-store.ts";
import { answerMessage } from "./turn-rows.ts";

type Deps = { store: ConversationStore; steps: StepStore; events: Events; runner: Runner; clock: Clock };

type Answered = {
  conversation: ConversationRow;
  turn: TurnRow;
  message_id: string;
  end: AnswerEnd;
  isAborted(): boolean;
  /** What the agent is for this turn alone, where that is not on record yet. */
  settings?: Partial<AgentSettings> | undefined;
  /** Of the job that runs the turn, where one does. */
  lease?: Lease;
};

/**
 * Puts an answer, the turn's end and its event on record, together; or that it waits, with what it waits
 * for. False where the turn had ended already.
 */
export async function recordAnswer(deps: Deps, answered: Answered): Promise<boolean> {
  const { conversation, turn, message_id, end, isAborted, lease } = answered;
  const { store, steps, clock } = deps;
  const { state } = end;
  if (state === "lost") return false;
  const now = clock.now();
  const message = answerMessage(turn, message_id, end, now);
  if (state === "waiting") {
    const approvals = end.asked.map((one) => approvalRow(turn, one, now));
    const settings = answered.settings && JSON.stringify(answered.settings);
    return persist(clock, isAborted, () => steps.suspend({ message: message!, approvals, settings, lease }));
  }
  const sent = message && state === "success" ? [messageEvent(conversation, message)] : [];
  return persist(clock, isAborted, () =>
    withOutbox(deps, conversation, sent, turn.hop, (outbox) =>
      store.finish({
        turn_id: turn.id,
        conversation_id: conversation.id,
        state,
        error: end.error ? JSON.stringify(end.error) : null,
        ended_at: now,
        message,
        outbox,
        lease,
      }),
    ),
  );
}

const approvalRow = (turn: TurnRow, asked: AnswerEnd["asked"][number], now: number): ApprovalRow => ({
  ...asked,
  turn_id: turn.id,
  conversation_id: turn.conversation_id,
  state: "pending",
  reason: null,
  created_at: now,
  answered_at: null,
});
