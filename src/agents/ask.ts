import { MOST_HOPS } from "../events/schema.ts";
import type { Waiters } from "../executions/waiters.ts";
import { CLAIM_MS } from "../hooks/store.ts";
import type { Clock } from "../lib/clock.ts";
import { AppError } from "../lib/errors.ts";
import { sha256Hex } from "../lib/secrets.ts";
import type { AskAgent } from "../nodes/node.ts";
import type { Agents } from "./service.ts";
import type { Turns } from "./turns.ts";

// An answer may need a person's approval; the step's own time limit is what usually ends the wait.
const LONGEST_WAIT_MS = 24 * 3_600_000;

/**
 * A question of a workflow to an agent: a turn like that of an incoming webhook, whose reply is waited for.
 * The turn is on record, so a question asked again with the same key after a crash waits for the same one.
 */
export function createAsk(deps: {
  agents: Pick<Agents, "target">;
  turns: Pick<Turns, "enqueue" | "status">;
  waiters: Waiters;
  clock: Clock;
}): AskAgent {
  const { agents, turns, waiters, clock } = deps;

  return async ({ scope, agent_id, message, conversation_id, user_id, hop, idempotencyKey, signal }) => {
    const failed = (code: string, message: string) => ({ outcome: "failed" as const, code, message });
    if (hop > MOST_HOPS)
      return failed("LOOP", `More than ${MOST_HOPS} workflows and agents have called one another.`);
    const agent = await agents.target(agent_id);
    if (!agent) return failed("AGENT_MISSING", `There is no agent ${agent_id}.`);
    if (agent.project_id !== scope.project_id) {
      return failed("AGENT_FOREIGN", `The agent ${agent_id} belongs to another project.`);
    }
    const asked = { agent_id, message, conversation_id, user_id };
    let turn_id: string;
    try {
      const { body } = await turns.enqueue(agent, {
        message,
        user_id: user_id ?? null,
        metadata: {},
        context: conversation_id === undefined ? {} : { conversation_id },
        source: "webhook",
        hop,
        idempotency: {
          scope: `steps/${agent_id}`,
          key: idempotencyKey,
          request_hash: sha256Hex(JSON.stringify(asked)),
          expires_at: clock.now() + CLAIM_MS,
        },
        answer: ({ execution_id }) => ({ status: 202, body: { execution_id } }),
      });
      turn_id = String((body as { execution_id: string }).execution_id);
    } catch (error) {
      if (error instanceof AppError) return failed(error.code.toUpperCase(), error.message);
      throw error;
    }
    const ended = async () => (await turns.status(turn_id))?.completed_at != null;
    await waiters.wait(turn_id, LONGEST_WAIT_MS, ended, signal);
    const turn = await turns.status(turn_id);
    if (!turn?.completed_at) return failed("NO_ANSWER", "The agent has not answered yet.");
    const { status, reply, error } = turn;
    if (status === "success")
      return { outcome: "answered", reply: reply ?? "", conversation_id: turn.conversation_id, turn_id };
    return failed(error?.code ?? "AGENT_FAILED", error?.message ?? "The agent did not answer.");
  };
}
