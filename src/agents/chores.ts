import type { Chore } from "../jobs/maintenance.ts";
import type { Conversations } from "./conversations.ts";
import type { Turns } from "./turns.ts";

const SLICE = 100;

/** What another process deleted, and whose knock was not heard. */
export const haltOrphans = ({ turns }: { turns: Pick<Turns, "haltOrphans"> }): Chore => ({
  name: "answers without agent or conversation",
  pattern: "* * * * *",
  run: () => turns.haltOrphans(),
});

/** Completes conversations in which nobody says anything more, in slices; one that cannot be waits for the next round. */
export const completeIdle = ({
  conversations,
}: {
  conversations: Pick<Conversations, "completeIdle">;
}): Chore => ({
  name: "idle conversations",
  pattern: "*/5 * * * *",
  async run() {
    for (;;) {
      const { found, completed } = await conversations.completeIdle(SLICE);
      if (found < SLICE || completed === 0) return;
    }
  },
});
