import { describe, expect, test } from "bun:test";
import { readVerdicts } from "../../src/agents/sent-verdicts.ts";
import { readDataStream } from "../http/read-data-stream.ts";
import type { Call } from "../models/chat-server.ts";
import { CALLER, chat, world } from "./world.ts";

const invocation = (result: unknown, toolCallId = "a") => ({ state: "result", toolCallId, result });
const assistant = (message: object) => ({ role: "assistant", ...message });

describe("the yeses and noes of a last message are read", () => {
  test.each<[string, unknown, object[]]>([
    [
      "from tool parts of AI SDK 6",
      assistant({
        parts: [
          { type: "text", text: "Shall I?" },
          {
            type: "tool-pay",
            state: "approval-responded",
            approval: { id: "p", approved: false, reason: "dear" },
          },
          { type: "dynamic-tool", state: "approval-responded", approval: { id: "q", approved: true } },
          { type: "dynamic-tool", state: "output-available", approval: { id: "r", approved: true } },
        ],
      }),
      [
        { approval_id: "p", approved: false, reason: "dear" },
        { approval_id: "q", approved: true },
      ],
    ],
    [
      "from invocations of AI SDK 4, once",
      assistant({
        parts: [{ type: "tool-invocation", toolInvocation: invocation("Yes, go on") }],
        toolInvocations: [
          invocation("Yes, go on"),
          invocation("No", "b"),
          { state: "call", toolCallId: "c" },
        ],
      }),
      [
        { approval_id: "a", approved: true },
        { approval_id: "b", approved: false },
      ],
    ],
    [
      "as no wherever they are not a clear yes",
      assistant({ toolInvocations: [invocation("yesterday"), invocation(1, "b"), invocation({}, "c")] }),
      [
        { approval_id: "a", approved: false },
        { approval_id: "b", approved: false },
        { approval_id: "c", approved: false },
      ],
    ],
    ["not from the user's own words", { role: "user", parts: [], toolInvocations: [invocation(true)] }, []],
    ["not from what is none", assistant({ parts: [null, 5, { state: "approval-responded" }] }), []],
    ["not from nothing", null, []],
  ])("%s", (_what, message, verdicts) => {
    expect(readVerdicts(message)).toEqual(verdicts as never);
  });
});

async function setup() {
  const w = world({ model: "server" });
  const workflow = await w.workflows.create(CALLER, { workspace_id: "w" }, {
    name: "Refund",
    nodes: [{ name: "pay", node_type_name: "set_variables", input_config: { variables: { paid: 7 } } }],
  } as never);
  const tools = [{ workflow_id: workflow.id, run_behavior: "request_confirmation" as const }];
  const agent = await w.anAgent({ tools });
  const calls = (call: Call, ...ids: string[]) => {
    for (const [index, id] of ids.entries()) {
      call.delta({ tool_calls: [{ index, id, function: { name: "refund", arguments: "{}" } }] });
    }
    call.finish("tool_calls");
  };
  return { w, agent, calls };
}

describe("an approval as the last message of a stream", () => {
  test("goes on with the answer", async () => {
    const { w, agent, calls } = await setup();
    const id = "a-long-random-id-of-mine";
    const path = `/agents/${agent}/stream`;
    const first = w.ask("POST", path, chat("Refund me", id));
    calls(await w.server.next(), "a", "b");
    await (await first).text();
    const answer = (...toolInvocations: object[]) =>
      w.ask("POST", path, { id, messages: [assistant({ toolInvocations })] });

    const partly = readDataStream(await (await answer(invocation("yes"))).text());
    expect(partly.map(({ type }) => type)).toEqual(["start_step", "finish"]);
    const second = await answer(invocation("yes"), invocation("no", "b"));
    const call = await w.server.next();
    expect(call.body.messages.at(-2).content).toContain("7");
    expect(call.body.messages.at(-1).content).toContain("DENIED");
    call.say("Done").finish();
    expect(readDataStream(await second.text()).at(-1)).toMatchObject({ type: "finish", reason: "stop" });
  });

  test("is refused where nothing waits", async () => {
    const { w, agent } = await setup();
    const path = `/agents/${agent}/stream`;
    const body = { id: "c1", messages: [assistant({ toolInvocations: [invocation("yes")] })] };
    expect((await w.call("POST", path, body)).status).toBe(404);
    const plain = { id: "c1", messages: [assistant({ content: "I promise" })] };
    expect((await w.call("POST", path, plain)).status).toBe(400);
  });
});
