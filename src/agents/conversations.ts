import type { Caller } from "../keys/schema.ts";
import { iso, isoOrNull } from "../lib/clock.ts";
import { notFound } from "../lib/errors.ts";
import { isUuid } from "../lib/ids.ts";
import type { ConversationRow, ConversationStore, MessageRow } from "./conversation-store.ts";
import { textOf } from "./events.ts";
import type { LiveTurn } from "./live-turns.ts";
import type { Paging } from "./schema.ts";
import type { Agents, AgentTarget } from "./service.ts";
import type { StopQuery } from "./stream-protocol.ts";
import type { Turns } from "./turns.ts";

export type Conversations = ReturnType<typeof createConversations>;

/** Which stream to read: its conversation by either id; `ended`: also one that ended within the last minute. */
type StreamOf = { id: string; ended: boolean };

type Deps = {
  store: ConversationStore;
  agents: Pick<Agents, "inScope" | "publicTarget">;
  turns: Pick<Turns, "running" | "live" | "halt" | "pendingApprovals">;
};

/** What was said, and what is being said. */
export function createConversations({ store, agents, turns }: Deps) {
  /** By its own id or by the client's. */
  async function find(
    agent: AgentTarget,
    owner: ConversationRow["owner"],
    id: string,
  ): Promise<ConversationRow | undefined> {
    const own = isUuid(id) ? await store.get(id) : undefined;
    return own?.agent_id === agent.id && own.owner === owner ? own : store.byClientId(agent.id, owner, id);
  }

  async function inScope(caller: Caller, agent_id: string, id: string): Promise<ConversationRow> {
    const agent = await agents.inScope(caller, agent_id);
    const found = (await find(agent, "project", id)) ?? (isUuid(id) ? await store.get(id) : undefined);
    // The project reads what strangers said to its agents; only to go on with it is theirs alone.
    if (found?.agent_id !== agent.id) throw notFound("conversation", id);
    return found;
  }

  /** The answer under way; with `ended` also one that has just ended. Undefined: there is none to read. */
  const streamOf = (found: ConversationRow | undefined, ended: boolean): LiveTurn | undefined =>
    found && (ended ? turns.live(found.id) : turns.running(found.id));

  return {
    /** The answer under way in a conversation, for another reader; no such conversation has none. */
    async stream(caller: Caller, agent_id: string, { id, ended }: StreamOf) {
      return streamOf(await find(await agents.inScope(caller, agent_id), "project", id), ended);
    },

    /** The same for those without a key: their conversations alone, whose ids nobody can guess. */
    async streamAnonymously(agent_id: string, { id, ended }: StreamOf) {
      return streamOf(await find(await agents.publicTarget(agent_id), "anonymous", id), ended);
    },

    /** Ends the answers under way, or the one named; what has come is kept. */
    async stop(caller: Caller, agent_id: string, id: string, { execution_id }: StopQuery) {
      const { id: conversation_id } = await inScope(caller, agent_id, id);
      return { conversation_id, stopped: await turns.halt(conversation_id, execution_id) };
    },

    async stopAnonymously(agent_id: string, id: string, { execution_id }: StopQuery) {
      const found = await find(await agents.publicTarget(agent_id), "anonymous", id);
      if (!found) throw notFound("conversation", id);
      return { conversation_id: found.id, stopped: await turns.halt(found.id, execution_id) };
    },

    /** An agent's conversations, newest first. */
    async list(caller: Caller, agent_id: string, page: Paging) {
      await agents.inScope(caller, agent_id);
      const { items, total } = await store.list(agent_id, page);
      return { items: items.map(present), total, ...page };
    },

    /** One with its messages, oldest first; found by its own id or by the client's. */
    async get(caller: Caller, agent_id: string, id: string) {
      const found = await inScope(caller, agent_id, id);
      return {
        ...present(found),
        pending_approvals: await turns.pendingApprovals(found.id),
        messages: (await store.messages(found.id)).map(presentMessage),
      };
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
  suggested_replies: row.suggested_replies,
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
