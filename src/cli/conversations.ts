import { CloseConversation, ListConversations } from "../agents/conversation-schema.ts";
import { AnswerApproval } from "../agents/schema.ts";
import { printable, printableLines } from "../lib/terminal.ts";
import { checked } from "./body.ts";
import { type Call, callersOf, reaching, text, withServices } from "./command.ts";
import { putJson, putList, putRecord } from "./output.ts";

export const listConversations = (call: Call) =>
  withServices(call, async (services) => {
    const { admin } = services.conversations;
    const { limit = "50", user: user_id, tag, status, waiting } = call.flags;
    const asked = checked(ListConversations, { limit, user_id, tag, status, waiting });
    const agent_id = text(call.flags, "agent");
    const lists =
      agent_id === undefined
        ? await Promise.all(
            (await callersOf(call, services)).map(({ project_id }) => admin.list({ project_id }, asked)),
          )
        : [await admin.list({ agent_id }, asked)];
    const items = lists
      .flat()
      .sort((a, b) => b.id.localeCompare(a.id))
      .slice(0, asked.limit);
    putList(
      call,
      items,
      [
        { title: "ID", value: (one) => one.id },
        { title: "AGENT", value: (one) => one.agent_id },
        { title: "USER", value: (one) => one.user_id },
        { title: "TITLE", value: (one) => one.title },
        { title: "STATUS", value: (one) => one.ended_as ?? one.status },
        { title: "TAGS", value: (one) => one.tags.join(", ") },
        { title: "MESSAGES", value: (one) => one.message_count },
        { title: "LAST SAID", value: (one) => one.updated_at },
      ],
      "no conversations on record",
    );
  });

export const showConversation = (call: Call) =>
  withServices(call, async ({ conversations }) => {
    const found = await conversations.admin.get(call.args[0]!);
    if (call.flags["json"]) return putJson(call.output, found);
    const { messages, pending_approvals, ...record } = found;
    putRecord(call, { ...record, pending_approvals: pending_approvals.length });
    for (const { role, content, status, created_at } of messages) {
      const mark = status === "complete" ? "" : ` (${status})`;
      call.output.data(`\n${created_at} ${role}${mark}\n${printableLines(content)}\n`);
    }
    for (const { approval_id, tool_name, args } of pending_approvals) {
      const asked = `${tool_name}(${JSON.stringify(args)})`;
      call.output.data(`\nwaits for approval ${approval_id}: ${printable(asked)}\n`);
    }
  });

/** A yes or no to a call that waits in a conversation. */
const answer = (call: Call, approved: boolean) =>
  withServices(call, async (services) => {
    const { conversations, turns } = services;
    const [named = "", approval_id = ""] = call.args;
    const { id: conversation_id, agent_id } = await conversations.admin.get(named);
    const given = checked(AnswerApproval, { approved, reason: call.flags["reason"] });
    const answered = await reaching(call, services, (caller) =>
      turns.answerApproval(caller, { agent_id, conversation_id, approval_id }, given),
    );
    putRecord(call, answered);
  });
export const approveCall = (call: Call) => answer(call, true);
export const denyCall = (call: Call) => answer(call, false);

export const closeConversation = (call: Call) =>
  withServices(call, async ({ conversations }) => {
    const { score, type, category } = call.flags;
    const body = checked(CloseConversation, {
      ...(score === undefined ? {} : { satisfaction_score: Number(score) }),
      ...(type === undefined ? {} : { resolution: { type, ...(category ? { category } : {}) } }),
    });
    putRecord(call, await conversations.admin.close(call.args[0]!, body));
  });

export const deleteConversation = (call: Call) =>
  withServices(call, async ({ conversations }) => {
    await conversations.admin.remove(call.args[0]!);
    call.output.words(`deleted ${call.args[0]} with all that was said in it\n`);
  });
