import Type from "typebox";
import { answers } from "../lib/schema.ts";
import { Resolution } from "./conversation-schema.ts";
import { orNull } from "./schema.ts";

const text = Type.String();
const textOrNull = orNull(text);
const at = Type.String({ format: "date-time" });
const atOrNull = orNull(at);
const any = Type.Unknown();
const object = Type.Record(text, any);

const Approval = Type.Object({
  approval_id: text,
  execution_id: text,
  conversation_id: text,
  tool_call_id: text,
  tool_name: text,
  args: any,
  status: Type.Enum(["pending", "approved", "denied"]),
  reason: textOrNull,
  created_at: at,
  answered_at: atOrNull,
});
export const ApprovalRecord = answers(Approval);

const Part = Type.Union([
  Type.Object({ type: Type.Enum(["text", "reasoning"]), text }),
  Type.Object({
    type: Type.Literal("tool_call"),
    id: text,
    name: text,
    args: any,
    provider_data: Type.Optional(any),
  }),
  Type.Object({
    type: Type.Literal("tool_result"),
    id: text,
    name: text,
    result: any,
    is_error: Type.Optional(Type.Literal(true)),
  }),
  Type.Object({
    type: Type.Literal("image"),
    attachment_id: text,
    media_type: text,
    size: Type.Integer({ description: "Bytes." }),
    name: textOrNull,
  }),
  Type.Object({ type: Type.Literal("context"), facts: object }),
]);

const message = {
  id: text,
  role: Type.Enum(["user", "assistant"]),
  content: Type.String({ description: "The words of its parts." }),
  parts: Type.Array(Part),
  status: Type.Enum(["complete", "failed", "interrupted", "stopped", "waiting"]),
  usage: orNull(Type.Object({ prompt_tokens: Type.Integer(), completion_tokens: Type.Integer() })),
  feedback: orNull(Type.Object({ rating: Type.Enum(["up", "down"]), comment: textOrNull, given_at: at })),
  variants: Type.Array(text, { description: "All messages that stand in its place, itself among them." }),
  execution_id: text,
  created_at: at,
};
export const MessageRecord = answers(Type.Object(message));
export const VariantList = answers(Type.Array(Type.Object({ ...message, chosen: Type.Boolean() })));

const conversation = {
  id: text,
  agent_id: text,
  client_id: Type.String({ description: "The id that the client threads by." }),
  user_id: textOrNull,
  is_anonymous: Type.Boolean(),
  title: textOrNull,
  tags: Type.Array(text),
  status: Type.Enum(["active", "completed"]),
  ended_as: orNull(Type.Enum(["resolved", "idle"])),
  resolution: orNull(Resolution),
  satisfaction_score: orNull(Type.Number()),
  metadata: object,
  message_count: Type.Integer(),
  started_at: at,
  updated_at: at,
  completed_at: atOrNull,
  suggested_replies: Type.Array(text),
};
export const ConversationRecord = answers(Type.Object(conversation));
export const ConversationList = answers(Type.Array(Type.Object(conversation)));
export const WholeConversation = answers(
  Type.Object({
    ...conversation,
    pending_approvals: Type.Array(Approval),
    messages: Type.Array(
      Type.Object({
        ...message,
        error: orNull(
          Type.Object(
            { code: text, message: text },
            { description: "Why it has no whole answer, or is none." },
          ),
        ),
      }),
    ),
  }),
);
