import type { Events } from "../events/service.ts";
import type { Runner } from "../jobs/runner.ts";
import type { Caller } from "../keys/schema.ts";
import type { Clock } from "../lib/clock.ts";
import { conflict, invalidField, notFound } from "../lib/errors.ts";
import { isUuid } from "../lib/ids.ts";
import type { JsonObject } from "../lib/json.ts";
import { complete } from "./complete.ts";
import type { ConversationChange, ConversationRecords, RecordedMessage } from "./conversation-records.ts";
import type {
  CloseConversation,
  GiveFeedback,
  ListConversations,
  UpdateConversation,
} from "./conversation-schema.ts";
import type { ConversationRow, ConversationStore } from "./conversation-store.ts";
import { strangerTo } from "./for-whom.ts";
import type { LiveTurn } from "./live-turns.ts";
import { errorsOf, present, presentMessage } from "./present.ts";
import type { Agents, AgentTarget } from "./service.ts";
import type { StopQuery } from "./stream-protocol.ts";
import type { Turns } from "./turns.ts";
import { variantsOf } from "./variants.ts";

export type Conversations = ReturnType<typeof createConversations>;

/** Which stream to read: its conversation by either id; `ended`: also one that ended within the last minute. */
type StreamOf = { id: string; ended: boolean };

type Deps = {
  store: ConversationStore;
  records: ConversationRecords;
  agents: Pick<Agents, "inScope" | "publicTarget">;
  turns: Pick<Turns, "running" | "live" | "halt" | "pendingApprovals">;
  events: Events;
  runner: Runner;
  clock: Clock;
  /** Told of a conversation that is gone: another process may be answering in it. */
  removed?: (() => void) | undefined;
};

