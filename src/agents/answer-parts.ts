import { newId } from "../lib/ids.ts";
import { isObject, type Json, type JsonObject } from "../lib/json.ts";
import type { ModelMessage } from "../models/model.ts";
import type { AnswerPart } from "./conversation-store.ts";

const LONGEST_CALL_ID = 100;

export const UNREADABLE = "unreadable_arguments";
const LONGEST_QUOTE = 2_000;

/** Arguments are an object for every client and every server; what is none is kept as text in one. */
export const readable = (args: Json): JsonObject =>
  isObject(args)
    ? (args as JsonObject)
    : { [UNREADABLE]: (typeof args === "string" ? args : JSON.stringify(args)).slice(0, LONGEST_QUOTE) };

export const textIn = (parts: AnswerPart[]): string =>
  parts.map((part) => (part.type === "text" ? part.text : "")).join("");

export const callIdsOf = (messages: ModelMessage[]): Set<string> =>
  new Set(messages.flatMap(({ tool_calls }) => (tool_calls ?? []).map(({ id }) => id)));

/** Some servers count anew with each answer; results are told apart by the id alone. */
export function usableId(given: string, taken: Set<string>): string {
  const id =
    given === "" || given.includes("/") || given.length > LONGEST_CALL_ID || taken.has(given)
      ? `call_${newId()}`
      : given;
  taken.add(id);
  return id;
}
