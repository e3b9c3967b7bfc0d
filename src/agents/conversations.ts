import type { Caller } from "../keys/schema.ts";
import { iso, isoOrNull } from "../lib/clock.ts";
import { notFound } from "../lib/errors.ts";
import { isUuid } from "../lib/ids.ts";
import type { ConversationRow, ConversationStore, MessageRow } from "./conversation-store.ts";
import { textOf } from "./events.ts";
import type { Paging } from "./schema.ts";
import type { Agents } from "./service.ts";

export type Conversations = ReturnType<typeof createConversations>;

/** Reading what was said. */
export function createConversations({
  store,
  agents,
}: {
  store: ConversationStore;
  agents: Pick<Agents, "inScope">;
}) {
  return {
    /** An agent's conversations, newest first. */
    async list(caller: Caller, agent_id: string, page: Paging) {
      await agents.inScope(caller, agent_id);
      const { items, total } = await store.list(agent_id, page);
      return { items: items.map(present), total, ...page };
    },

    /** One with its messages, oldest first; found by its own id or by the client's. */
    async get(caller: Caller, agent_id: string, id: string) {
      const agent = await agents.inScope(caller, agent_id);
      const own = isUuid(id) ? await store.get(id) : undefined;
      const found = own?.agent_id === agent.id ? own : await store.byClientId(agent.id, "project", id);
      if (!found) throw notFound("conversation", id);
      return { ...present(found), messages: (await store.messages(found.id)).map(presentMessage) };
    },
  };
}

const present = (row: ConversationRow) => ({
  id: row.id,
  agent_id: row.agent_id,
  client_id: row.client_id,
  user_id: row.user_id,
  title: row.title,
  status: row.status,
  metadata: row.metadata,
  message_count: row.message_count,
  started_at: iso(row.started_at),
  updated_at: iso(row.updated_at),
  completed_at: isoOrNull(row.completed_at),
});

const presentMessage = (row: MessageRow) => ({
  id: row.id,
  role: row.role,
  content: textOf(row),
  parts: row.parts,
  status: row.state,
  usage: row.usage,
  execution_id: row.turn_id,
  created_at: iso(row.created_at),
});
