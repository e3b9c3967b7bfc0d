import type { AttachmentRow, AttachmentStore } from "../../agents/attachments.ts";
import type { Connection } from "./connection.ts";
import type { Storage } from "./storage.ts";

function put(db: Connection, row: AttachmentRow): string {
  const known = db.get<{ id: string }>(
    "SELECT id FROM attachments WHERE conversation_id = ? AND sha256 = ?",
    row.conversation_id,
    row.sha256,
  );
  if (known) return known.id;
  db.run(
    `INSERT INTO attachments (id, conversation_id, sha256, media_type, size, bytes, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?)`,
    row.id,
    row.conversation_id,
    row.sha256,
    row.media_type,
    row.size,
    Buffer.from(row.data, "base64"),
    row.created_at,
  );
  return row.id;
}

function dropOrphans(db: Connection, conversation_id: string): void {
  db.run(
    "DELETE FROM attachments WHERE conversation_id = ? AND NOT EXISTS (SELECT 1 FROM conversations WHERE id = ?)",
    conversation_id,
    conversation_id,
  );
}

function dropLost(db: Connection): void {
  db.run("DELETE FROM attachments WHERE conversation_id NOT IN (SELECT id FROM conversations)");
}

export const attachmentWrites = {
  "attachments.dropLost": (db: Connection) => dropLost(db),
  "attachments.put": put,
  "attachments.dropOrphans": (db: Connection, conversation_id: string) => dropOrphans(db, conversation_id),
};

export const sqliteAttachments = ({ reader, writer }: Storage): AttachmentStore => ({
  put: (attachment) => writer.submit("attachments.put", attachment),
  get: async (id) => reader.get("SELECT * FROM attachments WHERE id = ?", id),
  agentOf: async (id) =>
    reader.get<{ agent_id: string }>(
      "SELECT c.agent_id FROM attachments a JOIN conversations c ON c.id = a.conversation_id WHERE a.id = ?",
      id,
    )?.agent_id,
  dropLost: () => writer.submit("attachments.dropLost", undefined),
  dropOrphans: (conversation_id) => writer.submit("attachments.dropOrphans", conversation_id),
});
