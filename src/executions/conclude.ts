import type { NewEvent } from "../events/service.ts";
import type { Json } from "../lib/json.ts";
import { endedEvent, stepEvents } from "./events.ts";
import type { Outcome, Run } from "./run.ts";
import type { ExecutionEnd } from "./store.ts";

/** What a run that has come to its end leaves to be stored, and what there is to tell of it. */
export function conclude(
  { execution, input, spent, unsaved: steps, untold, response, hasLoose, said }: Run,
  outcome: Extract<Outcome, { kind: "success" | "failed" }>,
  ended_at: number,
): { end: ExecutionEnd; events: NewEvent[] } {
  const { started_at } = execution;
  const output: Json = outcome.kind === "success" ? outcome.output : null;
  const error = outcome.kind === "failed" ? outcome.error : undefined;
  return {
    end: {
      ...spent,
      state: outcome.kind,
      output:
        outcome.kind === "success" ? (said?.value === output ? said.text : JSON.stringify(output)) : null,
      error: error ? JSON.stringify(error) : null,
      started_at,
      ended_at,
      steps,
      response,
      hasLoose,
    },
    events: [
      ...untold,
      ...stepEvents(execution, steps),
      endedEvent(execution, {
        ...spent,
        status: outcome.kind,
        started_at,
        at: ended_at,
        input,
        output,
        error,
      }),
    ],
  };
}
