import type { Branch } from "../../agents/conversation-store.ts";
import type { Connection } from "./connection.ts";

type Link = { id: string; parent_id: string | null; answers: string | null };

/** Where a new turn stands: behind the newest of the chosen branch, or beside the one it begins anew at. */
export function placeOf(
  db: Connection,
  conversation_id: string,
  branch: Branch | undefined,
): { parent_id: string | null; answers: string | null } {
  if (!branch) {
    const last = db.get<{ id: string }>(
      "SELECT id FROM turns WHERE conversation_id = ? AND active = 1 ORDER BY id DESC LIMIT 1",
      conversation_id,
    );
    return { parent_id: last?.id ?? null, answers: null };
  }
  const beside = db.get<Link>("SELECT id, parent_id, answers FROM turns WHERE id = ?", branch.turn_id);
  return { parent_id: beside?.parent_id ?? null, answers: branch.kind === "again" ? branch.turn_id : null };
}

/** Chooses the branch that ends with `leaf`: its turns' answers, and the messages that they answer. */
export function activate(db: Connection, conversation_id: string, leaf: string): void {
  const links = db.all<Link>(
    "SELECT id, parent_id, answers FROM turns WHERE conversation_id = ?",
    conversation_id,
  );
  const byId = new Map(links.map((link) => [link.id, link]));
  const answers: string[] = [];
  const messages: string[] = [];
  for (let at = byId.get(leaf); at; at = at.parent_id === null ? undefined : byId.get(at.parent_id)) {
    answers.push(at.id);
    messages.push(at.answers ?? at.id);
  }
  const [answered, said] = [JSON.stringify(answers), JSON.stringify(messages)];
  db.run(
    "UPDATE turns SET active = id IN (SELECT value FROM json_each(?)) WHERE conversation_id = ?",
    answered,
    conversation_id,
  );
  db.run(
    `UPDATE messages SET active = turn_id IN
       (SELECT value FROM json_each(CASE role WHEN 'user' THEN ? ELSE ? END)) WHERE conversation_id = ?`,
    said,
    answered,
    conversation_id,
  );
  db.run(
    `UPDATE conversations SET message_count =
       (SELECT count(*) FROM messages WHERE conversation_id = conversations.id AND active = 1) WHERE id = ?`,
    conversation_id,
  );
}
