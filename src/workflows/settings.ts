import type { Caller } from "../keys/schema.ts";
import { type Fault, forbidden, invalid, invalidField, notFound } from "../lib/errors.ts";
import { references, TemplateError } from "../lib/template.ts";
import { NO_SETTINGS } from "./defaults.ts";
import type { Program, UpdateSettings, WorkflowSettings } from "./schema.ts";
import type { WorkflowRow, WorkflowStore, WorkflowTarget } from "./store.ts";

/** What is set beside the workflow object: concurrency, run time, failure workflow, retention. */
export function settingsOf({
  store,
  inScope,
  programOf,
}: {
  store: WorkflowStore;
  inScope(caller: Caller, id: string): Promise<WorkflowRow>;
  programOf(row: WorkflowRow): Promise<Program>;
}) {
  return {
    /** By the same read that firing a workflow takes; undefined when there is no such workflow. */
    settings: async (id: string): Promise<WorkflowSettings | undefined> => (await store.target(id))?.settings,

    readSettings: async (caller: Caller, id: string): Promise<WorkflowSettings> =>
      (await inScope(caller, id)).settings ?? NO_SETTINGS,

    /** Shallow: what is sent replaces what was set, null clears. Throws as any reference to another record. */
    async updateSettings(caller: Caller, id: string, body: UpdateSettings): Promise<WorkflowSettings> {
      const row = await inScope(caller, id);
      const patch = checkedSettings(body, await programOf(row));
      if (typeof body.failure_workflow_id === "string") {
        await checkFailureWorkflow(caller, id, body.failure_workflow_id, store.target);
      }
      const updated = await store.set(id, patch);
      if (!updated) throw notFound("workflow", id);
      return updated;
    },
  };
}

/** With what was left out inside of them; against the program that they are to go with. */
export function checkedSettings(body: UpdateSettings, program: Program, at = ""): Partial<WorkflowSettings> {
  const { concurrency, retention, ...plain } = body;
  const faults = typeof concurrency?.key === "string" ? keyFaults(concurrency.key, program, at) : [];
  if (faults.length > 0) throw invalid(faults);
  return {
    ...plain,
    ...(concurrency === undefined ? {} : { concurrency: concurrency && { key: null, ...concurrency } }),
    ...(retention === undefined
      ? {}
      : { retention: retention && { days: null, max_executions: null, ...retention } }),
  };
}

async function checkFailureWorkflow(
  caller: Caller,
  id: string,
  named: string,
  target: (id: string) => Promise<WorkflowTarget | undefined>,
): Promise<void> {
  const field = "failure_workflow_id";
  if (named === id) throw invalidField(field, "another workflow", "the workflow itself");
  const found = await target(named);
  if (!found) throw notFound("workflow", named);
  if (found.project_id !== caller.project_id) throw forbidden("This key cannot reach that workflow.");
}

/** The key of concurrency is made before there is any step: it can name inputs alone. */
function keyFaults(key: string, { input_schema }: Program, at: string): Fault[] {
  const field = `${at}concurrency.key`;
  const inputs = Object.keys(input_schema.properties);
  try {
    const strange = references(key)
      .flatMap(([root]) => (root === undefined ? [] : [root]))
      .find((root) => root !== "inputs" && inputs.length > 0 && !inputs.includes(root));
    return strange === undefined
      ? []
      : [{ field, expected: "a reference to an input", received: `{{ ${strange.slice(0, 100)} }}` }];
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    return [{ field, expected: "a template that can be read", received: error.message.slice(0, 200) }];
  }
}
