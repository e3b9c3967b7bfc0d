import type { Caller } from "../keys/schema.ts";
import { type Clock, iso } from "../lib/clock.ts";
import { withoutSecrets } from "../lib/redact.ts";
import { NO_SETTINGS } from "./defaults.ts";
import type {
  CreateWorkflow,
  InWorkspace,
  Program,
  Workflow,
  WorkflowFile,
  WorkflowSettings,
} from "./schema.ts";
import { checkedSettings } from "./settings.ts";

/**
 * A workflow as one file and back. Ids mean nothing elsewhere, so none of its own goes along, nor the
 * failure workflow; credentials that stand in its nodes never do, and their paths are named instead.
 */
export function transferOf({
  clock,
  get,
  readSettings,
  create,
}: {
  clock: Clock;
  get(caller: Caller, id: string): Promise<Workflow>;
  readSettings(caller: Caller, id: string): Promise<WorkflowSettings>;
  create(
    caller: Caller,
    scope: InWorkspace,
    body: CreateWorkflow,
    settings: (program: Program) => WorkflowSettings | null,
  ): Promise<Workflow>;
}) {
  return {
    /** The draft. `name` is that of the file. */
    async exported(caller: Caller, id: string): Promise<{ name: string; content: WorkflowFile }> {
      const workflow = await get(caller, id);
      const { failure_workflow_id, ...settings } = await readSettings(caller, id);
      const { name, description, images, input_schema, public_clone, public_runnable } = workflow;
      const nodes = withoutSecrets(workflow.nodes, "nodes");
      const output_mapping = withoutSecrets(workflow.output_mapping, "output_mapping");
      return {
        name: `${fileName(name)}.workflow.json`,
        content: {
          format: "errand.workflow",
          format_version: 1,
          exported_at: iso(clock.now()),
          workflow: {
            name,
            description,
            images,
            input_schema,
            nodes: nodes.value,
            output_mapping: output_mapping.value,
            public_clone,
            public_runnable,
          },
          settings,
          removed: [...nodes.removed, ...output_mapping.removed],
        },
      };
    },

    /** Always a new workflow. */
    imported: (caller: Caller, scope: InWorkspace, { workflow, settings }: WorkflowFile): Promise<Workflow> =>
      create(caller, scope, workflow, (program) =>
        settings ? { ...NO_SETTINGS, ...checkedSettings(settings, program, "settings.") } : null,
      ),
  };
}

const fileName = (name: string): string =>
  name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "")
    .slice(0, 60) || "workflow";
