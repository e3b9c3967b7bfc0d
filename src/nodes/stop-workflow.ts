import Type from "typebox";
import { defineFlow } from "./node.ts";

export const stopWorkflow = defineFlow({
  name: "stop_workflow",
  title: "Stop workflow",
  description: "Ends the run here, from wherever it is, as a success or as a failure.",
  effect: "none",
  input: Type.Object(
    {
      status: Type.Optional(
        Type.Enum(["success", "failed"], { description: "How it ends; success unless given." }),
      ),
      message: Type.Optional(
        Type.String({ maxLength: 10_000, description: "Why it failed: the message of the run's error." }),
      ),
      output: Type.Optional(
        Type.Unknown({ description: "The run's output in place of its output_mapping; null unless given." }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Unknown({ description: "The output it was given." }),
  flow: { quick: true, fixed: [], lists: () => [] },
});
