import type { StartAnswer } from "../executions/service.ts";
import type { IdempotencyClaim } from "../hooks/store.ts";
import { conflict, unavailable } from "../lib/errors.ts";
import type { JsonObject } from "../lib/json.ts";
import type { BeginOutcome } from "./conversation-store.ts";

type Made = { status: number; body: JsonObject };

/** A claim with the answer that a repeated request is given. */
export const claimOn = (claim: IdempotencyClaim | undefined, made: Made) =>
  claim && { ...claim, status: made.status, response: JSON.stringify(made.body) };

export const tooManyWait = () =>
  conflict("Messages of this conversation wait for their answers already; wait, or stop them.");

/** Undefined where another request came between. Throws `conflict` for a key
 * used with another request, and where too many messages wait. */
export function answerOf(outcome: BeginOutcome, made: Made): StartAnswer | undefined {
  switch (outcome.outcome) {
    case "new":
      return { ...made, replayed: false };
    case "replay":
      return { status: outcome.status, body: JSON.parse(outcome.response), replayed: true };
    case "mismatch":
      throw conflict("This Idempotency-Key was used with another request.");
    case "full":
      throw tooManyWait();
    case "raced":
      return undefined;
  }
}

/** Two first messages of one conversation at the same moment: the second joins what the first made. */
export async function retryRaced<T>(attempt: () => Promise<T | undefined>): Promise<T> {
  for (let tries = 0; tries < 3; tries++) {
    const outcome = await attempt();
    if (outcome !== undefined) return outcome;
  }
  throw unavailable("This conversation is busy.");
}
