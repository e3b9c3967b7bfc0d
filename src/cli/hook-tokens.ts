import { type Call, text, withServices } from "./command.ts";
import { usageError } from "./exit.ts";
import { putList, putRecord } from "./output.ts";

type Target = { type: "agents" | "workflows"; id: string };

/** `agents/ID` or `workflows/ID`, as in the address of the webhook. */
function targetOf(given: string): Target {
  const [type, id, ...rest] = given.split("/");
  if ((type === "agents" || type === "workflows") && id && rest.length === 0) return { type, id };
  throw usageError(`${given} names no target`, "write agents/ID or workflows/ID");
}

export const createHookToken = (call: Call) =>
  withServices(call, async ({ hookTokens }) => {
    const { type, id } = targetOf(call.args[0]!);
    const request = { name: text(call.flags, "name"), expires_at: text(call.flags, "expires") };
    putRecord(call, await hookTokens.admin.create(type, id, request));
    call.output.words("This is the only time the token is shown.\n");
  });

export const listHookTokens = (call: Call) =>
  withServices(call, async ({ hookTokens }) => {
    const { type, id } = targetOf(call.args[0]!);
    putList(
      call,
      await hookTokens.admin.list(type, id),
      [
        { title: "ID", value: (token) => token.id },
        { title: "NAME", value: (token) => token.name },
        { title: "TOKEN", value: (token) => `…${token.last_four}` },
        { title: "STATUS", value: (token) => token.status },
        { title: "CREATED", value: (token) => token.created_at },
        { title: "EXPIRES", value: (token) => token.expires_at },
        { title: "LAST USED", value: (token) => token.last_used_at },
      ],
      "no tokens yet; make one: errand webhooks tokens create TARGET",
    );
  });

export const revokeHookToken = (call: Call) =>
  withServices(call, async ({ hookTokens }) => {
    await hookTokens.admin.revoke(call.args[0]!);
    call.output.words(`revoked ${call.args[0]}; it opens nothing any more\n`);
  });
