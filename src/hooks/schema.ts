import Type, { type Static } from "typebox";
import { json, query } from "../lib/schema.ts";

const freeForm = (description: string) =>
  Type.Optional(Type.Record(Type.String(), Type.Unknown(), { description }));

// Both bodies stay open: senders put fields of their own beside ours (interface 4.4 does not close them).

/** Interface 4.4: what the webhook of an agent takes. */
export const AgentHookBody = json(
  Type.Object({
    message: Type.String({ minLength: 1, description: "What the agent is told." }),
    user_id: Type.Optional(
      Type.String({ maxLength: 255, description: "Who says it, in the sender's own terms." }),
    ),
    metadata: freeForm("Kept with the conversation."),
    context: freeForm("Facts for this turn; `conversation_id` continues a conversation."),
  }),
);
export type AgentHookBody = Static<typeof AgentHookBody.schema>;

/** Interface 4.4: what the webhook of a workflow takes. */
export const WorkflowHookBody = json(
  Type.Object({
    input_data: freeForm("By the workflow's input_schema."),
    trigger_source: Type.Optional(
      Type.String({ maxLength: 200, description: "What the sender calls itself." }),
    ),
    metadata: freeForm("Kept with the execution."),
  }),
);
export type WorkflowHookBody = Static<typeof WorkflowHookBody.schema>;

export const CreateHookToken = json(
  Type.Object(
    {
      name: Type.Optional(
        Type.String({ minLength: 1, maxLength: 200, description: "Who the token is for." }),
      ),
      expires_at: Type.Optional(
        Type.Union([Type.String({ maxLength: 40 }), Type.Null()], {
          description: "When the token ends, ISO 8601; null or absent: never.",
        }),
      ),
    },
    { additionalProperties: false },
  ),
);
export type CreateHookToken = Static<typeof CreateHookToken.schema>;

export const ListHookTokens = query(
  Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 1000, default: 100 }),
    offset: Type.Integer({ minimum: 0, default: 0 }),
  }),
);
export type ListHookTokens = Static<typeof ListHookTokens.schema>;

export type HookTokenRecord = {
  id: string;
  target_type: "agents" | "workflows";
  target_id: string;
  name: string;
  last_four: string;
  status: "active" | "expired" | "revoked";
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  last_used_at: string | null;
};

/** The record with the token and an address that works: answered once, where it is made, and kept nowhere. */
export type NewHookToken = HookTokenRecord & { token: string; url: string };
