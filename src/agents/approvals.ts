import { withPlacements } from "../events/outbox.ts";
import { LivePartLog } from "../http/part-log.ts";
import type { Runner } from "../jobs/runner.ts";
import type { Caller } from "../keys/schema.ts";
import { type Clock, iso, isoOrNull } from "../lib/clock.ts";
import { conflict, notFound } from "../lib/errors.ts";
import type { ConversationRow, ConversationStore } from "./conversation-store.ts";
import type { LiveTurn, LiveTurns } from "./live-turns.ts";
import type { Agents } from "./service.ts";
import type { ApprovalRow, StepStore } from "./step-store.ts";
import { TURN_JOB, type TurnPayload } from "./turn-job.ts";

/** A yes or no to one call: by the approval's own id, or by the call's where that is what a client knows. */
export type Verdict = { approval_id: string; approved: boolean; reason?: string };

/** What waits in a conversation for somebody's yes or no, and the answers to it. */
export function createApprovals(deps: {
  store: ConversationStore;
  steps: StepStore;
  agents: Pick<Agents, "inScope">;
  runner: Runner;
  clock: Clock;
  live: LiveTurns;
}) {
  const { store, steps, runner, clock } = deps;

  /** Those of the conversation that verdicts name. Throws `not_found`. */
  async function named(conversation: ConversationRow, verdicts: Verdict[]) {
    const pending = await steps.pending(conversation.id);
    return Promise.all(
      verdicts.map(async (verdict) => {
        const { approval_id } = verdict;
        const found =
          pending.find(({ id, tool_call_id }) => id === approval_id || tool_call_id === approval_id) ??
          (await steps.approval(approval_id));
        if (found?.conversation_id !== conversation.id) throw notFound("approval", approval_id);
        return { verdict, approval: found };
      }),
    );
  }

  /**
   * Answers calls of one turn. With the last answer the turn goes on by a job, and its stream is given for
   * readers; undefined while others of its calls still wait. The same answer again changes nothing; another
   * one throws `conflict`.
   */
  async function answerApprovals(
    conversation: ConversationRow,
    verdicts: Verdict[],
  ): Promise<LiveTurn | undefined> {
    const list = await named(conversation, verdicts);
    const open = list.filter(({ approval, verdict }) => {
      if (approval.state === "pending") return true;
      if (approval.state === stateOf(verdict)) return false;
      throw conflict(`This approval was answered already: ${approval.state}.`);
    });
    const turn_id = open[0]?.approval.turn_id;
    if (turn_id === undefined) return deps.live.of(conversation.id);
    const answers = open
      .filter(({ approval }) => approval.turn_id === turn_id)
      .map(({ approval, verdict }) => ({
        id: approval.id,
        state: stateOf(verdict),
        reason: verdict.reason ?? null,
      }));
    const turn = (await store.turn(turn_id))!;
    const log = new LivePartLog(clock);
    const payload: TurnPayload = { log };
    const ours = { tenant: turn.workspace_id, key: conversation.id, ref: turn_id };
    const placement = runner.place(TURN_JOB, ours, payload);
    let outcome: Awaited<ReturnType<StepStore["answer"]>> = "raced";
    await withPlacements(runner, [placement], async () => {
      const job = placement.row;
      outcome = await steps.answer({ turn_id, answers, answered_at: clock.now(), job });
      return outcome === "continued";
    });
    if (outcome === ("raced" as typeof outcome))
      throw conflict("This approval was answered at the same moment.");
    if (outcome === ("partly" as typeof outcome)) return undefined;
    return { turn_id, conversation_id: conversation.id, message_id: turn.message_id ?? turn.id, log };
  }

  return {
    answerApprovals,

    /** Calls that wait, oldest first. */
    pendingApprovals: async (conversation_id: string) =>
      (await steps.pending(conversation_id)).map(presentApproval),

    /** By a key's holder; the conversation by its own id. Answers with how the approval stands. */
    async answerApproval(
      caller: Caller,
      {
        agent_id,
        conversation_id,
        approval_id,
      }: { agent_id: string; conversation_id: string; approval_id: string },
      verdict: { approved: boolean; reason?: string },
    ) {
      const agent = await deps.agents.inScope(caller, agent_id);
      const conversation =
        (await store.get(conversation_id)) ?? (await store.byClientId(agent.id, "project", conversation_id));
      if (conversation?.agent_id !== agent.id) throw notFound("conversation", conversation_id);
      const given = { approval_id, ...verdict };
      const [found] = await named(conversation, [given]);
      await answerApprovals(conversation, [given]);
      return presentApproval((await steps.approval(found!.approval.id))!);
    },
  };
}

const stateOf = ({ approved }: { approved: boolean }): "approved" | "denied" =>
  approved ? "approved" : "denied";

export const presentApproval = (row: ApprovalRow) => ({
  approval_id: row.id,
  execution_id: row.turn_id,
  conversation_id: row.conversation_id,
  tool_call_id: row.tool_call_id,
  tool_name: row.tool_name,
  args: row.args,
  status: row.state,
  reason: row.reason,
  created_at: iso(row.created_at),
  answered_at: isoOrNull(row.answered_at),
});
