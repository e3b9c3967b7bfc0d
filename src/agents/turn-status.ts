import { iso, isoOrNull } from "../lib/clock.ts";
import { isUuid } from "../lib/ids.ts";
import type { ConversationStore } from "./conversation-store.ts";
import { textOf } from "./events.ts";

/** How a turn stands, with its reply once there is one; undefined: there is no such turn. */
export async function turnStatus(store: Pick<ConversationStore, "turn" | "message">, id: string) {
  const turn = isUuid(id) ? await store.turn(id) : undefined;
  if (!turn) return undefined;
  const { conversation_id, agent_id, workspace_id, project_id } = turn;
  const reply = turn.message_id === null ? undefined : await store.message(turn.message_id);
  return {
    execution_id: turn.id,
    conversation_id,
    agent_id,
    workspace_id,
    project_id,
    status: turn.state,
    source: turn.source,
    reply: reply ? textOf(reply) : null,
    error: turn.error === null ? null : (JSON.parse(turn.error) as { code: string; message: string }),
    created_at: iso(turn.created_at),
    completed_at: isoOrNull(turn.ended_at),
  };
}
