import { unavailable } from "../lib/errors.ts";
import { newId } from "../lib/ids.ts";
import type { Log } from "../lib/log.ts";
import { isHookPath, pathOf } from "./context.ts";
import { errorResponse } from "./errors.ts";
import type { Gate } from "./gate.ts";

/** Where a long start stands: the `at`th step `of` so many. */
type Step = { at: number; of: number };

// A step of the schema can take a minute over a large database.
const MIGRATING_RETRY_SECONDS = 5;

/** While there are no services yet: 503 to everybody, and to a probe what the start is at. */
export const notYet = (log: Log, step?: Step): Gate => {
  const words = step ? `migrating the database, step ${step.at} of ${step.of}` : "starting";
  const refusal = unavailable(`The service is ${words}.`, step ? MIGRATING_RETRY_SECONDS : 1);
  return async ({ url }) => {
    const path = pathOf(url);
    const place = { request_id: newId(), hook: isHookPath(path) };
    const answer = errorResponse(refusal, place, log);
    answer.headers.set("x-request-id", place.request_id);
    if (path !== "/health") return answer;
    return Response.json({ status: "degraded", reason: words }, { status: 503, headers: answer.headers });
  };
};
