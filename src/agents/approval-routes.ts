import { Elysia } from "elysia";
import { policies } from "../http/policy.ts";
import { ApprovalRecord } from "./conversation-record-schema.ts";
import { AnswerApproval } from "./schema.ts";
import type { Turns } from "./turns.ts";

/** A yes or no to a call that waits for it (design 5); those that wait are listed with their conversation. */
export const approvalRoutes = ({ turns }: { turns: Turns }) =>
  new Elysia({ name: "agents.approval-routes", prefix: "/agents" }).use(policies).post(
    "/:id/conversations/:conversation_id/approvals/:approval_id",
    ({ caller, params, body }) =>
      turns.answerApproval(
        caller,
        {
          agent_id: params.id,
          conversation_id: params.conversation_id,
          approval_id: params.approval_id,
        },
        body,
      ),
    {
      policy: "key",
      body: AnswerApproval,
      response: ApprovalRecord,
      detail: { summary: "Approve or deny a tool call that waits; the answer goes on", tags: ["agents"] },
    },
  );
