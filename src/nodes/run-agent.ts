import Type from "typebox";
import { defineNode, NodeError } from "./node.ts";

export const runAgent = defineNode({
  name: "run_agent",
  title: "Run agent",
  description: "Puts a message to an agent of the project and waits for its reply.",
  // A question asked again with its key is the same question.
  effect: "idempotent",
  input: Type.Object(
    {
      agent_id: Type.String({ minLength: 1, maxLength: 100, description: "The agent." }),
      message: Type.String({ minLength: 1, description: "What it is told." }),
      conversation_id: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 200,
          description: "Threads messages into one conversation; each run begins one of its own unless given.",
        }),
      ),
      user_id: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 200,
          description: "On whose behalf, for the conversation's record.",
        }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    reply: Type.String({ description: "What the agent answered." }),
    conversation_id: Type.String({ description: "The conversation it stands in." }),
    turn_id: Type.String({ description: "The turn, as the agent's record of it is called." }),
  }),
  async run(
    { agent_id, message, conversation_id, user_id },
    { askAgent, scope, hop, idempotencyKey, asked_by, waited, signal },
  ) {
    const asked = {
      scope,
      agent_id,
      message,
      conversation_id,
      user_id,
      hop: hop + 1,
      idempotencyKey,
      asked_by,
      turn_id: (waited as { turn_id: string } | undefined)?.turn_id,
      signal,
    };
    const answer = await askAgent(asked);
    if (answer.outcome === "waiting") return { waits: { turn_id: answer.turn_id } };
    if (answer.outcome === "failed") throw new NodeError(answer.code, answer.message);
    const { outcome: _, ...output } = answer;
    return { output };
  },
});
