import type { Caller } from "../keys/schema.ts";
import type { Running } from "./direct.ts";
import { responseOf } from "./response-answer.ts";
import type { ResponseRequest } from "./response-request.ts";
import { type Responses, responseIdOf } from "./responses.ts";
import type { Door } from "./service.ts";

/**
 * Begins the answer to a request of OpenAI's responses. It is on record, unless `store` is false, before its
 * client knows the end; a conversation that the client names is its record in this one's place.
 */
export async function respond(
  { door, responses }: { door: Door; responses: Responses },
  caller: Caller,
  asked: ResponseRequest,
  context: Parameters<Door["begin"]>[2],
) {
  const { model, previous_id, echo } = asked;
  const input = JSON.stringify(asked.input);
  const store = asked.store && !asked.conversation && responses.fits(input);
  const aboutOf = ({ message_id, created_at }: Pick<Running, "message_id" | "created_at">) => ({
    message_id,
    created_at,
    model,
    previous_id,
    store,
    echo,
  });
  const running = await door.begin(caller, asked, context, async ({ message_id, created_at }, parts) => {
    if (!store) return;
    const response = responseOf(aboutOf({ message_id, created_at }), parts);
    const { project_id } = caller;
    await responses.keep({ id: responseIdOf(message_id), project_id, previous_id, input, response });
  });
  return { running, about: aboutOf(running) };
}
