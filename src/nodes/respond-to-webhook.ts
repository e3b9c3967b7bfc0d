import Type from "typebox";
import { defineFlow } from "./node.ts";

export const respondToWebhook = defineFlow({
  name: "respond_to_webhook",
  title: "Respond to webhook",
  description: "Says what whoever started the run and waits for it is answered; the run goes on.",
  effect: "none",
  input: Type.Object(
    {
      status: Type.Optional(
        Type.Integer({ minimum: 200, maximum: 599, description: "HTTP status; 200 unless given." }),
      ),
      headers: Type.Optional(
        Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Boolean()]), {
          description: "Response headers.",
        }),
      ),
      body: Type.Optional(Type.Unknown({ description: "Text is sent as it is, anything else as JSON." })),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    sent: Type.Boolean({ description: "false when an earlier step had answered already." }),
  }),
  flow: { quick: true, fixed: [], lists: () => [] },
});
