import type { Placement } from "../jobs/placement.ts";
import type { Runner } from "../jobs/runner.ts";
import type { Events, NewEvent, Scope } from "./service.ts";
import type { Outbox } from "./store.ts";

/**
 * Plans the events, lets `commit` store them together with the state change they tell of, and starts
 * their deliveries when it did. `commit` answers false or throws when nothing was stored.
 */
export async function withOutbox(
  deps: { events: Events; runner: Runner },
  scope: Scope,
  list: NewEvent[],
  hop: number,
  commit: (outbox: Outbox[]) => Promise<boolean>,
): Promise<boolean> {
  const { outbox, placements } = await deps.events.plan(scope, list, hop);
  if (placements.length === 0) return await commit(outbox);
  return await withPlacements(deps.runner, placements, () => commit(outbox));
}

/** The same for jobs alone. */
export async function withPlacements(
  runner: Runner,
  placements: Placement[],
  commit: () => Promise<boolean>,
): Promise<boolean> {
  let stored = false;
  try {
    stored = await commit();
    return stored;
  } finally {
    if (stored) runner.committed(placements);
    else runner.dropped(placements);
  }
}
