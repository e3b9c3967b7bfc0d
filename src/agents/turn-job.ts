import type { Events } from "../events/service.ts";
import { LivePartLog } from "../http/part-log.ts";
import { defineJob, done, type Fate, type JobKind, type JobRun, retry, settled } from "../jobs/job.ts";
import type { Runner } from "../jobs/runner.ts";
import type { Clock } from "../lib/clock.ts";
import { newId } from "../lib/ids.ts";
import { tidyUp } from "./afterwards.ts";
import { type AnswerDeps, type AnswerEnd, answer } from "./answer.ts";
import type { ConversationRecords } from "./conversation-records.ts";
import type { ConversationRow, ConversationStore, TurnRow } from "./conversation-store.ts";
import { Journal } from "./journal.ts";
import type { KeptWords } from "./kept-words.ts";
import type { LiveTurns } from "./live-turns.ts";
import { recordAnswer } from "./record.ts";
import { brokenOffAnswer, saidBefore } from "./recover.ts";
import { resolveIfSaid } from "./resolve.ts";
import type { AgentSettings } from "./schema.ts";
import type { AgentTarget } from "./service.ts";
import type { StepStore } from "./step-store.ts";
import { tellEnd } from "./tell-end.ts";

export const TURN_JOB = "agent.turn";

const MOST_ATTEMPTS = 3;
const RETRY_MS = 5_000;

type Deps = AnswerDeps & {
  store: ConversationStore;
  steps: StepStore;
  records: ConversationRecords;
  live: LiveTurns;
  keptWords: KeptWords;
  events: Events;
  runner: Runner;
  clock: Clock;
  report(message: string, fields: Record<string, unknown>): void;
};

/** What goes with a job whose reader was there before it. */
export type TurnPayload = { log: LivePartLog };

/**
 * Answers a message that came by webhook, and goes on with a turn that waited for an approval. The answer
 * and the job's end are one commit: never answered twice.
 */
export function turnJob(deps: Deps): JobKind {
  const { store, agents, clock, live } = deps;

  async function run(ref: string, job: JobRun): Promise<Fate> {
    const turn = await store.turn(ref);
    if (!turn || (turn.state !== "queued" && turn.state !== "running")) return done;
    const conversation = await store.get(turn.conversation_id);
    const agent = forTurn(await agents.target(turn.agent_id), turn);
    const log = (job.payload as TurnPayload | undefined)?.log ?? new LivePartLog(clock);
    if (!conversation || !agent) {
      const words = { code: "GONE", message: "The agent or the conversation was deleted." };
      await store.finish({ ...failed(turn, words), ended_at: clock.now(), lease: job.lease });
      tellEnd(log, { reason: "error", error: words });
      return settled;
    }
    if (!(await store.start(turn.id, job.lease, clock.now()))) {
      tellEnd(log, { reason: "error" });
      return settled;
    }
    const message_id = turn.message_id ?? turn.answer_id ?? newId();
    const running = { turn_id: turn.id, conversation_id: conversation.id, message_id, log };
    const { signal: stop, first } = live.open(running);
    const leaveWords = deps.keptWords.follow(turn.id, log);
    try {
      await first;
      return await answered({ agent, conversation, turn, message_id, log, stop }, job);
    } finally {
      leaveWords();
      if (!log.done) tellEnd(log, { reason: "error", error: AGAIN });
      live.close(running);
    }
  }

  type Running = {
    agent: AgentTarget;
    conversation: ConversationRow;
    turn: TurnRow;
    message_id: string;
    log: LivePartLog;
    stop: AbortSignal;
  };

  async function answered(
    { agent, conversation, turn, message_id, log, stop }: Running,
    job: JobRun,
  ): Promise<Fate> {
    const { lease } = job;
    const journal = await Journal.read(deps.steps, turn, lease);
    const signal = AbortSignal.any([job.signal, stop]);
    const end: AnswerEnd = await answer(deps, { agent, turn, message_id, journal, signal }, (part) =>
      log.append(part),
    );
    if (end.state === "interrupted") {
      const now = await store.turn(turn.id);
      if (now?.state === "running") throw new Error("interrupted");
      // Ended between its start and its entry among those that can be stopped: nothing is left to do.
      tellEnd(log, { reason: "stopped" });
      return settled;
    }
    if (end.cause !== undefined)
      deps.report("a turn failed unexpectedly", { turn_id: turn.id, error: end.cause });
    if (end.state === "failed" && end.retryable && job.attempt < MOST_ATTEMPTS) {
      return retry(end.error?.message ?? "", clock.now() + RETRY_MS * 2 ** (job.attempt - 1));
    }
    const isAborted = () => job.isAborted();
    const isOnRecord = await recordAnswer(deps, { conversation, turn, message_id, end, lease, isAborted });
    if (!isOnRecord) return settled;
    await resolveIfSaid(deps, { agent, turn, end });
    await tidyUp(deps, { agent, conversation, turn, end, signal }, log);
    tellEnd(log, end);
    return settled;
  }

  return defineJob({
    kind: TURN_JOB,
    lane: "turns",
    per_key: 1, // one answer at a time in a conversation, in the order of the messages
    crash_limit: 3,
    run,

    async dead(ref, reason) {
      const turn = await store.turn(ref);
      if (!turn) return;
      const words = { code: "CRASH_LOOP", message: `Errand stopped three times under way (${reason}).` };
      const now = clock.now();
      const parts = await saidBefore(deps.steps, turn);
      const message = parts.length > 0 ? brokenOffAnswer(turn, parts, now) : undefined;
      await store.finish({ ...failed(turn, words), ended_at: now, message });
    },
  });
}

/** What the agent was for this turn when it began is what it is where the turn goes on. */
const forTurn = (agent: AgentTarget | undefined, { settings }: TurnRow): AgentTarget | undefined =>
  agent && settings
    ? { ...agent, settings: { ...agent.settings, ...(JSON.parse(settings) as Partial<AgentSettings>) } }
    : agent;

const AGAIN = { code: "INTERRUPTED", message: "The answer broke off here; it is begun again." };

const failed = (turn: TurnRow, error: { code: string; message: string }) => ({
  turn_id: turn.id,
  conversation_id: turn.conversation_id,
  state: "failed" as const,
  error: JSON.stringify(error),
  outbox: [],
});
