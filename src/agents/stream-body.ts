import { describe, type Fault, invalid, invalidField } from "../lib/errors.ts";
import { isObject } from "../lib/json.ts";
import type { Verdict } from "./approvals.ts";
import { isAttachment, MOST_IMAGES, readImage, type SentImage } from "./sent-images.ts";
import { readVerdicts } from "./sent-verdicts.ts";

/**
 * What counts of a stream request (interface 2.3): who threads, the last message, and where in the
 * conversation it stands.
 */
export type StreamRequest = {
  client_id: string | undefined;
  /** Whose words these are, where the client says so. */
  user_id: string | null;
  text: string;
  images: SentImage[];
  /** The client's own name of the message. */
  message_id: string | null;
  place: Place;
  /** Answers to calls that wait for approval, in the place of a message. */
  verdicts: Verdict[];
};

/**
 * `next`: behind all that was said. `again`: the answer named, or the newest, once more. `instead`: in the
 * place of the message named. `repeated`: `again` if the conversation has just this many messages of the
 * user and the last of them says the same; so clients before AI SDK 5 ask for an answer once more. They say a
 * message otherwise without saying so: it stands `instead` of the one of its `own` name, or of the one that follows
 * the answer `after`, or, where neither has a name, of the one that on record follows the very same `before`; none
 * of that tells another first message from a next one. `retold`:
 * all that the user said, the newest last: where the conversation has that many messages or more, and the
 * same ones before the newest, this one is `again` or stands instead.
 */
export type Place =
  | { type: "next" }
  | { type: "again"; message_id: string | null }
  | { type: "instead"; message_id: string }
  | { type: "repeated"; count: number; own: string | null; after: string | null; before: Spoken[] }
  | { type: "retold"; said: string[] };

/** A message of a history as a client tells it. */
export type Spoken = { role: "user" | "assistant"; text: string };

const LONGEST_ID = 200;
/** What may thread messages, in words. */
export const CLIENT_ID = `text of 1 to ${LONGEST_ID} characters`;
export const isClientId = (value: unknown): value is string =>
  typeof value === "string" && value !== "" && value.length <= LONGEST_ID;

const LONGEST_TEXT = 200_000;

/**
 * Reads the body of any chat client: `content` as text or as parts, `parts` of its own, pictures in all of
 * them or beside the message, `threadId` for a missing `id`. What clients send besides is theirs and
 * ignored. Throws `invalid_input`.
 */
export function readStreamBody(body: unknown): StreamRequest {
  if (!isObject(body)) throw invalidField("", "an object", describe(body));
  const client_id = body["id"] ?? body["threadId"] ?? undefined;
  const user_id = body["user_id"] ?? null;
  const { messages } = body;
  const faults: Fault[] = [];
  for (const [field, id] of [
    ["id", client_id],
    ["user_id", user_id],
  ] as const) {
    if (id === undefined || id === null || isClientId(id)) continue;
    faults.push({ field, expected: CLIENT_ID, received: describe(id) });
  }
  if (!Array.isArray(messages) || messages.length === 0) {
    faults.push({
      field: "messages",
      expected: "an array with at least one message",
      received: describe(messages),
    });
  }
  if (faults.length > 0) throw invalid(faults);
  const list = messages as unknown[];
  const index = list.length - 1;
  const last = list[index];
  const verdicts = readVerdicts(last);
  return {
    client_id: client_id as string | undefined,
    user_id: user_id as string | null,
    verdicts,
    ...(verdicts.length > 0 ? { text: "", images: [] } : readMessage(last, `messages.${index}`)),
    message_id: isObject(last) && isClientId(last["id"]) ? last["id"] : null,
    place: placeOf(body, list),
  };
}

