import Type from "typebox";
import { answers } from "../lib/schema.ts";
import { STATES } from "./schema.ts";

// The shapes of runs, as the API answers and describes them.

const text = Type.String();
const count = Type.Integer();
const any = Type.Unknown();
const orNull = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const at = Type.String({ format: "date-time" });

const StepState = Type.Enum(["started", "retrying", "waiting", "success", "failed", "skipped", "cancelled"]);

const Step = Type.Object({
  name: text,
  node_type_name: text,
  position: Type.String({
    description: "Where it stands in the workflow: 0.1.2 for a node inside of others.",
  }),
  status: StepState,
  attempts: count,
  input: any,
  output: any,
  error: any,
  started_at: at,
  completed_at: orNull(at),
});

const execution = {
  id: text,
  workflow_id: text,
  status: Type.Enum([...STATES]),
  trigger_source: text,
  metadata: any,
  input_data: any,
  output_data: any,
  error: any,
  created_at: at,
  started_at: orNull(at),
  completed_at: orNull(at),
  duration_seconds: orNull(Type.Number()),
  credits_used: Type.Number(),
  steps_completed: count,
  response: Type.Unknown({ description: "What respond_to_webhook answered, once it has." }),
  parent_execution_id: orNull(text),
  origin_execution_id: orNull(text),
};

export const ExecutionList = answers(Type.Array(Type.Object(execution)));
export const ExecutionRecord = answers(Type.Object({ ...execution, steps: Type.Array(Step) }));

export const Queued = Type.Object({
  execution_id: text,
  status: Type.Literal("queued"),
  estimated_completion: at,
});
export const QueuedAgain = Type.Object({
  execution_id: text,
  status: Type.Literal("queued"),
  origin_execution_id: text,
});

export const TestStepAnswer = answers(
  Type.Object({
    status: StepState,
    input: any,
    output: any,
    error: any,
    duration_seconds: Type.Number(),
    tokens: count,
    external_calls: count,
    steps: Type.Array(Step),
  }),
);
