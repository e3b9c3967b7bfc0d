import Type, { type Static } from "typebox";
import { feedQuery } from "../lib/feed-query.ts";
import { json, query } from "../lib/schema.ts";
import { Node } from "../workflows/schema.ts";

/** Starts a run: `input_data` by the workflow's input_schema; `response_type` says what to answer with. */
export const StartExecution = json(
  Type.Object(
    {
      input_data: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
      metadata: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
      trigger_source: Type.Optional(Type.String({ maxLength: 200 })),
      response_type: Type.Optional(
        Type.Enum(["queue", "result", "stream"], {
          description:
            "queue: 202 at once. result: waits for the end, at most timeout_seconds, then 202. stream: its steps as they end, as server-sent events.",
        }),
      ),
      timeout_seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: 300 })),
      version: Type.Optional(
        Type.Union([Type.Integer({ minimum: 1 }), Type.Literal("draft")], {
          description: "What to run; left out: the published version, or the draft where none is published.",
        }),
      ),
    },
    { additionalProperties: false },
  ),
);
export type StartExecution = Static<typeof StartExecution.schema>;

/** `from_node`: a node of the workflow's own list; without it, the one that failed. */
export const RetryExecution = json(
  Type.Object(
    {
      from_node: Type.Optional(
        Type.String({ minLength: 1, maxLength: 100, description: "Go on from here; else from what failed." }),
      ),
    },
    { additionalProperties: false },
  ),
);

export const ReplayExecution = json(
  Type.Object(
    {
      input_data: Type.Optional(
        Type.Record(Type.String(), Type.Unknown(), { description: "In place of the input it had." }),
      ),
    },
    { additionalProperties: false },
  ),
);

export const TestStep = json(
  Type.Object(
    {
      node: Type.Union([Type.String({ minLength: 1, maxLength: 100 }), Node], {
        description: "A node, or the name of one of the workflow as it was last saved.",
      }),
      input_data: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
      outputs: Type.Optional(
        Type.Record(Type.String(), Type.Unknown(), {
          description:
            "What templates find besides: outputs of earlier nodes by their names, `vars`, `loop`.",
        }),
      ),
      callback_body: Type.Optional(
        Type.Unknown({ description: "What the call brings that a `wait` for a callback waits for." }),
      ),
    },
    { additionalProperties: false },
  ),
);
export type TestStep = Static<typeof TestStep.schema>;

export const STATES = ["queued", "running", "waiting", "success", "failed", "cancelled"] as const;

const listed = {
  ...feedQuery,
  status: Type.Optional(Type.Enum([...STATES])),
  trigger_source: Type.Optional(
    Type.String({
      maxLength: 200,
      description: "Who started it: api, webhook, agent, or what the caller said.",
    }),
  ),
};

export const ListWorkflowExecutions = query(Type.Object(listed));
export type ListWorkflowExecutions = Static<typeof ListWorkflowExecutions.schema>;

export const ListExecutions = query(
  Type.Object({
    ...listed,
    workspace_id: Type.Optional(Type.String({ description: "The calling key's workspace, where given." })),
    project_id: Type.Optional(Type.String({ description: "The calling key's project, where given." })),
    workflow_id: Type.Optional(Type.String({ description: "Of this workflow alone." })),
  }),
);
export type ListExecutions = Static<typeof ListExecutions.schema>;

/** What went wrong, in words; `node` is the step that failed, null where no step is to blame. */
export type ExecutionError = { code: string; message: string; node: string | null };
