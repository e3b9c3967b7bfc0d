import type { Agents, AgentTarget } from "../agents/service.ts";
import type { StartAnswer } from "../executions/service.ts";
import type { Admission } from "../hooks/admission.ts";
import { claimOf, hopOf, type IdempotencyClaim, type StartContext } from "../hooks/idempotency.ts";
import { type EnqueueRequest, KEY_NAMES } from "../hooks/service.ts";
import { CLAIM_MS } from "../hooks/store.ts";
import { queryOf } from "../http/context.ts";
import { checkEncoded } from "../http/form.ts";
import type { Caller } from "../keys/schema.ts";
import type { Clock } from "../lib/clock.ts";
import { AppError, conflict, notFound, unauthorized } from "../lib/errors.ts";
import { isUuid } from "../lib/ids.ts";
import type { JsonObject } from "../lib/json.ts";
import { sha256Hex } from "../lib/secrets.ts";
import type { AuthConfigs } from "./auth-config.ts";
import { AUTHENTICATIONS, type Authentication } from "./authentication/index.ts";
import { tell } from "./message.ts";
import { presentEvent, type Records } from "./records.ts";
import { type Called, requestOf } from "./request.ts";
import type { TriggerEvent } from "./schema.ts";
import type { Triggers } from "./service.ts";
import type { TriggerEventRow, TriggerRequest, TriggerRow, TriggerStore } from "./store.ts";

export type TriggerCalls = ReturnType<typeof createTriggerCalls>;

const NOTHING = new Uint8Array();
const ALLOW = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT";

/**
 * Calls of triggers (interface 4.3): find, authenticate, check, commit the message with the record of the call,
 * and only then answer. A repeated request gets the first answer again.
 */
