import Type from "typebox";
import type { JsonObject } from "../lib/json.ts";
import { json } from "../lib/schema.ts";
import type { AnswerEnd } from "./answer.ts";
import { type CompleteDeps, complete } from "./complete.ts";
import { Resolution } from "./conversation-schema.ts";
import type { ConversationStore, TurnRow } from "./conversation-store.ts";
import type { AgentTarget } from "./service.ts";
import type { Tool } from "./tools.ts";

const RESOLVE = "resolve_conversation";

const Resolved = json(
  Type.Object(
    {
      ...Resolution.properties,
      satisfaction_score: Type.Optional(Type.Number({ minimum: 0, maximum: 100 })),
    },
    { additionalProperties: false },
  ),
);

/** By which an agent that may (`can_resolve`) says that a conversation has come to its end. */
export const resolveTool: Tool = {
  name: RESOLVE,
  description:
    "Closes this conversation once the user's matter is settled; type says how, as answered or escalated. " +
    "Say goodbye after it.",
  parameters: Resolved.schema as unknown as JsonObject,
  needsApproval: false,
  check: (args) => Resolved.faults(args),
  run: async () => ({ kind: "result", result: { closes: "after this answer" } }),
};

/**
 * After an answer that is on record: the conversation is closed as the agent last said in it, unless more was
 * said meanwhile. Where the program dies just before, it stays open until it idles.
 */
export async function resolveIfSaid(
  deps: CompleteDeps & {
    store: Pick<ConversationStore, "get">;
    report(message: string, fields: Record<string, unknown>): void;
  },
  { agent, turn, end }: { agent: AgentTarget; turn: TurnRow; end: AnswerEnd },
): Promise<void> {
  // Where it may not, a workflow of its own may have this name.
  if (end.state !== "success" || !agent.settings.can_resolve) return;
  const taken = new Set(
    end.parts.flatMap((part) =>
      part.type === "tool_result" && part.name === RESOLVE && !part.is_error ? [part.id] : [],
    ),
  );
  const said = end.parts.findLast((part) => part.type === "tool_call" && taken.has(part.id));
  if (said?.type !== "tool_call" || Resolved.faults(said.args).length > 0) return;
  const { satisfaction_score, ...resolution } = said.args as Resolution & { satisfaction_score?: number };
  const change = { resolution, ...(satisfaction_score === undefined ? {} : { satisfaction_score }) };
  try {
    const row = await deps.store.get(turn.conversation_id);
    if (row) await complete(deps, row, { ended_as: "resolved", change, unlessBusy: true });
  } catch (error) {
    deps.report("a conversation could not be closed", { turn_id: turn.id, error });
  }
}