function placeOf(body: Record<string, unknown>, messages: unknown[]): Place {
  const message_id = isClientId(body["messageId"]) ? body["messageId"] : null;
  if (body["trigger"] === "regenerate-message") return { type: "again", message_id };
  if (message_id !== null) return { type: "instead", message_id };
  if (body["trigger"] !== undefined) return { type: "next" };
  const count = messages.filter((message) => isObject(message) && message["role"] === "user").length;
  // With one message alone only those of a chat client count, which have their words twice: whoever sends
  // nothing but the newest message may well say the same again.
  const last = messages.at(-1) as Record<string, unknown>;
  const isWhole = count > 1 || (typeof last["content"] === "string" && Array.isArray(last["parts"]));
  if (!isWhole) return { type: "next" };
  const answer = messages.at(-2);
  const isNamed = isObject(answer) && answer["role"] === "assistant" && isClientId(answer["id"]);
  const before = messages.slice(0, -1).flatMap(spokenOf);
  const own = isRandom(last["id"]) ? last["id"] : null;
  return { type: "repeated", count, own, after: isNamed ? (answer["id"] as string) : null, before };
}

// A client that calls each of its messages "1" or "user" means nothing by it.
const isRandom = (id: unknown): id is string => isClientId(id) && id.length >= SHORTEST_RANDOM;
const SHORTEST_RANDOM = 16;

/** Nothing of what is neither the user's nor the agent's. */
function spokenOf(message: unknown): Spoken[] {
  if (!isObject(message)) return [];
  const { role, content, parts } = message;
  if (role !== "user" && role !== "assistant") return [];
  if (typeof content === "string" && content !== "") return [{ role, text: content }];
  const list = Array.isArray(content) ? content : Array.isArray(parts) ? parts : [];
  return [{ role, text: list.flatMap(textOfPart).join("\n") }];
}

const textOfPart = (part: unknown): string[] =>
  isObject(part) && part["type"] === "text" && typeof part["text"] === "string" ? [part["text"]] : [];

function readMessage(message: unknown, at: string): { text: string; images: SentImage[] } {
  if (!isObject(message)) throw invalidField(at, "a message", describe(message));
  if (message["role"] !== "user") throw invalidField(`${at}.role`, "user", describeRole(message["role"]));
  const { content, parts, experimental_attachments: beside } = message;
  const read: { text: string | undefined; images: SentImage[] } = { text: undefined, images: [] };
  if (typeof content === "string" && content !== "") read.text = content;
  if (Array.isArray(parts)) readParts(parts, `${at}.parts`, read);
  else if (Array.isArray(content)) readParts(content, `${at}.content`, read);
  else if (content !== undefined && content !== null && typeof content !== "string")
    throw invalidField(`${at}.content`, "text or an array of parts", describe(content));
  // AI SDK 4 has a picture in its attachments and, in some versions, in the parts as well.
  if (Array.isArray(beside) && read.images.length === 0) {
    read.images = beside.map((each, index) => {
      const field = `${at}.experimental_attachments.${index}`;
      if (!isObject(each)) throw invalidField(field, "an attachment", describe(each));
      return readImage(each, field);
    });
  }
  const { text = "", images } = read;
  if (text.trim() === "" && images.length === 0) throw invalidField(`${at}.content`, "text", "nothing");
  if (text.length > LONGEST_TEXT)
    throw invalidField(`${at}.content`, `at most ${LONGEST_TEXT} characters`, "more");
  if (images.length > MOST_IMAGES)
    throw invalidField(`${at}.content`, `at most ${MOST_IMAGES} pictures`, `${images.length}`);
  return { text, images };
}

const describeRole = (role: unknown): string =>
  typeof role === "string" && ["assistant", "system", "tool", "data"].includes(role) ? role : describe(role);

/** Words of the parts count only where the message has none beside them. */
function readParts(
  parts: unknown[],
  at: string,
  read: { text: string | undefined; images: SentImage[] },
): void {
  const texts: string[] = [];
  for (const [index, part] of parts.entries()) {
    const field = `${at}.${index}`;
    if (!isObject(part)) throw invalidField(field, "a part", describe(part));
    if (["text", "input_text"].includes(String(part["type"])) && typeof part["text"] === "string")
      texts.push(part["text"]);
    else if (isAttachment(part)) read.images.push(readImage(part, field));
  }
  read.text ??= texts.join("\n");
}
