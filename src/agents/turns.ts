import { withOutbox, withPlacements } from "../events/outbox.ts";
import type { Events } from "../events/service.ts";
import type { StartAnswer } from "../executions/service.ts";
import type { EnqueueRequest } from "../hooks/service.ts";
import type { IdempotencyClaim } from "../hooks/store.ts";
import { LivePartLog } from "../http/part-log.ts";
import type { Runner } from "../jobs/runner.ts";
import type { Caller } from "../keys/schema.ts";
import { type Clock, iso, realTime } from "../lib/clock.ts";
import { forbidden, notFound } from "../lib/errors.ts";
import { isUuid, newId } from "../lib/ids.ts";
import type { JsonObject } from "../lib/json.ts";
import { tidyUp } from "./afterwards.ts";
import { modelOf } from "./agent-model.ts";
import { type AnswerDeps, type AnswerRequest, answer } from "./answer.ts";
import { createApprovals, type Verdict } from "./approvals.ts";
import type { Attachments } from "./attachments.ts";
import { branchOf } from "./branch.ts";
import { readContext, unguessable } from "./client-names.ts";
import type { ConversationRecords } from "./conversation-records.ts";
import type { ConversationRow, ConversationStore, TurnRow } from "./conversation-store.ts";
import { conversationStarted, messageEvent } from "./events.ts";
import { strangerTo } from "./for-whom.ts";
import { Journal } from "./journal.ts";
import { createKeptWords } from "./kept-words.ts";
import { type LiveTurn, LiveTurns } from "./live-turns.ts";
import { answerOf, claimOn, retryRaced, tooManyWait } from "./once.ts";
import { recordAnswer } from "./record.ts";
import { again } from "./recorded-log.ts";
import { recoverStreams } from "./recover.ts";
import { resolveIfSaid } from "./resolve.ts";
import type { AgentSettings } from "./schema.ts";
import type { SentImage } from "./sent-images.ts";
import type { Agents, AgentTarget } from "./service.ts";
import type { StepStore } from "./step-store.ts";
import type { Place, StreamRequest } from "./stream-body.ts";
import { tellEnd } from "./tell-end.ts";
import { TURN_JOB, turnJob } from "./turn-job.ts";
import {
  idleMsOf,
  newConversation,
  newTurn,
  type Opening,
  type Said,
  userMessage,
  usualMs,
} from "./turn-rows.ts";
import { turnStatus } from "./turn-status.ts";

export type Turns = ReturnType<typeof createTurns>;

/** Of the request that a stream answers; `tellContext`: its first line says more (x-enable-request-context). */
export type StreamContext = {
  request_id: string;
  tellContext: boolean;
  /** What the agent is for this answer alone. */
  settings?: Partial<AgentSettings>;
  hop: number;
  idempotency?: IdempotencyClaim;
};

/** Streams of one conversation, the one under way included; they are answered one after the other. */
const MOST_WAITING = 5;

type Deps = AnswerDeps & {
  store: ConversationStore;
  steps: StepStore;
  records: ConversationRecords;
  attachments: Attachments;
  agents: Pick<Agents, "inScope" | "publicTarget" | "target">;
  events: Events;
  runner: Runner;
  clock: Clock;
  report(message: string, fields: Record<string, unknown>): void;
};

/** A message on its way in: its pictures not yet on record, its place in the conversation not yet found. */
type Spoken = Said & {
  images: SentImage[];
  place?: Place;
  source: TurnRow["source"];
  hop: number;
  asked_by?: string | undefined;
};

type Begun = { conversation: ConversationRow; turn: TurnRow };

/** A message's answer from here on, whether or not the message is on record by then. */
type Beginning = Begun & {
  agent: AgentTarget;
  /** What the agent is for this answer alone. */
  settings: Partial<AgentSettings> | undefined;
  /** What the first line says beside the conversation and the message; undefined: there is no such line. */
  inFirstLine: JsonObject | undefined;
  /** Whether the message came on record: until then nobody may read the answer, and without it there is none. */
  isStored: Promise<boolean>;
  heard?: AnswerRequest["heard"];
};

