import type { CreateWorkflow, InputSchema, Node, Program, WorkflowSettings } from "./schema.ts";

// The defaults of interface 2.1, 2.1.1 and 2.1.2.

export const DEFAULT_NAME = "Untitled workflow";
export const DEFAULT_DESCRIPTION = "Untitled workflow description";

/** Of the fields that a request may write. */
export const DEFAULTS = {
  name: DEFAULT_NAME,
  description: DEFAULT_DESCRIPTION,
  images: [],
  input_schema: {},
  nodes: [],
  output_mapping: {},
  public_clone: false,
  public_runnable: false,
};

/** Of what is set beside the workflow object. */
export const NO_SETTINGS: WorkflowSettings = {
  concurrency: null,
  run_timeout_seconds: null,
  failure_workflow_id: null,
  retention: null,
};

/** The program of a request with every default written out, so that what is stored is what runs. */
export const completeProgram = (
  given: Pick<CreateWorkflow, "input_schema" | "nodes" | "output_mapping">,
): Program => ({
  input_schema: completeSchema(given.input_schema ?? {}),
  nodes: (given.nodes ?? []).map(completeNode),
  output_mapping: given.output_mapping ?? {},
});

function completeSchema(given: Record<string, unknown>): InputSchema {
  const properties = (given["properties"] ?? {}) as Record<string, Record<string, unknown>>;
  return {
    title: "Untitled",
    description: "",
    required: [],
    ...given,
    properties: Object.fromEntries(
      Object.entries(properties).map(([name, property]) => [
        name,
        {
          title: name,
          description: "",
          ...property,
          ui_metadata: { order: 0, ...(property["ui_metadata"] as object | undefined) },
        },
      ]),
    ),
  };
}

const completeNode = (node: Node): Node => ({
  ...node,
  title: node.title ?? null,
  description: node.description ?? "",
  output_mapping: node.output_mapping ?? null,
  connection: node.connection ?? null,
});
