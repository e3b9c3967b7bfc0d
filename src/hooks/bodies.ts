import type { Static, TSchema } from "typebox";
import { parseJson } from "../http/body.ts";
import type { RequestContext } from "../http/context.ts";
import type { FormValue } from "../http/form.ts";
import { AppError, invalid, invalidField } from "../lib/errors.ts";
import type { Schema } from "../lib/schema.ts";
import { type InputSchema, inputOf } from "./form-input.ts";
import { AgentHookBody, WorkflowHookBody } from "./schema.ts";

/** The body as it was parsed (undefined: none was sent), what it was by its media type, and its text as sent. */
export type Sent = Pick<RequestContext, "body" | "kind" | "raw" | "keepOpen">;

/** Media types besides JSON. */
export const FORMS = ["application/x-www-form-urlencoded", "multipart/form-data"];
export const AGENT_MEDIA = [...FORMS, "text/plain"];

/** What an agent is told: a JSON body, the fields of a form, or plain text, which is the message itself. */
export function agentBody(sent: Sent): AgentHookBody {
  if (sent.kind === undefined || sent.kind === "json") return checked(AgentHookBody, sent.body);
  if (sent.kind === "text") return checked(AgentHookBody, { message: sent.body });
  return checked(AgentHookBody, ofForm(sent.body as Record<string, FormValue>));
}

/** What a workflow is started with: a JSON body, or a form, whose fields are the inputs by their names. */
export async function workflowBody(
  sent: Sent,
  inputSchema: () => Promise<InputSchema>,
): Promise<WorkflowHookBody> {
  if (sent.kind !== "form") return checked(WorkflowHookBody, sent.body);
  const { input, faults } = inputOf(await inputSchema(), sent.body as Record<string, FormValue>);
  if (faults.length > 0) throw invalid(faults);
  return { input_data: input, trigger_source: "form" };
}

function checked<T extends TSchema>(schema: Schema<T>, body: unknown = {}): Static<T> {
  const faults = schema.faults(body);
  if (faults.length > 0) throw invalid(faults);
  return body as Static<T>;
}

const OBJECTS = ["metadata", "context"];

/** `message` and `user_id` as they are, `metadata` and `context` as JSON, `context.name` as one of its values. */
function ofForm(form: Record<string, FormValue>): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  const inner: [string, string, string][] = [];
  for (const [name, given] of Object.entries(form)) {
    const text = (Array.isArray(given) ? given.at(-1) : given) as string;
    const [outer, ...rest] = name.split(".");
    if (OBJECTS.includes(name)) body[name] = text === "" ? undefined : jsonField(name, text);
    else if (rest.length === 1 && OBJECTS.includes(outer!)) inner.push([outer!, rest[0]!, text]);
    else body[name] = text;
  }
  for (const [outer, name, text] of inner) {
    if (name === "__proto__") throw invalidField(outer, "no property of that name", name);
    body[outer] = { ...(body[outer] as object | undefined), [name]: text };
  }
  if (body["user_id"] === "") delete body["user_id"];
  for (const name of OBJECTS) if (body[name] === undefined) delete body[name];
  return body;
}

function jsonField(field: string, text: string): unknown {
  try {
    return parseJson(Buffer.from(text), text);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const { expected, received } = error.extra.faults![0]!;
    throw invalidField(field, expected, received);
  }
}
