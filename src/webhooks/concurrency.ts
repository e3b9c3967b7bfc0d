import { LRUCache } from "lru-cache";

const LEAST = 8;
const MOST = 64;
const MOST_KNOWN = 10_000;

export type Concurrency = {
  /** How many attempts may be under way to a subscription. */
  of(subscription_id: string): number;
  /** An attempt went well or not. */
  learn(subscription_id: string, wentWell: boolean): void;
};

/**
 * Attempts under way to one subscription: 8, so that a receiver that hangs holds these slots and no more.
 * One that answers well is trusted with more, one more for each good answer up to 64; the first failure
 * takes it back to 8. Forgotten with the program: what it learns, it learns again in a moment.
 */
export function createConcurrency(): Concurrency {
  const known = new LRUCache<string, number>({ max: MOST_KNOWN });
  return {
    of: (id) => known.get(id) ?? LEAST,
    learn(id, wentWell) {
      const now = known.get(id) ?? LEAST;
      if (!wentWell) known.delete(id);
      else if (now < MOST) known.set(id, now + 1);
    },
  };
}
