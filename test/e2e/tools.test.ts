import { afterAll, expect, test } from "bun:test";
import { createKey, discard, scratch, startErrand } from "../../scripts/lib/errand.ts";
import { readDataStream } from "../http/read-data-stream.ts";
import { eventually } from "./setup.ts";

const data = scratch();
afterAll(() => discard(data));

type Conversation = {
  pending_approvals: { approval_id: string }[];
  messages: { status: string; content: string }[];
};

test("an agent calls a workflow, asks for approval of another, and a crash in between loses neither", async () => {
  const key = await createKey(data);
  const start = () => startErrand({ data, key, args: ["--log-level", "warn"] });
  let errand = await start();
  const workspace = `workspace_id=${key.workspace_id}`;
  const aWorkflow = async (name: string, said: string) => {
    const { body } = await errand.api<{ id: string }>("POST", `/api/workflows?${workspace}`, {
      name,
      input_schema: {
        title: "t",
        description: "d",
        required: [],
        properties: { order: { type: "integer" } },
      },
      nodes: [
        {
          name: "say",
          title: "t",
          description: "d",
          node_type_name: "set_variables",
          input_config: { variables: { said } },
        },
      ],
    });
    return body.id;
  };
  const tools = [
    { workflow_id: await aWorkflow("Status", "order {{ order }} is sent") },
    { workflow_id: await aWorkflow("Refund", "paid"), run_behavior: "request_confirmation" },
  ];
  const made = await errand.api<{ id: string }>("POST", `/api/agents?${workspace}`, { name: "Shop", tools });
  const agent = `/api/agents/${made.body.id}`;
  const say = async (content: string) => {
    const response = await fetch(`${errand.url}${agent}/stream`, {
      method: "POST",
      headers: { authorization: `Bearer ${key.key}`, "content-type": "application/json" },
      body: JSON.stringify({ id: "chat-1", messages: [{ role: "user", content }] }),
    });
    return readDataStream(await response.text());
  };

  const told = await say('/status {"order":7}');
  expect(told.find(({ type }) => type === "tool_result")).toMatchObject({
    result: { said: "order 7 is sent" },
  });
  expect(told.at(-1)).toMatchObject({ type: "finish", reason: "stop" });

  expect((await say("/refund {}")).at(-1)).toMatchObject({ reason: "tool-calls" });
  await errand.kill();
  errand = await start();
  const conversation = async () =>
    (await errand.api<Conversation>("GET", `${agent}/conversations/chat-1`)).body;
  const { pending_approvals } = await conversation();
  const { approval_id } = pending_approvals[0]!;
  const answered = await errand.api("POST", `${agent}/conversations/chat-1/approvals/${approval_id}`, {
    approved: true,
  });
  expect(answered.status).toBe(200);
  const { messages } = await eventually(
    conversation,
    (found) => found.messages.at(-1)?.status === "complete",
  );
  expect(messages.at(-1)?.content).toBe('refund answered: {"said":"paid"}');
  await errand.stop();
});
