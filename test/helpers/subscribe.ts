import { newId } from "../../src/lib/ids.ts";
import type { Storage } from "../../src/storage/sqlite/storage.ts";

/** A subscription of project "p" to these kinds, without the service that makes them. */
export function subscribe({ reader }: Pick<Storage, "reader">, ...kinds: string[]): void {
  reader.run(
    `INSERT INTO subscriptions (id, workspace_id, project_id, name, url, events, status, secret, created_at)
     VALUES (?, 'w', 'p', 's', 'http://localhost/', ?, 'active', '', 0)`,
    newId(),
    JSON.stringify(kinds),
  );
}