type Underway = LiveTurn & { log: LivePartLog };

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
  const { store, steps, agents, attachments, models, runner, clock } = deps;
  const live = new LiveTurns(clock);
  const keptWords = createKeptWords({ steps, clock });
  const { answerApprovals, answerApproval, pendingApprovals } = createApprovals({ ...deps, live });

  /** By the client's id, or by the conversation's own. */
  async function find({ agent, owner, client_id }: Opening): Promise<ConversationRow | undefined> {
    if (client_id === undefined) return undefined;
    const known = await store.byClientId(agent.id, owner, client_id);
    if (known || !isUuid(client_id)) return known;
    const own = await store.get(client_id);
    return own?.agent_id === agent.id && own.owner === owner ? own : undefined;
  }

  async function begin(
    opening: Opening,
    message: Spoken,
    store: (beginning: Parameters<ConversationStore["begin"]>[0]) => Promise<boolean>,
  ): Promise<Begun | undefined> {
    const known = await find(opening);
    // The commit decides; but pictures are put on record before it, and are not to be for a message that is refused.
    if (known && message.images.length > 0 && live.count(known.id) >= MOST_WAITING) throw tooManyWait();
    const isNew = known === undefined;
    const now = clock.now();
    const conversation = known
      ? { ...known, idle_ms: idleMsOf(opening.agent) }
      : newConversation(opening, now);
    const branch =
      known && message.place && (await branchOf(deps.records, known, message.place, message.text));
    const turn = newTurn(conversation, { ...message, now });
    let stored = false;
    try {
      const images =
        message.images.length > 0
          ? await attachments.take(conversation, message.images, opening.agent.settings.attachment_config)
          : [];
      const said = branch?.kind === "again" ? undefined : userMessage(turn, { ...message, images });
      // After the message's own: in one turn they stand in this order.
      const message_id = newId();
      turn.answer_id = message_id;
      const told = [
        ...(isNew ? [conversationStarted(conversation)] : []),
        ...(said ? [messageEvent(conversation, said)] : []),
      ];
      stored = await withOutbox(deps, conversation, told, turn.hop, (outbox) =>
        store({ conversation, isNew, message: said, branch, turn, outbox }),
      );
      return stored ? { conversation, turn } : undefined;
    } finally {
      if (!stored && isNew && message.images.length > 0) await attachments.drop(conversation.id);
    }
  }

  async function talk(
    known: AgentTarget,
    owner: ConversationRow["owner"],
    { verdicts, ...request }: StreamRequest,
    { request_id, tellContext, settings, hop, idempotency }: StreamContext,
  ): Promise<LiveTurn> {
    const agent = settings ? { ...known, settings: { ...known.settings, ...settings } } : known;
    const { client_id, user_id, message_id: named, ...spoken } = request;
    const opening: Opening = { agent, owner, client_id, user_id, metadata: {} };
    if (verdicts.length > 0) return goOn(opening, verdicts);
    const message: Spoken = { ...spoken, client_id: named, source: "stream", hop };
    const model = modelOf(models, agent);
    const context: JsonObject = tellContext ? { request_id, model, agent_version: agent.version } : {};
    const inFirstLine = tellContext || client_id === undefined ? context : undefined;
    let answered: StartAnswer | undefined;
    const begun = await retryRaced(async () => {
      let underway: Underway | undefined;
      const stored = await begin(opening, message, async (beginning) => {
        const { conversation, turn, isNew, message: said } = beginning;
        const made = {
          status: 200,
          body: { conversation_id: conversation.id, turn_id: turn.id, message_id: turn.answer_id },
        };
        const claim = claimOn(idempotency, made);
        const storing = store.begin({ ...beginning, idempotency: claim, most_streams: MOST_WAITING });
        const isStored = storing.then(
          ({ outcome }) => outcome === "new",
          () => false,
        );
        const begun = { agent, conversation, turn, settings, inFirstLine, isStored };
        // What the model is sent is known while the message is put on record, where nothing is said meanwhile. But a
        // repeated request would ask for nothing, and what stands in another branch is decided where it is stored.
        const isNext = !beginning.branch && live.count(conversation.id) === 0;
        if (isNext && said && spoken.images.length === 0 && !idempotency)
          underway = start({ ...begun, heard: { message: said, isFirst: isNew } });
        answered = answerOf(await storing, made);
        if (await isStored) underway ??= start(begun);
        return isStored;
      });
      return stored ? underway : answered;
    });
    return "log" in begun ? begun : again({ ...deps, live }, begun.body as unknown as Omit<LiveTurn, "log">);
  }

  /** The answer to a message, from its first line on. */
  function start(begun: Beginning): Underway {
    const { conversation, turn, inFirstLine } = begun;
    const message_id = turn.answer_id!;
    const { id: conversation_id } = conversation;
    const log = new LivePartLog(clock);
    if (inFirstLine) log.append({ type: "data", data: [{ conversation_id, message_id, ...inFirstLine }] });
    const running = { turn_id: turn.id, conversation_id, message_id, log };
    void stream(begun, running);
    return running;
  }

  /** The answer that waited for somebody's yes or no; while others of its calls wait, it says so and ends. */
  async function goOn(opening: Opening, verdicts: Verdict[]): Promise<LiveTurn> {
    const conversation = await find(opening);
    if (!conversation) throw notFound("conversation", opening.client_id ?? "");
    // A client repeats what it knows of the whole message, calls that nobody was asked about as well.
    const pending = await pendingApprovals(conversation.id);
    const wanted = verdicts.filter(({ approval_id: id }) =>
      pending.some(({ approval_id, tool_call_id }) => approval_id === id || tool_call_id === id),
    );
    const going = await answerApprovals(conversation, wanted.length > 0 ? wanted : verdicts);
    if (going) return { ...going, continues: true };
    const [asked] = pending;
    const turn_id = asked?.execution_id ?? conversation.id;
    const message_id = (await store.turn(turn_id))?.message_id ?? turn_id;
    const log = new LivePartLog(clock);
    log.append({ type: "start_step", message_id });
    tellEnd(log, { reason: "tool-calls" });
    return { turn_id, conversation_id: conversation.id, message_id, log, continues: true };
  }

  /** Never throws: whatever happens, readers get a proper last line. */
  async function stream(
    { agent, conversation, turn, settings, isStored, heard }: Beginning,
    running: Underway,
  ) {
    const { message_id, log } = running;
    const { signal, first, show } = live.open(running, false);
    let leaveWords = () => {};
    void isStored.then((is) => {
      if (!is) {
        live.stop(conversation.id, turn.id);
        return;
      }
      show();
      leaveWords = keptWords.follow(turn.id, log);
    });
    try {
      await first;
      const journal = Journal.fresh(steps, turn, isStored);
      const request = { agent, turn, message_id, journal, signal, heard };
      const end = await answer(deps, request, (part) => log.append(part));
      if (!(await isStored)) return; // nobody was told of it
      if (end.cause !== undefined)
        deps.report("a turn failed unexpectedly", { turn_id: turn.id, error: end.cause });
      const isAborted = () => signal.aborted;
      await recordAnswer(deps, { conversation, turn, message_id, end, isAborted, settings });
      await resolveIfSaid(deps, { agent, turn, end });
      await tidyUp(deps, { agent, conversation, turn, end, signal }, log);
      tellEnd(log, end);
      // Its readers are told one sentence; here are the words.
      if (end.state === "failed" && conversation.owner === "anonymous")
        deps.report("a public agent did not answer", { turn_id: turn.id, error: end.error });
    } catch (error) {
      deps.report("an answer could not be stored", { turn_id: turn.id, error });
      const words = { code: "UNAVAILABLE", message: "The answer could not be stored." };
      tellEnd(log, { reason: "error", error: words });
    } finally {
      await isStored; // else it would be followed only now
      leaveWords();
      live.close(running);
    }
  }

  /**
   * Ends what is being answered in a conversation, or the one turn named; what has come by then is kept.
   * Answers which turns were ended.
   */
  async function halt(conversation_id: string, turn_id?: string): Promise<string[]> {
    const streams = live.stop(conversation_id, turn_id);
    const others = await store.cancelQueued({
      conversation_id,
      turn_id,
      but: streams,
      ended_at: clock.now(),
    });
    for (const id of others) runner.cancel(id);
    return [...streams, ...others];
  }

  return {
    job: turnJob({ ...deps, live, keptWords }),
    answerApprovals,
    answerApproval,
    pendingApprovals,

    /** A message by a key's holder; throws before anything is streamed. */
    talk: async (caller: Caller, agent_id: string, request: StreamRequest, context: StreamContext) =>
      talk(await agents.inScope(caller, agent_id), "project", request, context),

    /**
     * A message by anyone to a public agent; its conversations are apart from those of the project, and an
     * id continues one only if nobody could have guessed it. How the agent is made is not told, and calls that
     * its owner wants approved are not for the one to approve who asks for them.
     */
    async talkAnonymously(agent_id: string, asked: StreamRequest, given: StreamContext): Promise<LiveTurn> {
      const { request, context } = unguessable(asked, given);
      const agent = await agents.publicTarget(agent_id);
      if (request.verdicts.length > 0)
        throw forbidden("A call is approved with a key of the agent's project.");
      const turn = await talk(agent, "anonymous", request, { ...context, tellContext: false });
      return { ...turn, stranger: strangerTo(agent) };
    },

    /**
     * A message that is answered later, by a job: durable before the answer (interface 4.4).
     * `context.conversation_id` threads.
     */
    async enqueue(agent: AgentTarget, request: EnqueueRequest): Promise<StartAnswer> {
      const { message: text, user_id, metadata, source, hop, asked_by, idempotency } = request;
      const { client_id, facts } = readContext(request.context);
      const opening: Opening = { agent, owner: "project", client_id, user_id, metadata };
      return retryRaced(async () => {
        let answered: StartAnswer | undefined;
        await begin(opening, { text, images: [], facts, source, hop, asked_by }, async (beginning) => {
          const { turn, conversation } = beginning;
          // One at a time in a conversation: those before it end first.
          const before = await runner.lineOf(TURN_JOB, conversation.id);
          const estimated_completion = iso(clock.now() + usualMs(agent) * (1 + before));
          const made = request.answer({ execution_id: turn.id, estimated_completion });
          const ours = { tenant: agent.workspace_id, key: conversation.id, ref: turn.id };
          const placement = runner.place(TURN_JOB, ours);
          const claim = claimOn(idempotency, made);
          const trigger_event = request.record?.({
            turn_id: turn.id,
            conversation_id: conversation.id,
            response: made,
          });
          const all = { ...beginning, job: placement.row, idempotency: claim, trigger_event };
          return withPlacements(runner, [placement], async () => {
            const outcome = await store.begin(all);
            answered = answerOf(outcome, made);
            return outcome.outcome === "new";
          });
        });
        return answered;
      });
    },

    /** The newest turn of a conversation while it streams, and a minute longer: for another reader. */
    live: (conversation_id: string): LiveTurn | undefined => live.of(conversation_id),

    /** The same, only while it has not ended. */
    running: (conversation_id: string): LiveTurn | undefined => live.running(conversation_id),

    halt,

    /** Its agent is gone: its streams end. What came by webhook was taken, and its job says what became of it. */
    async haltAgent(agent_id: string): Promise<void> {
      for (const { id, conversation_id } of await store.underway(agent_id)) await halt(conversation_id, id);
    },

    /** Another process deleted agents or conversations: ends what is being answered for them. */
    async haltOrphans(): Promise<void> {
      const running = live.all();
      if (running.length === 0) return;
      const orphans = new Set(await store.orphans(running.map(({ turn_id }) => turn_id)));
      for (const { turn_id, conversation_id } of running)
        if (orphans.has(turn_id)) await halt(conversation_id, turn_id);
    },

    /** How a turn stands, with its reply once there is one. */
    status: (id: string) => turnStatus(store, id),

    recover: () => recoverStreams(deps),

    /** Lets what streams end, at most `patienceMs`, then ends it; resolves when every end is on record. */
    async stop(patienceMs = 0): Promise<void> {
      if (patienceMs > 0) {
        const tired = new Promise<void>((resolve) => realTime(clock).after(patienceMs, resolve));
        await Promise.race([live.idle(), tired]);
      }
      live.abort();
      await live.idle();
    },
  };
}
