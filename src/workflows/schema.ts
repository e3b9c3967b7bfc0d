import Type, { type Static, type TSchema } from "typebox";
import { changes, json, query } from "../lib/schema.ts";
import { DEFAULTS } from "./defaults.ts";

// Interface 2.1: the workflow and its nodes are closed, input_schema and its properties are open.

const MOST_NODES = 200;

export const Node = Type.Object(
  {
    node_type_name: Type.String({
      minLength: 1,
      maxLength: 100,
      description: "Which node type; see /node-types.",
    }),
    name: Type.String({ minLength: 1, maxLength: 100, description: "What later nodes call its output." }),
    input_config: Type.Record(Type.String(), Type.Unknown(), { description: "By the node type's schema." }),
    title: Type.Optional(Type.Union([Type.String({ maxLength: 200 }), Type.Null()])),
    description: Type.Optional(Type.String({ maxLength: 2_000 })),
    output_mapping: Type.Optional(
      Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()], {
        description: "What stands for the output in later nodes; `output` is the node's own.",
      }),
    ),
    connection: Type.Optional(
      Type.Union([Type.String({ maxLength: 200 }), Type.Null()], {
        description: "Name or id of the connection it uses, in place of `connection` in input_config.",
      }),
    ),
  },
  { additionalProperties: false },
);
export type Node = Static<typeof Node>;

const UiMetadata = Type.Object({
  order: Type.Optional(Type.Number()),
  type: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  value: Type.Optional(Type.Unknown()),
});

const Property = Type.Object({
  title: Type.Optional(Type.String({ maxLength: 200, description: "The input's name unless given." })),
  type: Type.Optional(Type.Unknown()),
  description: Type.Optional(Type.String({ maxLength: 2_000 })),
  items: Type.Optional(Type.Unknown()),
  ui_metadata: Type.Optional(UiMetadata),
});

const InputSchema = Type.Object({
  title: Type.Optional(Type.String({ maxLength: 200 })),
  description: Type.Optional(Type.String({ maxLength: 2_000 })),
  required: Type.Optional(Type.Array(Type.String(), { maxItems: 200 })),
  properties: Type.Optional(Type.Record(Type.String(), Property)),
});

const owned = {
  id: Type.Optional(Type.String()),
  workspace_id: Type.Optional(Type.String()),
  user_id: Type.Optional(Type.String()),
  num_likes: Type.Optional(Type.Number()),
  num_runs: Type.Optional(Type.Number()),
  num_views: Type.Optional(Type.Number()),
  created_at: Type.Optional(Type.String()),
  updated_at: Type.Optional(Type.Union([Type.String(), Type.Null()])),
};
export const OWNED = Object.keys(owned) as (keyof typeof owned)[];

const written = {
  dataset_id: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  name: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
  description: Type.Optional(Type.String({ maxLength: 10_000 })),
  images: Type.Optional(Type.Array(Type.String({ maxLength: 2_048 }), { maxItems: 20 })),
  input_schema: Type.Optional(InputSchema),
  nodes: Type.Optional(Type.Array(Node, { maxItems: MOST_NODES })),
  output_mapping: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  public_clone: Type.Optional(Type.Boolean()),
  public_runnable: Type.Optional(Type.Boolean()),
};

/** Whatever is left out has the default of interface 2.1. */
export const CreateWorkflow = json(Type.Object(written, { additionalProperties: false }));
export type CreateWorkflow = Static<typeof CreateWorkflow.schema>;

/** What is to be checked: anything, so that what is wrong with it is the answer and not a refusal. */
export const ValidateWorkflow = json(Type.Record(Type.String(), Type.Unknown()));
export type ValidateWorkflow = Static<typeof ValidateWorkflow.schema>;

/**
 * Any subset; null puts a field back to its default. Fields that the server owns may come back as they were
 * read, and only so.
 */
export const UpdateWorkflow = changes(
  Type.Object(
    { ...written, ...owned },
    { additionalProperties: false, description: "null puts a field back to its default." },
  ),
  DEFAULTS,
);
export type UpdateWorkflow = Static<typeof UpdateWorkflow.schema>;

export const InWorkspace = query(
  Type.Object({
    workspace_id: Type.String({ description: "The calling key's workspace." }),
    project_id: Type.Optional(Type.String({ description: "The calling key's project, where given." })),
  }),
);
export type InWorkspace = Static<typeof InWorkspace.schema>;

export const ListWorkflows = query(
  Type.Object({
    workspace_id: Type.String({ description: "The calling key's workspace." }),
    project_id: Type.Optional(Type.String({ description: "The calling key's project, where given." })),
    limit: Type.Integer({ minimum: 1, maximum: 1000, default: 100 }),
    offset: Type.Integer({ minimum: 0, default: 0 }),
    search_query: Type.Optional(
      Type.String({ maxLength: 100, description: "Part of the name or description." }),
    ),
  }),
);
export type ListWorkflows = Static<typeof ListWorkflows.schema>;

