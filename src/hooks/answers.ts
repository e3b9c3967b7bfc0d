import Type from "typebox";
import { answers } from "../lib/schema.ts";

const text = Type.String();
const any = Type.Unknown();
const at = Type.String({ format: "date-time" });
const atOrNull = Type.Union([at, Type.Null()]);

const token = {
  id: text,
  target_type: Type.Enum(["agents", "workflows"]),
  target_id: text,
  name: text,
  last_four: text,
  status: Type.Enum(["active", "expired", "revoked"]),
  created_at: at,
  expires_at: atOrNull,
  revoked_at: atOrNull,
  last_used_at: atOrNull,
};
export const HookTokenList = answers(Type.Array(Type.Object(token)));
export const NewHookTokenAnswer = answers(
  Type.Object({
    ...token,
    token: text,
    url: Type.String({ description: "The webhook's address with the token in it." }),
  }),
);

/** Interface 4.4: the work is on record. */
export const Accepted = Type.Object({
  success: Type.Literal(true),
  message: text,
  execution_id: text,
  status: text,
  estimated_completion: at,
});

/** How it stands, also as the answer to a webhook that waited for it. */
export const Result = Type.Object({
  success: Type.Boolean(),
  execution_id: text,
  status: text,
  agent_id: Type.Optional(text),
  conversation_id: Type.Optional(text),
  reply: Type.Optional(Type.Union([text, Type.Null()], { description: "An agent's." })),
  workflow_id: Type.Optional(text),
  output_data: Type.Optional(Type.Unknown({ description: "A workflow's." })),
  error: any,
  created_at: at,
  started_at: Type.Optional(atOrNull),
  completed_at: atOrNull,
});
