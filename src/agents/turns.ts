import { withOutbox, withPlacements } from "../events/outbox.ts";
import type { Events } from "../events/service.ts";
import type { StartAnswer } from "../executions/service.ts";
import type { EnqueueRequest } from "../hooks/service.ts";
import { LivePartLog, type PartLog } from "../http/data-stream.ts";
import { defineJob, done, type Fate, type JobKind, type JobRun, retry, settled } from "../jobs/job.ts";
import { persist } from "../jobs/persist.ts";
import type { Runner } from "../jobs/runner.ts";
import type { Caller } from "../keys/schema.ts";
import { type Clock, iso } from "../lib/clock.ts";
import { conflict, unavailable } from "../lib/errors.ts";
import { newId } from "../lib/ids.ts";
import type { Json, JsonObject } from "../lib/json.ts";
import type { Models } from "../models/model.ts";
import { answer, type AnswerEnd, HISTORY } from "./answer.ts";
import type { ConversationRow, ConversationStore, MessageRow, TurnRow } from "./conversation-store.ts";
import { conversationStarted, messageEvent } from "./events.ts";
import type { Agents, AgentTarget } from "./service.ts";
import type { StreamRequest } from "./stream-body.ts";

export type Turns = ReturnType<typeof createTurns>;

/** A turn under way or just ended: what readers follow, and which conversation it belongs to. */
export type LiveTurn = { turn_id: string; conversation_id: string; message_id: string; log: PartLog };

export const TURN_JOB = "agent.turn";

const USUAL_TURN_MS = 5_000;
const MOST_ATTEMPTS = 3;
const RETRY_MS = 5_000;

type Deps = {
  store: ConversationStore;
  agents: Pick<Agents, "inScope" | "publicTarget" | "target">;
  models: Models;
  events: Events;
  runner: Runner;
  clock: Clock;
  report(message: string, fields: Record<string, unknown>): void;
};

/**
 * Turns: a message to an agent and the answer to it.
 *
 *     begin (conversation, message, turn on record) ─> running ──┬─ answer stored ─> success
 *                                                               ├─ model failed ──> failed       (what came is kept)
 *                                                               └─ program ended ─> interrupted  (a stream)
 *                                                                                   run again    (a webhook's, by its job)
 *
 * A turn is a run of its own: responses read its log, and a reader that goes away ends nothing.
 */
