import type { ConversationStore } from "./conversation-store.ts";

/** The same store, telling of every turn that ends, however it does: somebody may wait for it. */
export const tellingEnds = (
  store: ConversationStore,
  ended: (turn_id: string) => void,
): ConversationStore => ({
  ...store,
  async finish(end) {
    const hasEnded = await store.finish(end);
    if (hasEnded) ended(end.turn_id);
    return hasEnded;
  },
});
