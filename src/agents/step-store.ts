import type { JobRow, Lease } from "../jobs/job.ts";
import type { Json } from "../lib/json.ts";
import type { Usage } from "../models/model.ts";
import type { Words } from "../models/words.ts";
import type { AnswerPart, MessageRow } from "./conversation-store.ts";

/** One answer of the model with the calls in it and the results that have come; `reason` as the model ended it. */
export type Step = { parts: AnswerPart[]; reason: string; usage: Usage };

/** `path`: the ids of the calls of sub-agents that lead to the step, with "/" between; "" at the top. */
export type StepRow = Step & { turn_id: string; path: string; seq: number };

/** What a turn has said since it was last kept; `isFirst`: of its step, and what was kept before it counts no more. */
export type SaidWords = { turn_id: string; parts: Words[]; isFirst: boolean };

export type ApprovalRow = {
  id: string;
  turn_id: string;
  conversation_id: string;
  path: string;
  tool_call_id: string;
  tool_name: string;
  args: Json;
  state: "pending" | "approved" | "denied";
  reason: string | null;
  created_at: number;
  answered_at: number | null;
};

export type ApprovalAnswer = { id: string; state: "approved" | "denied"; reason: string | null };

export type StepStore = {
  /** In order, of every path. */
  steps(turn_id: string): Promise<StepRow[]>;
  /** Puts a step on record, again with each result. False: the turn has ended or its job is held by someone else. */
  save(step: StepRow, lease?: Lease): Promise<boolean>;
  /** Adds to what turns have said after their last whole step, until one is saved. Lazy; not for turns that have ended. */
  keepWords(said: SaidWords[]): Promise<void>;
  /** What was kept of a turn since its last whole step, in order. */
  words(turn_id: string): Promise<Words[]>;
  /** The turn waits for approvals, its answer so far and the end of its job in one. False as above. */
  suspend(waiting: {
    message: MessageRow;
    approvals: ApprovalRow[];
    /** To be the turn's; those that it has stay where none are given. */
    settings?: string;
    lease?: Lease;
  }): Promise<boolean>;
  approval(id: string): Promise<ApprovalRow | undefined>;
  approvals(turn_id: string): Promise<ApprovalRow[]>;
  /** Those of a conversation that nobody has answered, oldest first. */
  pending(conversation_id: string): Promise<ApprovalRow[]>;
  /**
   * Answers approvals of one turn. With the last of them the turn is queued again and `job` inserted:
   * "continued", before that "partly". "raced": one was answered before, and nothing was stored.
   */
  answer(answering: {
    turn_id: string;
    answers: ApprovalAnswer[];
    answered_at: number;
    job: JobRow;
  }): Promise<"continued" | "partly" | "raced">;
};
