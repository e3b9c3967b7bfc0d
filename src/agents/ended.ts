import type { ConversationRecords } from "./conversation-records.ts";
import type { ConversationStore } from "./conversation-store.ts";

type Told = {
  ended(turn_id: string): void;
  /** The execution that asked for the turn is due; its job is so on record already. */
  due(execution_id: string): Promise<void>;
};

/** The same store, telling of every turn that ends, however it does: somebody may wait for it. */
export function tellingEnds(store: ConversationStore, told: Told): ConversationStore {
  async function tell(turn_id: string): Promise<void> {
    told.ended(turn_id);
    const turn = await store.turn(turn_id);
    if (turn?.asked_by) await told.due(turn.asked_by);
  }

  return {
    ...store,
    async finish(end) {
      const hasEnded = await store.finish(end);
      if (hasEnded) await tell(end.turn_id);
      return hasEnded;
    },
    async cancelQueued(which) {
      const cancelled = await store.cancelQueued(which);
      for (const turn_id of cancelled) await tell(turn_id);
      return cancelled;
    },
  };
}

/** The same records, telling of the turns that go with their conversation before they have ended. */
export const tellingRemovals = (records: ConversationRecords, told: Told): ConversationRecords => ({
  ...records,
  async remove(id, now) {
    const open = await records.remove(id, now);
    for (const turn of open) {
      told.ended(turn.id);
      if (turn.asked_by) await told.due(turn.asked_by);
    }
    return open;
  },
});
