import { Database } from "bun:sqlite";
import { join } from "node:path";

type Row = Record<string, unknown>;

// They tell that a credential was used, and by whom it was is what is asked here.
const VOLATILE = new Set(["last_used_at"]);
// What callers name themselves, so that it may be anything, a foreign id too.
const FREE = new Set(["client_id", "user_id"]);

/**
 * Every row of the database by the project that it belongs to: it says so, or it refers to a row that does.
 * Rows of no project are under "".
 */
export function rowsByProject(data: string, projects: string[]): Map<string, Set<string>> {
  const db = new Database(join(data, "errand.db"), { readonly: true });
  const tables = db
    .query<{ name: string }, []>(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
    )
    .all();
  const rows = tables.flatMap(({ name }) =>
    db
      .query<Row, []>(`SELECT * FROM "${name}"`)
      .all()
      .map((row) => ({ name, row })),
  );
  db.close();
  const ownerOf = new Map(projects.map((id) => [id, id]));
  const owner = (row: Row): string | undefined => {
    if (typeof row["project_id"] === "string") return ownerOf.get(row["project_id"]);
    for (const [column, value] of Object.entries(row)) {
      const found = typeof value === "string" && !FREE.has(column) ? ownerOf.get(value) : undefined;
      if (found !== undefined) return found;
    }
    return undefined;
  };
  // What refers to what refers to a project: a few rounds reach everything.
  for (let before = -1; before !== ownerOf.size; ) {
    before = ownerOf.size;
    for (const { row } of rows) {
      const { id } = row;
      if (typeof id !== "string" || ownerOf.has(id)) continue;
      const found = owner(row);
      if (found !== undefined) ownerOf.set(id, found);
    }
  }
  const found = new Map(["", ...projects].map((id) => [id, new Set<string>()]));
  for (const { name, row } of rows) {
    const kept = Object.entries(row).filter(([column]) => !VOLATILE.has(column));
    found.get(owner(row) ?? "")!.add(`${name} ${JSON.stringify(Object.fromEntries(kept))}`);
  }
  return found;
}

/** What one has and the other has not. */
export const difference = (before: Set<string>, after: Set<string>): string[] => [
  ...[...before].filter((row) => !after.has(row)).map((row) => `- ${row}`),
  ...[...after].filter((row) => !before.has(row)).map((row) => `+ ${row}`),
];
