import { type Fault, invalidField } from "../lib/errors.ts";
import type { Json } from "../lib/json.ts";
import { references, renderDeep, TemplateError } from "../lib/template.ts";
import { DEFAULT_MESSAGE } from "./schema.ts";
import type { TriggerRequest, TriggerRow } from "./store.ts";

type Templates = Pick<TriggerRow, "message" | "conversation_id">;

const PARTS = ["method", "path", "query", "headers", "body"];
const EXPECTED = `a template over event, with ${PARTS.join(", ")}`;

/** What is wrong with a trigger's templates before anything has called it. */
export function templateFaults({ message, conversation_id }: Templates): Fault[] {
  return Object.entries({ message, conversation_id: conversation_id ?? "" }).flatMap(([name, text]) => {
    const field = `task_config.${name}`;
    try {
      const odd = references(text).find(
        ([root, part]) => root !== "event" || (part !== undefined && !PARTS.includes(part)),
      );
      return odd ? [{ field, expected: EXPECTED, received: `{{ ${odd.join(".")} }}` }] : [];
    } catch (error) {
      if (!(error instanceof TemplateError)) throw error;
      return [{ field, expected: EXPECTED, received: error.message }];
    }
  });
}

/**
 * What the agent is told of a request, and in which conversation. `text` is undefined where the template comes
 * to nothing, which is how it leaves requests out. A request without a body is told by its query.
 * Throws `invalid_input` where the request lacks what a template refers to, or by default anything to say.
 */
export function tell(
  { message, conversation_id }: Templates,
  request: TriggerRequest,
): { text: string | undefined; conversation: string | undefined } {
  const hasQuery = Object.keys(request.query).length > 0;
  const event = { ...request, body: request.body ?? (hasQuery ? request.query : null) };
  const text = rendered(message, event);
  if (text.trim() === "") {
    if (message === DEFAULT_MESSAGE) throw invalidField("body", "a message", "nothing");
    return { text: undefined, conversation: undefined };
  }
  const conversation = conversation_id === null ? "" : rendered(conversation_id, event).trim();
  return { text, conversation: conversation || undefined };
}

function rendered(template: string, event: TriggerRequest): string {
  try {
    return asText(renderDeep(template, { event }));
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    throw invalidField(
      "body",
      "what the trigger's template refers to",
      error.message,
      `The message could not be made of this request: ${error.message}.`,
    );
  }
}

const asText = (value: Json): string =>
  value === null ? "" : typeof value === "string" ? value : JSON.stringify(value);
