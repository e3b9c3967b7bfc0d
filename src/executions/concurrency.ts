import type { JsonObject } from "../lib/json.ts";
import { sha256Hex } from "../lib/secrets.ts";
import { renderDeep } from "../lib/template.ts";
import type { WorkflowSettings } from "../workflows/schema.ts";

/** Most runs of one workflow at once where it does not say. */
const USUAL_LIMIT = 256;

/**
 * What the runner counts runs by. A limit of the workflow's own stands in the key itself, so that the
 * runner need not ask anybody; a changed limit counts for the runs that start from then on. Waiting runs
 * are not counted: they hold nothing. Throws TemplateError where the concurrency key cannot be rendered.
 */
export function concurrencyKey(
  workflow_id: string,
  concurrency: WorkflowSettings["concurrency"],
  input: JsonObject,
): string {
  if (!concurrency) return workflow_id;
  const { limit, key } = concurrency;
  if (key === null) return `${workflow_id}/${limit}`;
  const value = JSON.stringify(renderDeep(key, { ...input, inputs: input }));
  return `${workflow_id}/${limit}/${sha256Hex(value).slice(0, 32)}`;
}

/** The limit that a key made by `concurrencyKey` holds. */
export const runsAtOnce = (key: string): number => Number(key.split("/")[1] ?? USUAL_LIMIT);
