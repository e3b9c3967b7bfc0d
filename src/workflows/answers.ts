import Type from "typebox";
import { answers } from "../lib/schema.ts";
import { Node, WorkflowFile } from "./schema.ts";

// The shapes of workflows, as the API answers and describes them.

const text = Type.String();
const count = Type.Integer();
const orNull = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const at = Type.String({ format: "date-time" });
const JsonSchema = Type.Object({}, { additionalProperties: true });
const object = Type.Record(text, Type.Unknown());

const program = {
  input_schema: Type.Object(
    {
      title: text,
      description: text,
      required: Type.Array(text),
      properties: Type.Record(text, object),
    },
    { additionalProperties: true },
  ),
  nodes: Type.Array(Node),
  output_mapping: object,
};

/** Interface 2.1. */
const Workflow = Type.Object({
  id: text,
  workspace_id: text,
  user_id: text,
  dataset_id: orNull(text),
  name: text,
  description: text,
  images: Type.Array(text),
  ...program,
  public_clone: Type.Boolean(),
  public_runnable: Type.Boolean(),
  num_likes: Type.Number(),
  num_runs: Type.Number(),
  num_views: Type.Number(),
  created_at: at,
  updated_at: orNull(at),
});
export const WorkflowRecord = answers(Workflow);
export const WorkflowList = answers(Type.Array(Workflow));
export const WorkflowFileAnswer = answers(WorkflowFile.schema);

export const Validity = answers(
  Type.Object({
    valid: Type.Boolean(),
    faults: Type.Array(Type.Object({ field: text, expected: text, received: text })),
  }),
);

const version = {
  workflow_id: text,
  version: count,
  description: text,
  is_published: Type.Boolean({ description: "This is what runs." }),
  is_draft: Type.Boolean({ description: "The draft is the same as this." }),
  created_by: text,
  created_at: at,
};
export const VersionRecord = answers(Type.Object(version));
export const VersionList = answers(Type.Array(Type.Object(version)));
export const WholeVersion = answers(Type.Object({ ...version, ...program }));
export const Published = answers(Type.Object({ published: orNull(Type.Object(version)) }));

export const SettingsRecord = answers(
  Type.Object({
    concurrency: orNull(Type.Object({ limit: count, key: orNull(text) })),
    run_timeout_seconds: orNull(Type.Number()),
    failure_workflow_id: orNull(text),
    retention: orNull(Type.Object({ days: orNull(count), max_executions: orNull(count) })),
  }),
);

export const NodeTypeList = answers(
  Type.Array(
    Type.Object({
      name: text,
      title: text,
      description: text,
      effect: Type.Enum(["none", "idempotent", "external"]),
      retries: orNull(
        Type.Object({
          max_attempts: count,
          delay_seconds: Type.Number(),
          backoff_multiplier: Type.Number(),
        }),
      ),
      connections: Type.Array(text, { description: "Types of connections that it can use." }),
      input_schema: JsonSchema,
      output_schema: JsonSchema,
    }),
  ),
);
