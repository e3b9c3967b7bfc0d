import { withOutbox } from "../events/outbox.ts";
import type { Events } from "../events/service.ts";
import type { Lease } from "../jobs/job.ts";
import { persist } from "../jobs/persist.ts";
import type { Runner } from "../jobs/runner.ts";
import type { Clock } from "../lib/clock.ts";
import type { AnswerEnd } from "./answer.ts";
import type { ConversationRow, ConversationStore, TurnRow } from "./conversation-store.ts";
import { messageEvent } from "./events.ts";
import { answerMessage } from "./turn-rows.ts";

type Deps = { store: ConversationStore; events: Events; runner: Runner; clock: Clock };

type Answered = {
  conversation: ConversationRow;
  turn: TurnRow;
  message_id: string;
  end: AnswerEnd;
  isAborted(): boolean;
  /** Of the job that runs the turn, where one does. */
  lease?: Lease;
};

/** Puts an answer, the turn's end and its event on record, together; false where the turn had ended already. */
export async function recordAnswer(deps: Deps, answered: Answered): Promise<boolean> {
  const { conversation, turn, message_id, end, isAborted, lease } = answered;
  const { store, clock } = deps;
  const now = clock.now();
  const message = answerMessage(turn, message_id, end, now);
  const sent = message && end.state === "success" ? [messageEvent(conversation, message)] : [];
  return persist(clock, isAborted, () =>
    withOutbox(deps, conversation, sent, turn.hop, (outbox) =>
      store.finish({
        turn_id: turn.id,
        conversation_id: conversation.id,
        state: end.state,
        error: end.error ? JSON.stringify(end.error) : null,
        ended_at: now,
        message,
        outbox,
        lease,
      }),
    ),
  );
}
