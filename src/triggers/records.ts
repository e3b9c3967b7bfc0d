import { errorBody, statusOf, wireCode } from "../http/errors.ts";
import { createLimiter } from "../http/limiter.ts";
import { type Clock, iso, isoOrNull, realTime } from "../lib/clock.ts";
import type { AppError } from "../lib/errors.ts";
import { newId } from "../lib/ids.ts";
import type { TriggerEvent } from "./schema.ts";
import type {
  TriggerEventRow,
  TriggerEventStanding,
  TriggerRequest,
  TriggerRow,
  TriggerStore,
} from "./store.ts";

/** Of one trigger; who calls it with wrong credentials must not fill the disk. */
const MOST_REJECTED = 100;
const MOST_REJECTED_A_MINUTE = 20;

export type Records = ReturnType<typeof createRecords>;

type Refusal = {
  request_id: string;
  request: TriggerRequest;
  /** As it was answered. */
  error: AppError;
  /** What the owner is told beyond that; given where the sender was not recognised. */
  reason?: string;
};

/** What goes on record of calls that no turn came of. */
export function createRecords({ store, clock }: { store: Pick<TriggerStore, "note">; clock: Clock }) {
  const limiter = createLimiter({ name: "rejected", quota: MOST_REJECTED_A_MINUTE, clock: realTime(clock) });

  // A note that the disk refuses is not worth an answer.
  const note = (event: TriggerEventRow) => void store.note(event, MOST_REJECTED).catch(() => {});

  return {
    eventOf,

    rejected(trigger: TriggerRow, { request_id, request, error, reason }: Refusal): void {
      if (!limiter.take(trigger.id).allowed) return;
      const isKnown = reason === undefined;
      const response = { status: statusOf(error.code), body: errorBody(error, { request_id, hook: true }) };
      note({
        ...eventOf(trigger, isKnown ? request : { ...request, body: null }, clock.now()),
        state: isKnown ? "rejected" : "refused",
        response,
        error: { code: wireCode(error.code), message: reason ?? error.message },
      });
    },

    /** The agent was to be told nothing. Answers the event's id. */
    async ignored(
      trigger: TriggerRow,
      request: TriggerRequest,
      more: Pick<TriggerEventRow, "response" | "redelivery_of">,
    ): Promise<TriggerEventRow> {
      const event = { ...eventOf(trigger, request, clock.now()), ...more, state: "ignored" as const };
      await store.note(event, MOST_REJECTED).catch(() => {});
      return event;
    },
  };
}

/** An event of a trigger, of which nothing has come yet. */
const eventOf = ({ id, agent_id }: TriggerRow, request: TriggerRequest, now: number): TriggerEventRow => ({
  id: newId(),
  trigger_id: id,
  agent_id,
  state: "accepted",
  request,
  response: { status: 0, body: null },
  error: null,
  turn_id: null,
  conversation_id: null,
  redelivery_of: null,
  created_at: now,
});

const UNDER_WAY = ["queued", "running", "waiting"];

/** An accepted one stands as its turn does. */
function statusOfEvent({ state, turn_state }: TriggerEventStanding): TriggerEvent["status"] {
  if (state === "ignored") return "completed";
  if (state !== "accepted") return "rejected";
  if (turn_state === null || UNDER_WAY.includes(turn_state)) return "accepted";
  return turn_state === "success" ? "completed" : "failed";
}

export const presentEvent = (event: TriggerEventStanding): TriggerEvent => {
  const status = statusOfEvent(event);
  const turnError = event.turn_error === null ? null : JSON.parse(event.turn_error);
  return {
    id: event.id,
    trigger_id: event.trigger_id,
    agent_id: event.agent_id,
    request: event.request,
    response: event.response,
    status,
    error: event.error ?? turnError ?? (status === "failed" ? ended(event.turn_state) : null),
    conversation_id: event.conversation_id,
    execution_id: event.turn_id,
    redelivery_of: event.redelivery_of,
    created_at: iso(event.created_at),
    completed_at: event.state === "accepted" ? isoOrNull(event.turn_ended_at) : iso(event.created_at),
  };
};

const ended = (turn_state: string | null) => ({
  code: (turn_state ?? "failed").toUpperCase(),
  message: `The turn ended as ${turn_state}.`,
});
