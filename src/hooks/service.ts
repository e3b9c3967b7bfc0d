import type { StartAnswer, StartRequest } from "../executions/service.ts";
import type { Clock } from "../lib/clock.ts";
import { notFound } from "../lib/errors.ts";
import type { JsonObject } from "../lib/json.ts";
import type { TriggerEventRow } from "../triggers/store.ts";
import type { Admission } from "./admission.ts";
import { agentBody, type Sent, workflowBody } from "./bodies.ts";
import type { InputSchema } from "./form-input.ts";
import { claimOf, hopOf, type StartContext } from "./idempotency.ts";
import { toResponse } from "./own-answer.ts";
import type { Results } from "./results.ts";
import type { TargetType } from "./store.ts";
import type { FindTarget, HookTarget } from "./tokens.ts";
import { waitOf } from "./waiting.ts";

/** A message to an agent that is answered later, by a turn of its own. */
export type EnqueueRequest = {
  message: string;
  user_id: string | null;
  metadata: JsonObject;
  context: JsonObject;
  source: "webhook";
  answer: StartRequest["answer"];
  /** What is put on record of it in the same commit, where a trigger was called. */
  record?(begun: Begun): TriggerEventRow;
  /** The execution to be woken when the answer is there. */
  asked_by?: string | undefined;
} & StartContext;

type Begun = { turn_id: string; conversation_id: string; response: { status: number; body: JsonObject } };

export type Hooks = ReturnType<typeof createHooks>;

// Senders' own names for "this is the same request again" (design 3).
export const KEY_NAMES = ["idempotency-key", "webhook-id", "x-github-delivery", "x-shopify-webhook-id"];

/**
 * Incoming webhooks (interface 4.4, 5.2): authenticate, check, commit, and only then answer 202. A repeated
 * request gets the first answer again.
 */
export function createHooks<A extends HookTarget, W extends HookTarget>(deps: {
  admission: Admission;
  results: Pick<Results, "read" | "wait">;
  agents: FindTarget<A>;
  workflows: FindTarget<W>;
  turns: { enqueue(target: A, request: EnqueueRequest): Promise<StartAnswer> };
  executions: { start(target: W, request: StartRequest): Promise<StartAnswer> };
  /** Asked for bodies that are forms: their texts are read by it. */
  inputSchema(target: W): Promise<InputSchema>;
  clock: Clock;
}) {
  const { admission, results, agents, workflows, turns, executions, clock } = deps;

  /**
   * The answer to a start; or, when the sender waits and it comes in time, what came of it: what the workflow
   * says itself, else the result.
   */
  async function answered(type: TargetType, request: Request, sent: Sent, start: () => Promise<StartAnswer>) {
    const seconds = waitOf(request.url, request.headers);
    const answer = await start();
    if (seconds === 0) return answer;
    sent.keepOpen();
    const id = String(answer.body["execution_id"]);
    const result = await results.wait(type, id, seconds, request.signal);
    if (result?.answer) return toResponse(result.answer, answer.replayed);
    return result?.hasEnded ? { status: 200, body: result.body, replayed: answer.replayed } : answer;
  }

  const contextOf = (scope: string, { headers }: Request, { raw }: Sent): StartContext => ({
    hop: hopOf(headers),
    idempotency: claimOf(headers, KEY_NAMES, { scope, raw, now: clock.now() }),
  });

  return {
    /**
     * Asked where the gate refuses a body: throws as for any caller without a token. A target's own sender
     * passes, and has used up one of its starts.
     */
    async recognise(type: TargetType, id: string, request: Request): Promise<void> {
      const find: FindTarget<HookTarget> = type === "agents" ? agents : workflows;
      await admission.target(type, id, request, find);
      admission.count(id);
    },

    /** Queues a turn of the agent; `execution_id` is the turn's id. Throws as interface section 7 has it. */
    async messageAgent(id: string, request: Request, sent: Sent): Promise<StartAnswer | Response> {
      const target = await admission.target("agents", id, request, agents);
      admission.count(id);
      const body = agentBody(sent);
      const message: EnqueueRequest = {
        message: body.message,
        user_id: body.user_id ?? null,
        metadata: (body.metadata ?? {}) as JsonObject,
        context: (body.context ?? {}) as JsonObject,
        source: "webhook",
        ...contextOf(`hooks/agents/${id}`, request, sent),
        answer: queued("The message was queued for the agent."),
      };
      return await answered("agents", request, sent, () => turns.enqueue(target, message));
    },

    /** Queues an execution of the workflow. Throws as interface section 7 has it. */
    async startWorkflow(id: string, request: Request, sent: Sent): Promise<StartAnswer | Response> {
      const target = await admission.target("workflows", id, request, workflows);
      admission.count(id);
      const body = await workflowBody(sent, () => deps.inputSchema(target));
      const start: StartRequest = {
        input: (body.input_data ?? {}) as JsonObject,
        source: body.trigger_source ?? "webhook",
        metadata: (body.metadata ?? {}) as JsonObject,
        ...contextOf(`hooks/workflows/${id}`, request, sent),
        answer: queued("The execution was queued."),
      };
      return await answered("workflows", request, sent, () => executions.start(target, start));
    },

    /**
     * How the work stands that a webhook started; with `?wait=` once it has ended or the time is over. The
     * token's own target only: whatever else an id names is not there.
     */
    async status(id: string, request: Request, sent: Sent): Promise<JsonObject> {
      const own = await admission.ownTarget(request);
      const seconds = waitOf(request.url, request.headers);
      let result = await results.read(own.type, id);
      if (result?.target_id !== own.id) throw notFound("execution", id);
      if (seconds > 0 && !result.hasEnded) {
        sent.keepOpen();
        result = (await results.wait(own.type, id, seconds, request.signal)) ?? result;
      }
      return result.body;
    },
  };
}

const queued =
  (message: string): StartRequest["answer"] =>
  ({ execution_id, estimated_completion }) => ({
    status: 202,
    body: { success: true, message, execution_id, status: "queued", estimated_completion },
  });