export function createTriggerCalls(deps: {
  store: Pick<TriggerStore, "byPath" | "event">;
  triggers: Pick<Triggers, "inScope">;
  configs: AuthConfigs;
  records: Records;
  agents: Pick<Agents, "target">;
  turns: { enqueue(target: AgentTarget, request: EnqueueRequest): Promise<StartAnswer> };
  admission: Pick<Admission, "count">;
  clock: Clock;
}) {
  const { store, triggers, configs, records, agents, turns, admission, clock } = deps;

  type Message = {
    agent: AgentTarget;
    trigger: TriggerRow;
    request: TriggerRequest;
    context: StartContext;
    redelivery_of?: string;
    /** The answer to store for repetitions, where it is not what the sender is answered. */
    answer?(event: TriggerEventRow): { status: number; body: JsonObject };
  };

  /** Puts the message down, or nothing where the template leaves the request out. */
  async function put({ agent, trigger, request, context, ...more }: Message): Promise<StartAnswer> {
    const { text, conversation } = tell(trigger, request);
    const redelivery_of = more.redelivery_of ?? null;
    if (text === undefined) {
      const response = { status: trigger.response_code, body: IGNORED };
      const event = await records.ignored(trigger, request, { response, redelivery_of });
      return { ...(more.answer?.(event) ?? response), replayed: false };
    }
    const event = { ...records.eventOf(trigger, request, clock.now()), redelivery_of };
    let response: { status: number; body: JsonObject } | undefined;
    return turns.enqueue(agent, {
      message: text,
      user_id: null,
      metadata: { trigger_id: trigger.id },
      context: conversation === undefined ? {} : { conversation_id: conversation },
      source: "webhook",
      ...context,
      answer: ({ execution_id, estimated_completion }) => {
        const body = { success: true, message: QUEUED, execution_id, status: "queued", estimated_completion };
        response = { status: trigger.response_code, body };
        return more.answer?.(event) ?? response;
      },
      record: ({ turn_id, conversation_id, response: stored }) => ({
        ...event,
        turn_id,
        conversation_id,
        response: response ?? stored,
      }),
    });
  }

  type Known = { trigger: TriggerRow; agent: AgentTarget; authentication: Authentication };

  /** Who calls: throws the one refusal for an unknown path, a deleted agent and wrong credentials. */
  async function known(path: string, request: Request, called: Called, refusal?: AppError) {
    const trigger = isUuid(path) ? await store.byPath(path.toLowerCase()) : undefined;
    const agent = trigger && (await agents.target(trigger.agent_id));
    if (!trigger || !agent) throw refused();
    const authentication = AUTHENTICATIONS.get(trigger.auth.type)!;
    const proof = configs.proof(trigger);
    const sent = { headers: request.headers, body: called.sent ?? NOTHING };
    const missing = authentication.refusal(sent, proof);
    // Told to the owner alone: what was not read could not be what its signature is made over.
    const unread = refusal && !called.sent ? `; its body was not read: ${refusal.message}` : "";
    const reason = missing && `${missing}${unread}`;
    const seen = requestOf(request, called, authentication, proof);
    if (reason !== undefined) {
      const error = refused();
      records.rejected(trigger, { request_id: called.request_id, request: seen, error, reason });
      throw error;
    }
    return { trigger, agent, authentication, seen };
  }

  /** What a sender that was recognised may still be refused for. */
  function accept(
    { trigger, agent, authentication }: Known,
    { headers, url }: Request,
    called: Called,
    request: TriggerRequest,
  ): Promise<StartAnswer> {
    admission.count(trigger.id);
    checkActive(trigger);
    if (trigger.method !== null && trigger.method !== called.method) {
      throw new AppError("method_not_allowed", `This trigger takes ${trigger.method}.`, {
        headers: { allow: trigger.method },
      });
    }
    const query = queryOf(url);
    checkEncoded("query", query);
    const raw = `${called.method} ${query}\n${called.raw}`;
    const claim = { scope: `triggers/${trigger.id}`, raw, now: clock.now() };
    const idempotency =
      ownClaim(authentication, headers, called.body, claim) ?? claimOf(headers, KEY_NAMES, claim);
    return put({ agent, trigger, request, context: { hop: hopOf(headers), idempotency } });
  }

  return {
    /**
     * An unknown path, a deleted agent and wrong credentials are one answer; what is wrong beyond that only
     * those hear who were recognised. HEAD and OPTIONS start nothing and tell nothing.
     */
    async invoke(path: string, request: Request, called: Called): Promise<StartAnswer | Response> {
      if (called.method === "OPTIONS") return new Response(null, { status: 204, headers: { allow: ALLOW } });
      if (called.method === "HEAD") return new Response(null, { status: 204 });
      const { trigger, agent, authentication, seen } = await known(path, request, called);
      const { request_id } = called;
      const challenge = authentication.challenge?.(called.body);
      if (challenge) return { status: 200, body: challenge, replayed: false };
      try {
        return toAnswer(await accept({ trigger, agent, authentication }, request, called, seen));
      } catch (error) {
        // The disk, or the program's own fault: no word about this request.
        if (error instanceof AppError && error.code !== "unavailable")
          records.rejected(trigger, { request_id, request: seen, error });
        throw error;
      }
    },

    /**
     * Asked where the gate refuses the body: a sender that is not known, by what was read of it, hears of its
     * credentials alone; of the others the refusal is on record.
     */
    async recognise(path: string, request: Request, called: Called, refusal: AppError): Promise<void> {
      if (called.method === "OPTIONS") return;
      const { trigger, seen } = await known(path, request, called, refusal);
      const rejected = (error: AppError) =>
        records.rejected(trigger, { request_id: called.request_id, request: seen, error });
      try {
        admission.count(trigger.id);
      } catch (error) {
        if (error instanceof AppError) rejected(error);
        throw error;
      }
      rejected(refusal);
    },

    /** Tells the agent once more, by the trigger's present templates. Answers the new event. */
    async redeliver(
      caller: Caller,
      agent_id: string | undefined,
      trigger_id: string,
      event_id: string,
      context: StartContext,
    ): Promise<{ status: number; body: TriggerEvent; replayed: boolean }> {
      const trigger = await triggers.inScope(caller, trigger_id, agent_id);
      const event = isUuid(event_id) ? await store.event(event_id) : undefined;
      const agent = await agents.target(trigger.agent_id);
      if (event?.trigger_id !== trigger.id || !agent) throw notFound("trigger event", event_id);
      if (event.state === "refused")
        throw conflict("Its sender was not recognised, so the agent is not told of it.");
      checkActive(trigger);
      const { body, replayed } = await put({
        agent,
        trigger,
        request: event.request,
        context,
        redelivery_of: event.id,
        answer: ({ id }) => ({ status: 202, body: { event_id: id } }),
      });
      const told = await store.event(String(body["event_id"]));
      if (!told) throw notFound("trigger event", String(body["event_id"]));
      return { status: 202, body: presentEvent(told), replayed };
    },
  };
}

const QUEUED = "The message was queued for the agent.";
const IGNORED = {
  success: true,
  message: "The trigger has nothing to say of this request; the agent was not told.",
  execution_id: null,
  status: "ignored",
};

// The same whatever the reason: neither the path nor the way to be known is given away.
const refused = () => unauthorized("No trigger takes this request with these credentials.");

function checkActive({ is_active }: TriggerRow): void {
  if (!is_active) throw conflict("This trigger is not active.");
}

/** By the name that the sender gives its requests itself: it goes before headers that anyone may add. */
function ownClaim(
  { senderKey }: Authentication,
  headers: Headers,
  body: unknown,
  { scope, raw, now }: { scope: string; raw: string; now: number },
): IdempotencyClaim | undefined {
  const own = senderKey?.(headers, body);
  if (!own || own.key === "") return undefined;
  const key = sha256Hex(own.key);
  return { scope, key, request_hash: own.isWhole ? key : sha256Hex(raw), expires_at: now + CLAIM_MS };
}

const BODILESS = [204, 205];

function toAnswer(answer: StartAnswer): StartAnswer | Response {
  const { status, replayed } = answer;
  if (!BODILESS.includes(status)) return answer;
  return new Response(null, { status, headers: replayed ? { "idempotent-replay": "true" } : {} });
}
