import { withOutbox } from "../events/outbox.ts";
import type { Events } from "../events/service.ts";
import type { Runner } from "../jobs/runner.ts";
import type { Clock } from "../lib/clock.ts";
import type { ConversationChange, ConversationRecords } from "./conversation-records.ts";
import type { ConversationRow } from "./conversation-store.ts";
import { conversationCompleted } from "./events.ts";

export type CompleteDeps = {
  records: Pick<ConversationRecords, "everything" | "complete">;
  events: Events;
  runner: Runner;
  clock: Clock;
};

/**
 * Completes a conversation and tells of it, in one. Undefined: it was completed already, or `unlessBusy` and
 * something in it is being answered.
 */
export async function complete(
  deps: CompleteDeps,
  row: ConversationRow,
  { change, ...end }: { ended_as: "resolved" | "idle"; change: ConversationChange; unlessBusy: boolean },
): Promise<ConversationRow | undefined> {
  const completed_at = deps.clock.now();
  const { messages, turns: links } = await deps.records.everything(row.id);
  // As far round as the farthest message in it: who is told of the end may begin the next conversation.
  const hop = Math.max(0, ...links.map((turn) => turn.hop));
  const told = conversationCompleted({ ...row, ...change, ended_as: end.ended_as, completed_at }, messages);
  let completed: ConversationRow | undefined;
  await withOutbox(deps, row, [told], hop, async (outbox) => {
    completed = await deps.records.complete({ id: row.id, ...end, completed_at, change, outbox });
    return completed !== undefined;
  });
  return completed;
}