const NOTHING = Type.Null();
const optional = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, NOTHING]));

const portableSettings = {
  concurrency: optional(
    Type.Object(
      {
        limit: Type.Integer({ minimum: 1, maximum: 1_000, description: "Most runs at a time." }),
        key: optional(
          Type.String({
            minLength: 1,
            maxLength: 1_000,
            description: "A template over the input; the limit counts for each of its values apart.",
          }),
        ),
      },
      { additionalProperties: false },
    ),
  ),
  run_timeout_seconds: optional(
    Type.Number({
      exclusiveMinimum: 0,
      maximum: 2_592_000,
      description: "A run that takes longer fails.",
    }),
  ),
  retention: optional(
    Type.Object(
      {
        days: optional(
          Type.Integer({ minimum: 1, maximum: 36_500, description: "In place of retention_days." }),
        ),
        max_executions: optional(
          Type.Integer({ minimum: 1, maximum: 100_000_000, description: "Of ended runs, the newest." }),
        ),
      },
      { additionalProperties: false },
    ),
  ),
};

/**
 * What is set beside the workflow object, which is closed (design 3). Merged shallowly; null clears. Runs
 * take up a change at their next start.
 */
export const UpdateSettings = json(
  Type.Object(
    {
      ...portableSettings,
      failure_workflow_id: optional(
        Type.String({ description: "A workflow of the project that is started when a run fails." }),
      ),
    },
    { additionalProperties: false },
  ),
);
export type UpdateSettings = Static<typeof UpdateSettings.schema>;

/** The settings of a workflow; null where nothing is set. */
export type WorkflowSettings = {
  concurrency: { limit: number; key: string | null } | null;
  run_timeout_seconds: number | null;
  failure_workflow_id: string | null;
  retention: { days: number | null; max_executions: number | null } | null;
};

/** Keeps the draft as it is now as a version of its own. */
export const CreateVersion = json(
  Type.Object(
    { description: Type.Optional(Type.String({ maxLength: 2_000, description: "What is new in it." })) },
    { additionalProperties: false },
  ),
);
export type CreateVersion = Static<typeof CreateVersion.schema>;

/** What runs from now on. */
export const Publish = json(
  Type.Object(
    {
      version: optional(
        Type.Integer({
          minimum: 1,
          description:
            "An existing version; null: none, so that the draft runs. Left out: the draft, as a new version.",
        }),
      ),
      description: Type.Optional(Type.String({ maxLength: 2_000, description: "Of the new version." })),
    },
    { additionalProperties: false },
  ),
);
export type Publish = Static<typeof Publish.schema>;

/** A workflow in one file, without ids and credentials: from another project, another Errand, a repository. */
export const WorkflowFile = json(
  Type.Object(
    {
      format: Type.Literal("errand.workflow"),
      format_version: Type.Literal(1),
      exported_at: Type.Optional(Type.String({ maxLength: 40 })),
      workflow: CreateWorkflow.schema,
      settings: Type.Optional(Type.Object(portableSettings, { additionalProperties: false })),
      removed: Type.Optional(
        Type.Array(Type.String(), { description: "Where credentials stood; they are not in the file." }),
      ),
    },
    { additionalProperties: false },
  ),
);
export type WorkflowFile = Static<typeof WorkflowFile.schema>;

export const ListVersions = query(
  Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 1000, default: 100 }),
    offset: Type.Integer({ minimum: 0, default: 0 }),
  }),
);
export type ListVersions = Static<typeof ListVersions.schema>;

/** A version as the API lists it; read alone it carries the program as well. */
export type WorkflowVersion = {
  workflow_id: string;
  version: number;
  description: string;
  /** This is what runs. */
  is_published: boolean;
  /** The draft is the same as this. */
  is_draft: boolean;
  created_by: string;
  created_at: string;
};

export type InputSchema = {
  title: string;
  description: string;
  required: string[];
  properties: Record<string, Record<string, unknown>>;
  [key: string]: unknown;
};

/** What a run needs of a workflow; stored by content, so that an edit never changes a run under way. */
export type Program = {
  input_schema: InputSchema;
  nodes: Node[];
  output_mapping: Record<string, unknown>;
};

/** A workflow as the API shows it: interface 2.1, every field. */
export type Workflow = Program & {
  id: string;
  workspace_id: string;
  user_id: string;
  dataset_id: string | null;
  name: string;
  description: string;
  images: string[];
  public_clone: boolean;
  public_runnable: boolean;
  num_likes: number;
  num_runs: number;
  num_views: number;
  created_at: string;
  updated_at: string | null;
};
