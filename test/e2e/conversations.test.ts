import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import * as ai6 from "ai-v6";
import * as ai7 from "ai-v7";
import { chatServer } from "../models/chat-server.ts";
import { newState } from "./clients.ts";
import { world } from "./setup.ts";

setDefaultTimeout(30_000); // each runs several programs
const model = chatServer();
afterAll(model.close);
const { errand, key, workspace } = await world({ env: { OPENAI_BASE_URL: model.url } });

const make = async (path: string, body: object) =>
  (await errand.api<{ id: string }>("POST", `/api/${path}?${workspace}`, body)).body.id;
const refund = await make("workflows", {
  name: "Refund",
  nodes: [{ name: "pay", node_type_name: "set_variables", input_config: { variables: { paid: 7 } } }],
});
const agent = await make("agents", {
  name: "Clerk",
  auto_generate_title: false,
  tools: [{ workflow_id: refund, run_behavior: "request_confirmation" }],
});
const api = `${errand.url}/api/agents/${agent}/stream`;
const headers = { authorization: `Bearer ${key.key}`, "content-type": "application/json" };

type Part = { type: string; state?: string; approval?: { id: string }; output?: unknown };

describe.each([
  ["6", ai6],
  ["7", ai7 as unknown as typeof ai6],
])("AI SDK %s", (version, { AbstractChat, DefaultChatTransport }) => {
  test("asks its user about a call, and goes on with the answer", async () => {
    const state = newState();
    const transport = new DefaultChatTransport({ api: `${api}?approvals=true`, headers });
    const chat = new (class extends AbstractChat<never> {})({
      id: `of ${version}`,
      state,
      transport,
    } as never);
    const said = chat.sendMessage({ text: "Refund me" } as never);
    const call = await model.next();
    call.delta({ tool_calls: [{ index: 0, id: "c1", function: { name: "refund", arguments: "{}" } }] });
    call.finish("tool_calls");
    await said;
    const asked = (state.messages.at(-1)!.parts as Part[]).find(({ type }) => type === "dynamic-tool")!;
    expect(asked.state).toBe("approval-requested");

    await chat.addToolApprovalResponse({ id: asked.approval!.id, approved: true });
    const going = chat.sendMessage();
    const next = await model.next();
    expect(next.body.messages.at(-1)).toMatchObject({ role: "tool", tool_call_id: "c1" });
    next.say("You have it back.").finish();
    await going;
    expect(state.error).toBeUndefined();
    const parts = state.messages.at(-1)!.parts as Part[];
    expect(parts.find(({ type }) => type === "dynamic-tool")).toMatchObject({
      state: "output-available",
      output: { paid: 7 },
    });
    expect(JSON.stringify(parts)).toContain("You have it back.");
  });
});

describe("a conversation", () => {
  const png = Buffer.alloc(3 * 1024 * 1024);
  Buffer.from("iVBORw0KGgo=", "base64").copy(png);

  test("takes pictures past the usual limit, and gives them back", async () => {
    const url = `data:image/png;base64,${png.toString("base64")}`;
    const messages = [{ role: "user", content: "Look", experimental_attachments: [{ url, name: "a.png" }] }];
    const asked = fetch(api, { method: "POST", headers, body: JSON.stringify({ id: "pictures", messages }) });
    const call = await model.next();
    expect(call.body.messages[0].content[1].image_url.url).toBe(url);
    call.say("I see").finish();
    await (await asked).text();
    const { body } = await errand.api<{ messages: { parts: { attachment_id: string }[] }[] }>(
      "GET",
      `/api/agents/${agent}/conversations/pictures`,
    );
    const id = body.messages[0]!.parts[1]!.attachment_id;
    const picture = await fetch(`${errand.url}/api/agents/${agent}/attachments/${id}`, { headers });
    expect(Buffer.from(await picture.arrayBuffer()).equals(png)).toBe(true);
  });

  test.each(["conversation", "agent"])("ends when the command line deletes its %s", async (what) => {
    const { body: own } = await errand.api<{ id: string }>("POST", `/api/agents?${workspace}`, {
      name: "Short-lived",
      auto_generate_title: false,
    });
    const asked = await fetch(`${errand.url}/api/agents/${own.id}/stream`, {
      method: "POST",
      headers,
      body: JSON.stringify({ id: "doomed", messages: [{ role: "user", content: "Hi" }] }),
    });
    (await model.next()).say("Hel");
    const id = asked.headers.get("x-conversation-id")!;
    const deleted = await errand.command(`${what}s`, "delete", what === "agent" ? own.id : id);
    expect(deleted.code).toBe(0);
    expect(await asked.text()).toContain('d:{"finishReason":"other"');
  });

  test.each([
    ["approve", '{"paid":7}'],
    ["deny", "Too much"],
  ])("goes on when the command line answers for its call: %s", async (verdict, told) => {
    const messages = [{ role: "user", content: "Refund me \u009b2J" }];
    const body = JSON.stringify({ id: `to ${verdict}`, messages });
    const asked = await fetch(api, { method: "POST", headers, body });
    (await model.next())
      .delta({ tool_calls: [{ index: 0, id: "c1", function: { name: "refund", arguments: "{}" } }] })
      .finish("tool_calls");
    await asked.text();
    const id = asked.headers.get("x-conversation-id")!;
    const waiting = await errand.command("conversations", "list", "--waiting", "--json");
    expect((JSON.parse(waiting.stdout) as { id: string }[]).map((one) => one.id)).toEqual([id]);
    const { stdout } = await errand.command("conversations", "show", `to ${verdict}`);
    expect(stdout).not.toContain("\u009b");
    const [, approval] = /waits for approval (\S+): refund\(\{\}\)/.exec(stdout)!;
    const reason = verdict === "deny" ? ["--reason", "Too much"] : [];
    const named = [`to ${verdict}`, approval!];
    const answered = await errand.command("conversations", verdict, ...named, "--json", ...reason);
    expect(JSON.parse(answered.stdout)).toMatchObject({ tool_name: "refund", conversation_id: id });
    const next = await model.next();
    expect(next.body.messages.at(-1)).toMatchObject({ role: "tool", content: expect.stringContaining(told) });
    next.say("Done").finish();
    const again = await errand.command("conversations", verdict, id, "nonsense");
    expect([again.code, again.stderr]).toEqual([5, expect.stringContaining("approval nonsense not found")]);
  });

  test("is listed, shown, closed and deleted by the command line beside the server", async () => {
    const asked = fetch(api, {
      method: "POST",
      headers,
      body: JSON.stringify({ id: "told", user_id: "ann", messages: [{ role: "user", content: "Hi" }] }),
    });
    (await model.next()).say("Hello").finish();
    await (await asked).text();
    const list = await errand.command("conversations", "list", "--user", "ann", "--json");
    const [{ id }] = JSON.parse(list.stdout) as [{ id: string }];
    const shown = await errand.command("conversations", "show", id);
    expect(shown.stdout).toContain("Hello");
    const closed = await errand.command("conversations", "close", id, "--score", "5", "--type", "answered");
    expect(closed.code).toBe(0);
    const at = `/api/agents/${agent}/conversations/told`;
    expect((await errand.api("GET", at)).body).toMatchObject({
      status: "completed",
      satisfaction_score: 5,
      resolution: { type: "answered" },
    });
    expect((await errand.command("conversations", "close", id)).code).not.toBe(0);
    expect((await errand.command("conversations", "delete", id)).code).toBe(0);
    expect((await errand.api("GET", at)).status).toBe(404);
  });
});
