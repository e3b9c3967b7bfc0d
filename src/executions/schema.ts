import Type, { type Static } from "typebox";
import { json, query } from "../lib/schema.ts";

/** Starts a run: `input_data` by the workflow's input_schema; `response_type` says what to answer with. */
export const StartExecution = json(
  Type.Object(
    {
      input_data: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
      metadata: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
      trigger_source: Type.Optional(Type.String({ maxLength: 200 })),
      response_type: Type.Optional(
        Type.Enum(["queue", "result"], {
          description: "queue: 202 at once. result: waits for the end, at most timeout_seconds, then 202.",
        }),
      ),
      timeout_seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: 300 })),
    },
    { additionalProperties: false },
  ),
);
export type StartExecution = Static<typeof StartExecution.schema>;

export const STATES = ["queued", "running", "waiting", "success", "failed", "cancelled"] as const;

export const ListExecutions = query(
  Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 1000, default: 100 }),
    offset: Type.Integer({ minimum: 0, default: 0 }),
    state: Type.Optional(Type.Enum([...STATES])),
  }),
);

/** What went wrong, in words; `node` is the step that failed, null where no step is to blame. */
export type ExecutionError = { code: string; message: string; node: string | null };
