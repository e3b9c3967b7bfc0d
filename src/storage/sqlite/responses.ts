import type { ResponseRow, ResponseStore } from "../../door/response-store.ts";
import type { Connection } from "./connection.ts";
import type { Storage } from "./storage.ts";

function put(db: Connection, row: ResponseRow): void {
  db.run(
    "INSERT INTO responses (id, project_id, previous_id, input, response, created_at) VALUES (?, ?, ?, ?, ?, ?)",
    row.id,
    row.project_id,
    row.previous_id,
    row.input,
    JSON.stringify(row.response),
    row.created_at,
  );
}

const forget = (db: Connection, { before, limit }: { before: number; limit: number }): number =>
  db.run(
    "DELETE FROM responses WHERE id IN (SELECT id FROM responses WHERE created_at < ? ORDER BY created_at LIMIT ?)",
    before,
    limit,
  );

export const responseWrites = {
  "responses.put": put,
  "responses.remove": (db: Connection, id: string): boolean =>
    db.run("DELETE FROM responses WHERE id = ?", id) === 1,
  "responses.forget": forget,
};

export const sqliteResponses = ({ reader, writer }: Storage): ResponseStore => ({
  put: (row) => writer.submit("responses.put", row),
  async get(id) {
    const row = reader.get<Omit<ResponseRow, "response"> & { response: string }>(
      "SELECT * FROM responses WHERE id = ?",
      id,
    );
    return row && { ...row, response: JSON.parse(row.response) };
  },
  remove: (id) => writer.submit("responses.remove", id),
  forget: (before, limit) => writer.submit("responses.forget", { before, limit }, "lazy"),
});
