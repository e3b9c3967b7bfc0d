import type { ConversationRecords } from "./conversation-records.ts";
import type { Branch, ConversationRow, MessageRow } from "./conversation-store.ts";
import { textOf } from "./events.ts";
import type { Place, Spoken } from "./stream-body.ts";

/**
 * Which turn of the conversation a message is to stand beside; undefined: it is the next one. What a client
 * names and is not on record (a failed answer, a message of before) is taken by its place: the newest.
 */
export async function branchOf(
  records: ConversationRecords,
  { id }: ConversationRow,
  place: Place,
  text: string,
): Promise<Branch | undefined> {
  switch (place.type) {
    case "next":
      return undefined;
    case "again": {
      const named = place.message_id === null ? undefined : await records.message(id, place.message_id);
      const turn_id = named?.turn_id ?? (await records.lastSaid(id))?.message.turn_id;
      return turn_id === undefined ? undefined : { kind: "again", turn_id: await spokenIn(records, turn_id) };
    }
    case "instead": {
      const named = await records.message(id, place.message_id);
      return named?.role === "user" ? { kind: "instead", turn_id: named.turn_id } : undefined;
    }
    case "retold": {
      const { messages } = await records.everything(id);
      const users = messages.filter(({ role, active }) => role === "user" && active);
      const at = place.said.length - 1;
      const stood = users[at];
      const isSame = (text: string, index: number) => textOf(users[index]!) === text;
      if (!stood || !place.said.slice(0, at).every(isSame)) return undefined;
      return { kind: isSame(text, at) ? "again" : "instead", turn_id: stood.turn_id };
    }
    case "repeated": {
      const own = place.own === null ? undefined : await records.message(id, place.own);
      if (own?.role === "user" && own.active)
        return { kind: textOf(own) === text ? "again" : "instead", turn_id: own.turn_id };
      const last = await records.lastSaid(id);
      const isSame = last?.count === place.count && textOf(last.message) === text;
      if (isSame) return { kind: "again", turn_id: last.message.turn_id };
      const stood = await stoodAfter(records, id, place);
      return stood && { kind: textOf(stood) === text ? "again" : "instead", turn_id: stood.turn_id };
    }
  }
}

/** The user's message on the chosen branch that the new one follows the same as; undefined where that is not sure. */
async function stoodAfter(
  records: ConversationRecords,
  id: string,
  { after, before, count }: Extract<Place, { type: "repeated" }>,
): Promise<MessageRow | undefined> {
  const { messages, turns } = await records.everything(id);
  const chosen = messages.filter(({ active }) => active);
  const answer = chosen.find((message) => message.id === after && message.role === "assistant");
  if (answer) {
    const next = turns.filter(({ parent_id }) => parent_id === answer.turn_id).map((turn) => turn.id);
    return chosen.find(({ role, turn_id }) => role === "user" && next.includes(turn_id));
  }
  if (after !== null || count < 2) return undefined;
  const isSame = ({ role, text }: Spoken, at: number) => {
    const on = chosen[at];
    return on?.role === role && textOf(on) === text;
  };
  const stood = before.every(isSame) ? chosen[before.length] : undefined;
  return stood?.role === "user" ? stood : undefined;
}

/** The turn with the message that this one answers. */
const spokenIn = async (records: ConversationRecords, turn_id: string): Promise<string> =>
  (await records.turnLink(turn_id))?.answers ?? turn_id;
