import { describe, type Fault, invalid, invalidField } from "../lib/errors.ts";
import { isObject } from "../lib/json.ts";

/** What counts of a stream request (interface 2.3): who threads, and the last message. */
export type StreamRequest = { client_id: string | undefined; text: string };

const LONGEST_ID = 200;
/** What may thread messages, in words. */
export const CLIENT_ID = `text of 1 to ${LONGEST_ID} characters`;
export const isClientId = (value: unknown): value is string =>
  typeof value === "string" && value !== "" && value.length <= LONGEST_ID;

const LONGEST_TEXT = 200_000;

/**
 * Reads the body of any chat client: `content` as text or as parts, `parts` of its own, `threadId` for a
 * missing `id`. What clients send besides is theirs and ignored. Throws `invalid_input`.
 */
export function readStreamBody(body: unknown): StreamRequest {
  if (!isObject(body)) throw invalidField("", "an object", describe(body));
  const client_id = body["id"] ?? body["threadId"] ?? undefined;
  const faults: Fault[] = [];
  if (client_id !== undefined && !isClientId(client_id)) {
    faults.push({ field: "id", expected: CLIENT_ID, received: describe(client_id) });
  }
  const messages = body["messages"];
  if (!Array.isArray(messages) || messages.length === 0) {
    faults.push({
      field: "messages",
      expected: "an array with at least one message",
      received: describe(messages),
    });
  }
  if (faults.length > 0) throw invalid(faults);
  const index = (messages as unknown[]).length - 1;
  return {
    client_id: client_id as string | undefined,
    text: readMessage((messages as unknown[])[index], `messages.${index}`),
  };
}

function readMessage(message: unknown, at: string): string {
  if (!isObject(message)) throw invalidField(at, "a message", describe(message));
  if (message["role"] !== "user") throw invalidField(`${at}.role`, "user", describeRole(message["role"]));
  const attachments = message["experimental_attachments"];
  if (Array.isArray(attachments) && attachments.length > 0)
    refuseAttachment(`${at}.experimental_attachments`);
  const { content, parts } = message;
  const text =
    typeof content === "string" && content !== ""
      ? content
      : Array.isArray(parts)
        ? textOf(parts, `${at}.parts`)
        : Array.isArray(content)
          ? textOf(content, `${at}.content`)
          : (content ?? "");
  if (typeof text !== "string")
    throw invalidField(`${at}.content`, "text or an array of parts", describe(content));
  if (text.trim() === "") throw invalidField(`${at}.content`, "text", "nothing");
  if (text.length > LONGEST_TEXT)
    throw invalidField(`${at}.content`, `at most ${LONGEST_TEXT} characters`, "more");
  return text;
}

const describeRole = (role: unknown): string =>
  typeof role === "string" && ["assistant", "system", "tool", "data"].includes(role) ? role : describe(role);

function textOf(parts: unknown[], at: string): string {
  const texts: string[] = [];
  for (const [index, part] of parts.entries()) {
    if (!isObject(part)) throw invalidField(`${at}.${index}`, "a part", describe(part));
    if (part["type"] === "text" && typeof part["text"] === "string") texts.push(part["text"]);
    else if (["image", "image_url", "file"].includes(String(part["type"])))
      refuseAttachment(`${at}.${index}`);
  }
  return texts.join("\n");
}

function refuseAttachment(field: string): never {
  throw invalidField(
    field,
    "no attachment",
    "an attachment",
    "This version of Errand takes text alone, no attachments.",
  );
}