export function createTurns(deps: Deps) {
  const { store, agents, models, runner, clock } = deps;
  const live = new Map<string, AbortController>();

  type Opening = { agent: AgentTarget; owner: ConversationRow["owner"]; client_id: string; user_id: string | null; metadata: JsonObject };

  async function openConversation(opening: Opening): Promise<{ conversation: ConversationRow; isNew: boolean }> {
    const { agent, owner, client_id, user_id, metadata } = opening;
    const known = await store.byClientId(agent.id, owner, client_id);
    if (known) return { conversation: known, isNew: false };
    const now = clock.now();
    const conversation: ConversationRow = {
      id: newId(),
      agent_id: agent.id,
      workspace_id: agent.workspace_id,
      project_id: agent.project_id,
      owner,
      client_id,
      user_id,
      title: null,
      status: "active",
      metadata,
      message_count: 0,
      started_at: now,
      updated_at: now,
      completed_at: null,
    };
    return { conversation, isNew: true };
  }

  function userMessage(conversation: ConversationRow, turn: TurnRow, text: string): MessageRow {
    return {
      id: newId(),
      conversation_id: conversation.id,
      turn_id: turn.id,
      role: "user",
      parts: [{ type: "text", text }],
      state: "complete",
      usage: null,
      created_at: turn.created_at,
    };
  }

  const newTurn = (conversation: ConversationRow, source: TurnRow["source"], hop: number): TurnRow => ({
    id: newId(),
    conversation_id: conversation.id,
    agent_id: conversation.agent_id,
    workspace_id: conversation.workspace_id,
    project_id: conversation.project_id,
    state: source === "stream" ? "running" : "queued",
    source,
    message_id: null,
    error: null,
    hop,
    created_at: clock.now(),
    started_at: source === "stream" ? clock.now() : null,
    ended_at: null,
  });

  const beginEvents = (conversation: ConversationRow, isNew: boolean, message: MessageRow) => [
    ...(isNew ? [conversationStarted(conversation)] : []),
    messageEvent(conversation, message),
  ];

  /** Two first messages of one conversation at the same moment: the second joins what the first made. */
  async function retryRaced<T>(attempt: () => Promise<T | "raced">): Promise<T> {
    for (let tries = 0; tries < 3; tries++) {
      const outcome = await attempt();
      if (outcome !== "raced") return outcome;
    }
    throw unavailable("This conversation is busy.");
  }

  async function beginStream(opening: Opening, text: string) {
    return retryRaced(async () => {
      const { conversation, isNew } = await openConversation(opening);
      const turn = newTurn(conversation, "stream", 0);
      const message = userMessage(conversation, turn, text);
      const stored = await withOutbox(deps, conversation, beginEvents(conversation, isNew, message), 0, async (outbox) => {
        const begun = await store.begin({ conversation, isNew, message, turn, outbox });
        return begun.outcome === "new";
      });
      return stored ? { conversation, turn } : "raced";
    });
  }

  /** Puts the answer on record; false where somebody else has ended the turn. */
  async function record(
    conversation: ConversationRow,
    turn: TurnRow,
    message_id: string,
    end: AnswerEnd,
    signal: AbortSignal,
    job?: JobRun,
  ): Promise<boolean> {
    const now = clock.now();
    const message: MessageRow | undefined =
      end.parts.length === 0
        ? undefined
        : {
            id: message_id,
            conversation_id: conversation.id,
            turn_id: turn.id,
            role: "assistant",
            parts: end.parts,
            state: end.state === "success" ? "complete" : end.state,
            usage: end.usage,
            created_at: now,
          };
    const sent = message && end.state === "success" ? [messageEvent(conversation, message)] : [];
    return persist(clock, signal, () =>
      withOutbox(deps, conversation, sent, turn.hop, (outbox) =>
        store.finish({
          turn_id: turn.id,
          conversation_id: conversation.id,
          state: end.state,
          error: end.error ? JSON.stringify(end.error) : null,
          ended_at: now,
          message,
          outbox,
          lease: job?.lease,
        }),
      ),
    );
  }

  async function runStream(agent: AgentTarget, conversation: ConversationRow, turn: TurnRow, message_id: string, log: LivePartLog) {
    const controller = new AbortController();
    live.set(turn.id, controller);
    try {
      const history = await store.messages(conversation.id, HISTORY);
      const end = await answer({ models }, { agent, history, message_id, signal: controller.signal }, (part) =>
        log.append(part),
      );
      if (end.error?.code === "INTERNAL") deps.report("a turn failed unexpectedly", { turn_id: turn.id, error: end });
      await record(conversation, turn, message_id, end, controller.signal);
      if (end.error) log.append({ type: "error", message: end.error.message });
      log.append({ type: "finish", reason: end.error ? "error" : "stop", usage: end.usage, error: end.error });
    } catch (error) {
      deps.report("an answer could not be stored", { turn_id: turn.id, error });
      const words = { code: "UNAVAILABLE", message: "The answer could not be stored." };
      log.append({ type: "error", message: words.message });
      log.append({ type: "finish", reason: "error", usage: { prompt_tokens: 0, completion_tokens: 0 }, error: words });
    } finally {
      live.delete(turn.id);
      log.close();
    }
  }

  async function talk(
    agent: AgentTarget,
    owner: ConversationRow["owner"],
    { client_id, text }: StreamRequest,
    context: { request_id: string; tellContext: boolean },
  ): Promise<LiveTurn> {
    const opening = { agent, owner, client_id: client_id ?? newId(), user_id: null, metadata: {} };
    const { conversation, turn } = await beginStream(opening, text);
    const message_id = newId();
    const log = new LivePartLog(clock);
    const told: JsonObject = { conversation_id: conversation.id, message_id };
    if (context.tellContext) {
      Object.assign(told, {
        request_id: context.request_id,
        model: agent.settings.model ?? models.default_model,
        agent_version: agent.version,
      });
    }
    if (context.tellContext || client_id === undefined) {
      log.append({ type: "data", data: [{ ...told, id: conversation.client_id } as Json] });
    }
    void runStream(agent, conversation, turn, message_id, log);
    return { turn_id: turn.id, conversation_id: conversation.id, message_id, log };
  }

  const job: JobKind = defineJob({
    kind: TURN_JOB,
    lane: "turns",
    per_key: 1, // one answer at a time in a conversation
    crash_limit: 3,
    async run(ref, run): Promise<Fate> {
      const turn = await store.turn(ref);
      if (!turn || (turn.state !== "queued" && turn.state !== "running")) return done;
      const conversation = await store.get(turn.conversation_id);
      const agent = await agents.target(turn.agent_id);
      if (!conversation || !agent) {
        await store.finish({ ...gone(turn), ended_at: clock.now(), lease: run.lease });
        return settled;
      }
      if (!(await store.start(turn.id, run.lease, clock.now()))) return settled;
      const message_id = newId();
      const history = await store.messages(conversation.id, HISTORY);
      const end = await answer({ models }, { agent, history, message_id, signal: run.signal }, () => {});
      if (end.state === "interrupted") throw new Error("interrupted");
      if (end.error && end.retryable && run.attempt < MOST_ATTEMPTS) {
        return retry(end.error.message, clock.now() + RETRY_MS * 2 ** (run.attempt - 1));
      }
      await record(conversation, turn, message_id, end, run.signal, run);
      return settled;
    },
    async dead(ref, reason) {
      const turn = await store.turn(ref);
      if (!turn) return;
      const error = JSON.stringify({ code: "CRASH_LOOP", message: `Errand stopped three times under way (${reason}).` });
      await store.finish({ ...gone(turn), error, ended_at: clock.now() });
    },
  });

  const gone = (turn: TurnRow) => ({
    turn_id: turn.id,
    conversation_id: turn.conversation_id,
    state: "failed" as const,
    error: JSON.stringify({ code: "GONE", message: "The agent or the conversation was deleted." }),
    outbox: [],
  });

  return {
    job,

    /** A message by a key's holder; throws before anything is streamed. */
    talk: async (caller: Caller, agent_id: string, request: StreamRequest, context: { request_id: string; tellContext: boolean }) =>
      talk(await agents.inScope(caller, agent_id), "project", request, context),

    /** A message by anyone to a public agent; its conversations are apart from those of the project. */
    talkAnonymously: async (agent_id: string, request: StreamRequest, context: { request_id: string; tellContext: boolean }) =>
      talk(await agents.publicTarget(agent_id), "anonymous", request, context),

    /** A message that is answered later, by a job: durable before the answer (interface 4.4). */
    async enqueue(agent: AgentTarget, request: EnqueueRequest): Promise<StartAnswer> {
      const given = request.context["conversation_id"];
      return retryRaced(async () => {
        const { conversation, isNew } = await openConversation({
          agent,
          owner: "project",
          client_id: typeof given === "string" && given !== "" ? given : newId(),
          user_id: request.user_id,
          metadata: request.metadata,
        });
        const turn = newTurn(conversation, "webhook", request.hop);
        const message = userMessage(conversation, turn, request.message);
        const made = request.answer({ execution_id: turn.id, estimated_completion: iso(clock.now() + USUAL_TURN_MS) });
        const placement = runner.place(TURN_JOB, { tenant: agent.workspace_id, key: conversation.id, ref: turn.id });
        const list = beginEvents(conversation, isNew, message);
        let outcome: Awaited<ReturnType<ConversationStore["begin"]>> = { outcome: "raced" };
        await withPlacements(runner, [placement], () =>
          withOutbox(deps, conversation, list, request.hop, async (outbox) => {
            outcome = await store.begin({
              conversation,
              isNew,
              message,
              turn,
              outbox,
              job: placement.row,
              idempotency: request.idempotency && {
                ...request.idempotency,
                status: made.status,
                response: JSON.stringify(made.body),
              },
            });
            return outcome.outcome === "new";
          }),
        );
        return answerOf(outcome, made);
      });
    },

    /** At start: streams that died with the program have nobody left to answer; how many there were. */
    recover: () => store.interruptStreams(clock.now()),

    /** Ends what streams; readers get a proper last line. */
    stop(): void {
      for (const controller of live.values()) controller.abort();
    },
  };
}

function answerOf(
  outcome: Awaited<ReturnType<ConversationStore["begin"]>>,
  made: { status: number; body: JsonObject },
): StartAnswer | "raced" {
  switch (outcome.outcome) {
    case "new":
      return { ...made, replayed: false };
    case "replay":
      return { status: outcome.status, body: JSON.parse(outcome.response), replayed: true };
    case "mismatch":
      throw conflict("This Idempotency-Key was used with another request.");
    case "raced":
      return "raced";
  }
}
