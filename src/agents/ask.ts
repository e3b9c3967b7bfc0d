import { MOST_HOPS } from "../events/kinds.ts";
import type { Waiters } from "../executions/waiters.ts";
import { CLAIM_MS } from "../hooks/store.ts";
import type { Clock } from "../lib/clock.ts";
import { AppError } from "../lib/errors.ts";
import { sha256Hex } from "../lib/secrets.ts";
import type { AskAgent } from "../nodes/node.ts";
import type { Agents } from "./service.ts";
import type { Turns } from "./turns.ts";

// Of a step that is tried out alone; its own time limit usually ends the wait.
const LONGEST_WAIT_MS = 24 * 3_600_000;

/**
 * A question of a workflow to an agent: a turn like that of an incoming webhook. The end of the turn wakes the
 * run that asked; where there is none to be woken, the reply is waited for. The turn is on record, so a question
 * asked again with the same key after a crash is the same one.
 */
export function createAsk(deps: {
  agents: Pick<Agents, "target">;
  turns: Pick<Turns, "enqueue" | "status">;
  waiters: Waiters;
  clock: Clock;
}): AskAgent {
  const { agents, turns, waiters, clock } = deps;

  return async ({ signal, asked_by, ...question }) => {
    let { turn_id } = question;
    if (turn_id === undefined) {
      const asked = await ask(question, asked_by);
      if (asked.outcome === "failed") return asked;
      turn_id = asked.turn_id;
    }
    const ended = async () => {
      const turn = await turns.status(turn_id);
      return turn === undefined || turn.completed_at !== null;
    };
    if (asked_by === undefined) await waiters.wait(turn_id, LONGEST_WAIT_MS, ended, signal);
    const turn = await turns.status(turn_id);
    if (!turn) return failed("GONE", "The conversation of this question was deleted.");
    if (turn.completed_at === null) {
      return asked_by === undefined
        ? failed("NO_ANSWER", "The agent has not answered yet.")
        : { outcome: "waiting", turn_id };
    }
    const { status, reply, error } = turn;
    if (status === "success")
      return { outcome: "answered", reply: reply ?? "", conversation_id: turn.conversation_id, turn_id };
    return failed(error?.code ?? "AGENT_FAILED", error?.message ?? "The agent did not answer.");
  };

  /** Puts the message on record, or finds the turn that it is on record as. */
  async function ask(
    { scope, agent_id, message, conversation_id, user_id, hop, idempotencyKey }: Question,
    asked_by: string | undefined,
  ) {
    if (hop > MOST_HOPS)
      return failed("LOOP", `More than ${MOST_HOPS} workflows and agents have called one another.`);
    const agent = await agents.target(agent_id);
    if (!agent) return failed("AGENT_MISSING", `There is no agent ${agent_id}.`);
    if (agent.project_id !== scope.project_id) {
      return failed("AGENT_FOREIGN", `The agent ${agent_id} belongs to another project.`);
    }
    const asked = { agent_id, message, conversation_id, user_id };
    try {
      const { body } = await turns.enqueue(agent, {
        message,
        user_id: user_id ?? null,
        metadata: {},
        context: conversation_id === undefined ? {} : { conversation_id },
        source: "webhook",
        hop,
        asked_by,
        idempotency: {
          scope: `steps/${agent_id}`,
          key: idempotencyKey,
          request_hash: sha256Hex(JSON.stringify(asked)),
          expires_at: clock.now() + CLAIM_MS,
        },
        answer: ({ execution_id }) => ({ status: 202, body: { execution_id } }),
      });
      return { outcome: "asked" as const, turn_id: String(body["execution_id"]) };
    } catch (error) {
      if (error instanceof AppError) return failed(error.code.toUpperCase(), error.message);
      throw error;
    }
  }
}

type Question = Omit<Parameters<AskAgent>[0], "signal" | "asked_by" | "turn_id">;

const failed = (code: string, message: string) => ({ outcome: "failed" as const, code, message });
