import type { Caller } from "../keys/schema.ts";
import { checkScope } from "../keys/scope.ts";
import { forbidden, notFound } from "../lib/errors.ts";
import { windowOf } from "../lib/feed.ts";
import { isUuid } from "../lib/ids.ts";
import type { WorkflowTarget } from "../workflows/service.ts";
import { presentExecution } from "./present.ts";
import type { ListExecutions, ListWorkflowExecutions } from "./schema.ts";
import type { ExecutionListStore, Owner } from "./store.ts";

export type ExecutionLists = ReturnType<typeof createExecutionLists>;

/** What ran, newest first: of a workflow, or of the caller's whole project. */
export function createExecutionLists({
  store,
  target,
}: {
  store: ExecutionListStore;
  target(workflow_id: string): Promise<WorkflowTarget | undefined>;
}) {
  async function list(owner: Owner, { status, trigger_source, ...asked }: ListWorkflowExecutions) {
    const filter = { ...windowOf(asked), state: status, source: trigger_source };
    const whole = { ...filter, ...windowOf({ ...asked, cursor: undefined }) };
    const [found, total] = [await store.list(owner, filter), await store.count(owner, whole)];
    return { items: found.items.map(presentExecution), next: found.next, total };
  }

  async function ofWorkflow(caller: Caller, workflow_id: string, asked: ListWorkflowExecutions) {
    const found = isUuid(workflow_id) ? await target(workflow_id) : undefined;
    if (!found) throw notFound("workflow", workflow_id);
    if (found.project_id !== caller.project_id) throw forbidden("This key cannot reach that workflow.");
    return list({ project_id: caller.project_id, workflow_id }, asked);
  }

  return {
    ofWorkflow,

    /** Also of workflows that are deleted, as long as retention keeps their executions. */
    async ofProject(caller: Caller, { workspace_id, project_id, workflow_id, ...asked }: ListExecutions) {
      checkScope(caller, { workspace_id, project_id });
      return workflow_id === undefined
        ? list({ project_id: caller.project_id }, asked)
        : ofWorkflow(caller, workflow_id, asked);
    },
  };
}
