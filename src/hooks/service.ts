import type { Static, TSchema } from "typebox";
import type { StartAnswer, StartRequest } from "../executions/service.ts";
import type { Waiters } from "../executions/waiters.ts";
import type { Clock } from "../lib/clock.ts";
import { invalid, notFound, unauthorized } from "../lib/errors.ts";
import type { JsonObject } from "../lib/json.ts";
import { useMarks } from "../lib/last-used.ts";
import type { Schema } from "../lib/schema.ts";
import { sha256Hex } from "../lib/secrets.ts";
import { credentialsOf } from "./credentials.ts";
import { claimOf, hopOf, type StartContext } from "./idempotency.ts";
import { createResults, type ResultSources } from "./results.ts";
import { AgentHookBody, WorkflowHookBody } from "./schema.ts";
import type { HookTokenRow, HookTokenStore, TargetType } from "./store.ts";
import { isHookToken } from "./token.ts";
import { type FindTarget, type HookTarget, tokenStatus } from "./tokens.ts";
import { waitOf } from "./waiting.ts";

/** A message to an agent that is answered later, by a turn of its own. */
export type EnqueueRequest = {
  message: string;
  user_id: string | null;
  metadata: JsonObject;
  context: JsonObject;
  source: "webhook";
  answer: StartRequest["answer"];
} & StartContext;

/** The body as it was parsed (undefined: none was sent) and its text as it was sent. */
export type Sent = {
  body: unknown;
  raw: string;
  /** Lifts the idle timeout: whoever waits is silent for longer than a request may be. */
  keepOpen(): void;
};

export type Hooks = ReturnType<typeof createHooks>;

// Senders' own names for "this is the same request again" (design 3).
const KEY_NAMES = ["idempotency-key", "webhook-id", "x-github-delivery", "x-shopify-webhook-id"];

/**
 * Incoming webhooks (interface 4.4, 5.2): authenticate, check, commit, and only then answer 202. A repeated
 * request gets the first answer again.
 */
export function createHooks<A extends HookTarget, W extends HookTarget>(deps: {
  store: HookTokenStore;
  agents: FindTarget<A>;
  workflows: FindTarget<W>;
  turns: ResultSources["turns"] & { enqueue(target: A, request: EnqueueRequest): Promise<StartAnswer> };
  executions: ResultSources["executions"] & {
    start(target: W, request: StartRequest): Promise<StartAnswer>;
  };
  waiters: Waiters;
  clock: Clock;
}) {
  const { store, agents, workflows, turns, executions, clock } = deps;
  const results = createResults(deps);
  const markUse = useMarks((id, at) => store.used(id, at));

  /**
   * The target, when every token presented opens it. Nothing is asked about a target before a token of its
   * own was shown, so neither answer nor time tells an unknown target from a wrong token; tokens are found
   * by their digest, so the time of the look-up tells nothing of them either.
   */
  async function opened<T extends HookTarget>(
    type: TargetType,
    id: string,
    request: Request,
    find: FindTarget<T>,
  ): Promise<T> {
    await authenticated(request, (row) => row.target_id === id && row.target_type === type);
    const target = await find.target(id);
    if (!target) throw refused();
    return target;
  }

  /** The last of the tokens presented, when there is one and every one of them is live and `opens`. */
  async function authenticated(request: Request, opens: (row: HookTokenRow) => boolean) {
    const presented = credentialsOf(request.url, request.headers);
    const now = clock.now();
    let last: HookTokenRow | undefined;
    for (const token of presented) {
      const row = isHookToken(token) ? await store.byHash(sha256Hex(token)) : undefined;
      if (!row || tokenStatus(row, now) !== "active" || !opens(row)) throw refused();
      markUse(row.id, row.last_used_at, now);
      last = row;
    }
    if (!last) throw refused();
    return last;
  }

  /** The answer to a start, or what came of it when the sender waits for that and it ends in time. */
  async function answered(type: TargetType, request: Request, sent: Sent, start: () => Promise<StartAnswer>) {
    const seconds = waitOf(request.url, request.headers);
    const answer = await start();
    if (seconds === 0) return answer;
    sent.keepOpen();
    const id = String(answer.body["execution_id"]);
    const result = await results.wait(type, id, seconds, request.signal);
    return result?.hasEnded ? { status: 200, body: result.body, replayed: answer.replayed } : answer;
  }

  const contextOf = (scope: string, { headers }: Request, { raw }: Sent): StartContext => ({
    hop: hopOf(headers),
    idempotency: claimOf(headers, KEY_NAMES, { scope, raw, now: clock.now() }),
  });

  return {
    /** Queues a turn of the agent; `execution_id` is the turn's id. Throws as interface section 7 has it. */
    async messageAgent(id: string, request: Request, sent: Sent): Promise<StartAnswer> {
      const target = await opened("agents", id, request, agents);
      const body = checked(AgentHookBody, sent);
      const message: EnqueueRequest = {
        message: body.message,
        user_id: body.user_id ?? null,
        metadata: (body.metadata ?? {}) as JsonObject,
        context: (body.context ?? {}) as JsonObject,
        source: "webhook",
        ...contextOf(`hooks/agents/${id}`, request, sent),
        answer: queued("The message was queued for the agent."),
      };
      return answered("agents", request, sent, () => turns.enqueue(target, message));
    },

    /** Queues an execution of the workflow. Throws as interface section 7 has it. */
    async startWorkflow(id: string, request: Request, sent: Sent): Promise<StartAnswer> {
      const target = await opened("workflows", id, request, workflows);
      const body = checked(WorkflowHookBody, sent);
      const start: StartRequest = {
        input: (body.input_data ?? {}) as JsonObject,
        source: body.trigger_source ?? "webhook",
        metadata: (body.metadata ?? {}) as JsonObject,
        ...contextOf(`hooks/workflows/${id}`, request, sent),
        answer: queued("The execution was queued."),
      };
      return answered("workflows", request, sent, () => executions.start(target, start));
    },

    /**
     * How the work stands that a webhook started; with `?wait=` once it has ended or the time is over. The
     * token's own target only: whatever else an id names is not there.
     */
    async status(id: string, request: Request, sent: Sent): Promise<JsonObject> {
      let of: HookTokenRow | undefined;
      const { target_id, target_type } = await authenticated(request, (row) => {
        of ??= row;
        return row.target_id === of.target_id && row.target_type === of.target_type;
      });
      const seconds = waitOf(request.url, request.headers);
      let result = await results.read(target_type, id);
      if (result?.target_id !== target_id) throw notFound("execution", id);
      if (seconds > 0 && !result.hasEnded) {
        sent.keepOpen();
        result = (await results.wait(target_type, id, seconds, request.signal)) ?? result;
      }
      return result.body;
    },
  };
}

const refused = () => unauthorized("A valid webhook token is required.");

function checked<T extends TSchema>(schema: Schema<T>, { body = {} }: Sent): Static<T> {
  const faults = schema.faults(body);
  if (faults.length > 0) throw invalid(faults);
  return body as Static<T>;
}

const queued =
  (message: string): StartRequest["answer"] =>
  ({ execution_id, estimated_completion }) => ({
    status: 202,
    body: { success: true, message, execution_id, status: "queued", estimated_completion },
  });
