import type { Waiters } from "../executions/waiters.ts";
import type { JsonObject } from "../lib/json.ts";
import { type OwnAnswer, ownAnswerOf } from "./own-answer.ts";
import type { TargetType } from "./store.ts";

/** What came of work that a webhook started, as far as it has got. */
export type Result = {
  /** The agent or workflow that it was started for. */
  target_id: string;
  hasEnded: boolean;
  /** What the workflow itself answers whoever waits, which it may do before it has ended. */
  answer?: OwnAnswer;
  body: { success: boolean; execution_id: string; status: string } & JsonObject;
};

type Standing = { status: string; completed_at: string | null };
type Turn = Standing &
  Record<"execution_id" | "agent_id" | "conversation_id" | "created_at", string> & {
    source: string;
    reply: string | null;
    error: JsonObject | null;
  };
type Execution = Standing & {
  id: string;
  workflow_id: string;
  output_data: unknown;
  response?: unknown;
  error: unknown;
  created_at: string;
  started_at: string | null;
};

export type ResultSources = {
  turns: { status(id: string): Promise<Turn | undefined> };
  executions: { status(id: string): Promise<Execution | undefined> };
};

export type Results = ReturnType<typeof createResults>;

/** Reads and waits for what incoming webhooks started: a turn of an agent or an execution of a workflow. */
export function createResults({ turns, executions, waiters }: ResultSources & { waiters: Waiters }) {
  const readers: Record<TargetType, (id: string) => Promise<Result | undefined>> = {
    async agents(id) {
      const turn = await turns.status(id);
      // What is said in a chat is none of a webhook's business.
      return turn?.source === "webhook" ? ofTurn(turn) : undefined;
    },
    async workflows(id) {
      const execution = await executions.status(id);
      return execution && ofExecution(execution);
    },
  };

  return {
    read: (type: TargetType, id: string): Promise<Result | undefined> => readers[type](id),

    /** The same, once it has ended or answered for itself, or `seconds` are over or the one who asks has gone. */
    async wait(
      type: TargetType,
      id: string,
      seconds: number,
      signal: AbortSignal,
    ): Promise<Result | undefined> {
      const hasEnded = async () => {
        const result = await readers[type](id);
        return result === undefined || result.hasEnded || result.answer !== undefined;
      };
      await waiters.wait(id, seconds * 1_000, hasEnded, signal);
      return readers[type](id);
    },
  };
}

const FAILED = new Set(["failed", "cancelled", "interrupted"]);

const ofTurn = (turn: Turn): Result => ({
  target_id: turn.agent_id,
  hasEnded: turn.completed_at !== null,
  body: {
    success: !FAILED.has(turn.status),
    execution_id: turn.execution_id,
    status: turn.status,
    agent_id: turn.agent_id,
    conversation_id: turn.conversation_id,
    reply: turn.reply,
    error: turn.error,
    created_at: turn.created_at,
    completed_at: turn.completed_at,
  },
});

const ofExecution = (execution: Execution): Result => ({
  target_id: execution.workflow_id,
  hasEnded: execution.completed_at !== null,
  answer: ownAnswerOf(execution.response),
  body: {
    success: !FAILED.has(execution.status),
    execution_id: execution.id,
    status: execution.status,
    workflow_id: execution.workflow_id,
    output_data: execution.output_data as JsonObject,
    error: execution.error as JsonObject | null,
    created_at: execution.created_at,
    started_at: execution.started_at,
    completed_at: execution.completed_at,
  },
});
