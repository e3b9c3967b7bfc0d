import { answerWhat } from "../agents/answer.ts";
import { Journal } from "../agents/journal.ts";
import { STOPPED } from "../agents/live-turns.ts";
import type { AgentTarget } from "../agents/service.ts";
import { tellEnd } from "../agents/tell-end.ts";
import type { LoopDeps, TheirTools } from "../agents/turn-loop.ts";
import { newConversation, newTurn } from "../agents/turn-rows.ts";
import { LivePartLog, type PartLog, type StreamPart } from "../http/part-log.ts";
import { newId } from "../lib/ids.ts";
import type { ModelMessage } from "../models/model.ts";

/** An answer under way. `leave`: nobody reads it any more. */
export type Running = {
  message_id: string;
  created_at: number;
  log: PartLog;
  conversation_id?: string;
  /** Begun by an earlier request of the same Idempotency-Key. */
  replayed?: boolean | undefined;
  leave(): void;
};

type Deps = LoopDeps & { report(message: string, fields: Record<string, unknown>): void };

type Question = {
  agent: AgentTarget;
  hear(): Promise<ModelMessage[]>;
  theirs: TheirTools | undefined;
  hop: number;
  /** Before the reader is told of the end: all that it is told. */
  ended?:
    | ((answer: { message_id: string; created_at: number }, parts: readonly StreamPart[]) => Promise<void>)
    | undefined;
};

const NOTHING_KEPT = { save: async () => true };

/**
 * Answers to what a client sends along, of which nothing is kept but the runs of the agent's tools: no
 * conversation, no events, nobody who could be asked for an approval. It ends with its reader.
 */
export function createDirect(deps: Deps) {
  const { clock, report } = deps;
  const running = new Map<AbortController, Promise<void>>();

  async function run(
    { agent, hear, theirs, hop, ended }: Question,
    log: LivePartLog,
    message_id: string,
    signal: AbortSignal,
  ) {
    const now = clock.now();
    const opening = { agent, owner: "project" as const, client_id: undefined, user_id: null, metadata: {} };
    const turn = {
      ...newTurn(newConversation(opening, now), { source: "stream", hop, now }),
      conversation_id: "",
    };
    const journal = Journal.fresh(NOTHING_KEPT, turn);
    const request = { agent, turn, message_id, journal, signal, hear, theirs, isOnRecord: false };
    try {
      const end = await answerWhat(deps, request, (part) => log.append(part));
      if (end.cause !== undefined)
        report("an answer failed unexpectedly", { agent_id: agent.id, error: end.cause });
      if (end.state === "success") {
        const finish = { type: "finish" as const, reason: end.reason, usage: end.usage };
        await ended?.({ message_id, created_at: now }, [...log.parts, finish]);
      }
      tellEnd(log, end);
    } catch (error) {
      report("an answer could not be stored", { agent_id: agent.id, error });
      const words = { code: "UNAVAILABLE", message: "The answer could not be stored." };
      tellEnd(log, { reason: "error", error: words });
    }
  }

  return {
    start(question: Question): Running {
      const log = new LivePartLog(clock);
      const message_id = newId();
      const controller = new AbortController();
      const end = run(question, log, message_id, controller.signal).finally(() => running.delete(controller));
      running.set(controller, end);
      return { message_id, created_at: clock.now(), log, leave: () => controller.abort(STOPPED) };
    },

    /** Lets what runs end, at most `patienceMs`, then ends it. */
    async stop(patienceMs = 0): Promise<void> {
      const ends = () => Promise.all(running.values());
      if (patienceMs > 0) {
        const tired = new Promise<void>((resolve) => clock.after(patienceMs, resolve));
        await Promise.race([ends(), tired]);
      }
      for (const controller of running.keys()) controller.abort();
      await ends();
    },
  };
}
