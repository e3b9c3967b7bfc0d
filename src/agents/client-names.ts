import type { IdempotencyClaim } from "../hooks/store.ts";
import { describe, invalidField } from "../lib/errors.ts";
import type { JsonObject } from "../lib/json.ts";
import { CLIENT_ID, isClientId } from "./stream-body.ts";

/** The sender's name for the conversation; the rest of the context is for the model. */
export function readContext({ conversation_id, ...facts }: JsonObject): {
  client_id: string | undefined;
  facts: JsonObject | undefined;
} {
  const given = conversation_id ?? undefined;
  if (given !== undefined && !isClientId(given)) {
    throw invalidField("context.conversation_id", CLIENT_ID, describe(given));
  }
  return { client_id: given, facts: Object.keys(facts).length > 0 ? facts : undefined };
}

// As long as the ids that chat clients make at random. Two visitors whose pages both say "chat-1" must not
// meet in one conversation: each begins one of their own, and goes on with the id that the answer names.
const SHORTEST_ID = 16;

const isGuessable = (name: string | undefined): boolean => name !== undefined && name.length < SHORTEST_ID;

/** The same of the names that requests are told apart by: two visitors may both call theirs "1". */
export function unguessable<
  R extends { client_id?: string | undefined },
  C extends { idempotency?: IdempotencyClaim },
>(request: R, { idempotency, ...context }: C) {
  return {
    request: isGuessable(request.client_id) ? { ...request, client_id: undefined } : request,
    context: { ...context, idempotency: isGuessable(idempotency?.key) ? undefined : idempotency },
  };
}
