import type { Events } from "../events/service.ts";
import { defineJob, done, type JobKind, retry, settled } from "../jobs/job.ts";
import type { Runner } from "../jobs/runner.ts";
import type { Clock } from "../lib/clock.ts";
import { newId } from "../lib/ids.ts";
import type { Models } from "../models/model.ts";
import { answer } from "./answer.ts";
import type { ConversationStore, TurnRow } from "./conversation-store.ts";
import { recordAnswer } from "./record.ts";
import type { Agents } from "./service.ts";

export const TURN_JOB = "agent.turn";

const MOST_ATTEMPTS = 3;
const RETRY_MS = 5_000;

type Deps = {
  store: ConversationStore;
  agents: Pick<Agents, "target">;
  models: Models;
  events: Events;
  runner: Runner;
  clock: Clock;
  report(message: string, fields: Record<string, unknown>): void;
};

/** Answers a message that came by webhook. The answer and the job's end are one commit: never answered twice. */
export function turnJob(deps: Deps): JobKind {
  const { store, agents, models, clock } = deps;

  return defineJob({
    kind: TURN_JOB,
    lane: "turns",
    per_key: 1, // one answer at a time in a conversation, in the order of the messages
    crash_limit: 3,

    async run(ref, run) {
      const turn = await store.turn(ref);
      if (!turn || (turn.state !== "queued" && turn.state !== "running")) return done;
      const conversation = await store.get(turn.conversation_id);
      const agent = await agents.target(turn.agent_id);
      if (!conversation || !agent) {
        const words = { code: "GONE", message: "The agent or the conversation was deleted." };
        await store.finish({ ...failed(turn, words), ended_at: clock.now(), lease: run.lease });
        return settled;
      }
      if (!(await store.start(turn.id, run.lease, clock.now()))) return settled;
      const message_id = newId();
      const request = { agent, turn, message_id, signal: run.signal };
      const end = await answer({ store, models }, request, () => {});
      if (end.state === "interrupted") throw new Error("interrupted");
      if (end.cause !== undefined)
        deps.report("a turn failed unexpectedly", { turn_id: turn.id, error: end.cause });
      if (end.error && end.retryable && run.attempt < MOST_ATTEMPTS) {
        return retry(end.error.message, clock.now() + RETRY_MS * 2 ** (run.attempt - 1));
      }
      const { lease, isAborted } = { lease: run.lease, isAborted: () => run.isAborted() };
      await recordAnswer(deps, { conversation, turn, message_id, end, lease, isAborted });
      return settled;
    },

    async dead(ref, reason) {
      const turn = await store.turn(ref);
      if (!turn) return;
      const words = { code: "CRASH_LOOP", message: `Errand stopped three times under way (${reason}).` };
      await store.finish({ ...failed(turn, words), ended_at: clock.now() });
    },
  });
}

const failed = (turn: TurnRow, error: { code: string; message: string }) => ({
  turn_id: turn.id,
  conversation_id: turn.conversation_id,
  state: "failed" as const,
  error: JSON.stringify(error),
  outbox: [],
});
