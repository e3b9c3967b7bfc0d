import { forbidden } from "../lib/errors.ts";
import type { Caller } from "./schema.ts";

/**
 * Interface 5.1: what a request names must be the key's own. Ask before any look-up, so that the answer
 * tells nothing of what exists elsewhere.
 */
export function checkScope(caller: Caller, named: { workspace_id?: string; project_id?: string }): void {
  const foreign =
    (named.workspace_id !== undefined && named.workspace_id !== caller.workspace_id) ||
    (named.project_id !== undefined && named.project_id !== caller.project_id);
  if (foreign) throw forbidden("This key cannot reach that workspace or project.");
}
