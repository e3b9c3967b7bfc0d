import Type from "typebox";
import { defineFlow } from "./node.ts";

export const callOtherWorkflow = defineFlow({
  name: "call_other_workflow",
  title: "Call another workflow",
  description: "Starts another workflow of the project and gives on what it answers.",
  effect: "idempotent",
  input: Type.Object(
    {
      workflow_id: Type.String({ minLength: 1, maxLength: 100, description: "The workflow to start." }),
      workflow_input: Type.Optional(
        Type.Record(Type.String(), Type.Unknown(), { description: "Its input, by its input_schema." }),
      ),
      wait: Type.Optional(
        Type.Boolean({
          description:
            "true: goes on when it has ended, and fails when it failed (the default). false: goes on at once.",
        }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    execution_id: Type.String({ description: "The execution that was started." }),
    status: Type.String({ description: "success, or queued when it was not waited for." }),
    workflow_output: Type.Unknown({ description: "Its output; null when it was not waited for." }),
  }),
  flow: { quick: false, fixed: [], lists: () => [] },
});
