import type { RecordedMessage, TurnLink } from "./conversation-records.ts";

/**
 * Which messages stand beside each other: the answers to one message of the user, and the messages that
 * the user said in one place of the conversation. By message, oldest first, itself among them.
 */
export function variantsOf(messages: RecordedMessage[], turns: TurnLink[]): Map<string, string[]> {
  const links = new Map(turns.map((turn) => [turn.id, turn]));
  const groups = new Map<string, string[]>();
  const variants = new Map<string, string[]>();
  for (const { id, role, turn_id } of messages) {
    const link = links.get(turn_id);
    const place = role === "user" ? `after ${link?.parent_id}` : `to ${link?.answers ?? turn_id}`;
    const group = groups.get(place) ?? [];
    groups.set(place, group);
    group.push(id);
    variants.set(id, group);
  }
  return variants;
}