/** What was said, what is being said, and what becomes of it. */
export function createConversations(deps: Deps) {
  const { store, records, agents, turns, clock } = deps;

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

  async function whole(row: ConversationRow) {
    const { messages, turns: links } = await records.everything(row.id);
    const variants = variantsOf(messages, links);
    const errors = errorsOf(messages, links);
    const chosen = messages.filter(({ active }) => active);
    return {
      ...present(row),
      pending_approvals: await turns.pendingApprovals(row.id),
      messages: chosen.map((message) => ({
        ...presentMessage(message, variants.get(message.id)),
        error: errors.get(message.id) ?? null,
      })),
    };
  }

  async function messageIn(conversation_id: string, id: string): Promise<RecordedMessage> {
    const message = await records.message(conversation_id, id);
    if (!message) throw notFound("message", id);
    return message;
  }

  const resolve = (row: ConversationRow, body: CloseConversation) =>
    complete(deps, row, { ended_as: "resolved", change: changeOf(body), unlessBusy: false });

  async function remove({ id }: ConversationRow): Promise<void> {
    await turns.halt(id);
    await records.remove(id, clock.now());
    deps.removed?.();
  }

  return {
    /** The answer under way in a conversation, for another reader; no such conversation has none. */
    async stream(caller: Caller, agent_id: string, { id, ended }: StreamOf) {
      return streamOf(await find(await agents.inScope(caller, agent_id), "project", id), ended);
    },

    /** The same for those without a key: their conversations alone, whose ids nobody can guess. */
    async streamAnonymously(agent_id: string, { id, ended }: StreamOf) {
      const agent = await agents.publicTarget(agent_id);
      const turn = streamOf(await find(agent, "anonymous", id), ended);
      return turn && { ...turn, stranger: strangerTo(agent) };
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
    async list(caller: Caller, agent_id: string, query: ListConversations) {
      await agents.inScope(caller, agent_id);
      const { items, total } = await records.list({ agent_id }, query);
      return { items: items.map(present), total, limit: query.limit, offset: query.offset };
    },

    /** One with the messages of its chosen branch, oldest first; found by its own id or by the client's. */
    get: async (caller: Caller, agent_id: string, id: string) => whole(await inScope(caller, agent_id, id)),

    async update(caller: Caller, agent_id: string, id: string, body: UpdateConversation) {
      const row = await inScope(caller, agent_id, id);
      const updated = await records.update(row.id, changeOf(body));
      if (!updated) throw notFound("conversation", id);
      return present(updated);
    },

    /** Completes it, once; what is said in it later opens it again. */
    async close(caller: Caller, agent_id: string, id: string, body: CloseConversation) {
      const row = await inScope(caller, agent_id, id);
      const completed = await resolve(row, body);
      if (!completed) throw conflict("This conversation has been completed already.");
      return present(completed);
    },

    /** With its messages and their attachments; an answer under way is stopped. */
    remove: async (caller: Caller, agent_id: string, id: string) =>
      remove(await inScope(caller, agent_id, id)),

    /** The messages that stand in one place: answers to the same message, or ways the user put it. */
    async variants(caller: Caller, agent_id: string, id: string, message_id: string) {
      const row = await inScope(caller, agent_id, id);
      const { id: own } = await messageIn(row.id, message_id);
      const { messages, turns: links } = await records.everything(row.id);
      const variants = variantsOf(messages, links).get(own) ?? [];
      return messages
        .filter((message) => variants.includes(message.id))
        .map((message) => ({ ...presentMessage(message, variants), chosen: message.active }));
    },

    /** The conversation goes on from this message: what the model and the reader see from now on. */
    async choose(caller: Caller, agent_id: string, id: string, message_id: string) {
      const row = await inScope(caller, agent_id, id);
      const { turn_id } = await messageIn(row.id, message_id);
      if (turns.running(row.id)) throw conflict("This conversation is being answered; wait, or stop it.");
      await records.choose(row.id, turn_id);
      return whole((await store.get(row.id)) ?? row);
    },

    async giveFeedback(
      caller: Caller,
      agent_id: string,
      id: string,
      message_id: string,
      { rating, comment = null }: GiveFeedback,
    ) {
      const row = await inScope(caller, agent_id, id);
      const message = await messageIn(row.id, message_id);
      if (message.role !== "assistant")
        throw invalidField("message_id", "an answer", "a message of the user");
      const feedback = rating && { rating, comment, given_at: clock.now() };
      const updated = await records.setFeedback(message.id, feedback);
      if (!updated) throw notFound("message", message_id);
      return presentMessage(updated);
    },

    /** Completes those in which nothing was said for as long as their agents give; how many of `most`. */
    async completeIdle(most: number): Promise<{ found: number; completed: number }> {
      const idle = await records.idle(clock.now(), most);
      let completed = 0;
      for (const row of idle) if (await complete(deps, row, IDLE)) completed++;
      return { found: idle.length, completed };
    },

    /** For the command line, which reaches every project. */
    admin: {
      async list(of: { agent_id: string } | { project_id: string }, query: ListConversations) {
        return (await records.list(of, query)).items.map(present);
      },
      get: async (id: string) => whole(await byId(id)),
      async close(id: string, body: CloseConversation) {
        const completed = await resolve(await byId(id), body);
        if (!completed) throw conflict("This conversation has been completed already.");
        return present(completed);
      },
      remove: async (id: string) => remove(await byId(id)),
    },
  };

  /** By its own id, or by the client's where one conversation alone goes by that. */
  async function byId(id: string): Promise<ConversationRow> {
    const own = isUuid(id) ? await store.get(id) : undefined;
    if (own) return own;
    const [found, other] = await records.called(id, 2);
    if (!found) throw notFound("conversation", id);
    if (other) throw conflict(`Several conversations are called ${id}; name one by its own id.`);
    return found;
  }
}

const IDLE = { ended_as: "idle" as const, change: {}, unlessBusy: true };

function changeOf(body: UpdateConversation): ConversationChange {
  const { tags, metadata, ...rest } = body;
  return {
    ...rest,
    ...(tags === undefined ? {} : { tags: [...new Set(tags ?? [])] }),
    ...(metadata === undefined ? {} : { metadata: (metadata ?? {}) as JsonObject }),
  };
}
