import { describe, expect, test } from "bun:test";
import { readDataStream } from "../http/read-data-stream.ts";
import type { Call } from "../models/chat-server.ts";
import { CALLER, chat, NOWHERE, world } from "./world.ts";

const LONG = "a-long-random-id-of-mine";

type World = ReturnType<typeof world>;

const aWorkflow = async (w: World) =>
  (
    await w.workflows.create(CALLER, { workspace_id: "w" }, {
      name: "Refund",
      nodes: [{ name: "pay", node_type_name: "set_variables", input_config: { variables: { paid: true } } }],
    } as never)
  ).id;
const careful = async (w: World) =>
  w.anAgent({ tools: [{ workflow_id: await aWorkflow(w), run_behavior: "request_confirmation" }] });

function calls(call: Call, ...ids: string[]) {
  for (const [index, id] of ids.entries()) {
    call.delta({ tool_calls: [{ index, id, function: { name: "refund", arguments: "{}" } }] });
  }
  call.finish("tool_calls");
}
const results = (call: Call) =>
  call.body.messages
    .filter(({ role }: { role: string }) => role === "tool")
    .map(({ content }: { content: string }) => JSON.parse(content));

/** A stream whose agent has called `ids` and waits; what its reader was told. */
async function waiting(w: World, agent: string, ...ids: string[]) {
  const response = await w.ask("POST", `/agents/${agent}/stream`, chat("Refund me", "c1"));
  const read = response.text().then(readDataStream);
  calls(await w.server.next(), ...ids);
  const parts = await read;
  const { pending_approvals: pending, ...conversation } = await w.conversations.get(CALLER, agent, "c1");
  const at = `/agents/${agent}/conversations/${conversation.id}/approvals`;
  const decide = (approval_id: string, body: object) => w.call("POST", `${at}/${approval_id}`, body);
  return { parts, pending, conversation, decide, turn: pending[0]!.execution_id };
}

describe("a call that wants approval", () => {
  test("ends the stream with the question, and has not run", async () => {
    const w = world({ model: "server" });
    const { parts, pending, conversation } = await waiting(w, await careful(w), "a");
    expect(parts.map(({ type }) => type)).toEqual([
      "start_step",
      "tool_call",
      "finish_step",
      "data",
      "finish",
    ]);
    expect(parts[3]).toEqual({
      type: "data",
      data: [
        {
          type: "approval_request",
          approval_id: pending[0]!.approval_id,
          tool_call_id: "a",
          tool_name: "refund",
          args: {},
        },
      ],
    });
    expect(parts[4]).toMatchObject({ reason: "tool-calls" });
    expect(pending).toMatchObject([{ tool_call_id: "a", tool_name: "refund", status: "pending" }]);
    expect(conversation.messages[1]).toMatchObject({ status: "waiting" });
    expect(w.rows("executions")).toEqual([]);
    expect(w.rows("turns")).toMatchObject([{ state: "waiting" }]);
  });

  test("is asked for again under the same Idempotency-Key, until it is answered", async () => {
    const w = world({ model: "server" });
    const agent = await careful(w);
    const ask = async () => {
      const headers = { "idempotency-key": "k1" };
      const response = await w.ask("POST", `/agents/${agent}/stream`, chat("Refund me", "c1"), headers);
      return response.text().then(readDataStream);
    };
    const asked = ask();
    calls(await w.server.next(), "a", "b");
    const parts = await asked;
    const again = await ask();
    expect(again).toEqual(parts);
    expect(again.filter(({ type }) => type === "data")).toHaveLength(2);

    const { pending_approvals: pending, id } = await w.conversations.get(CALLER, agent, "c1");
    const at = `/agents/${agent}/conversations/${id}/approvals/${pending[0]!.approval_id}`;
    await w.call("POST", at, { approved: false });
    expect((await ask()).filter(({ type }) => type === "data")).toEqual([
      parts.filter(({ type }) => type === "data")[1]!,
    ]);
  });

  test("runs when it is approved; the answer goes on as a job and is one message", async () => {
    const w = world({ model: "server" });
    w.subscribe("agent.message.sent");
    const agent = await careful(w);
    const { pending, decide, turn, conversation } = await waiting(w, agent, "a");
    const { status, body } = await decide(pending[0]!.approval_id, { approved: true });
    expect([status, body.status]).toEqual([200, "approved"]);
    const second = await w.server.next();
    expect(results(second)).toEqual([{ paid: true }]);
    const reader = w.turns.running(conversation.id)!;
    second.say("Refunded").finish();
    await w.until(turn, "success");
    // A reader that was not there before knows the call whose result it is told.
    expect(reader.log.parts.map(({ type }) => type)).toEqual([
      "start_step",
      "tool_call",
      "tool_result",
      "finish_step",
      "start_step",
      "text",
      "finish_step",
      "finish",
    ]);
    const after = await w.conversations.get(CALLER, agent, "c1");
    expect(after).toMatchObject({ message_count: 2, pending_approvals: [] });
    expect(after.messages[1]).toMatchObject({
      id: conversation.messages[1]!.id,
      status: "complete",
      content: "Refunded",
    });
    expect(w.eventRows()).toHaveLength(1);
    expect(w.rows("executions")).toHaveLength(1);
  });

  test("is told to the model as denied, with the reason", async () => {
    const w = world({ model: "server" });
    const { pending, decide, turn } = await waiting(w, await careful(w), "a");
    await decide(pending[0]!.approval_id, { approved: false, reason: "Too much" });
    const second = await w.server.next();
    expect(results(second)[0].error).toMatchObject({ code: "DENIED" });
    expect(results(second)[0].error.message).toContain("Too much");
    second.say("Sorry").finish();
    await w.until(turn, "success");
    expect(w.rows("executions")).toEqual([]);
  });

  test("waits for every call of its step, whatever the order", async () => {
    const w = world({ model: "server" });
    const { pending, decide, turn } = await waiting(w, await careful(w), "a", "b");
    await decide(pending[1]!.approval_id, { approved: false });
    expect(await w.turns.status(turn)).toMatchObject({ status: "waiting" });
    await decide(pending[0]!.approval_id, { approved: true });
    const second = await w.server.next();
    expect(results(second)).toMatchObject([{ paid: true }, { error: { code: "DENIED" } }]);
    second.say("Half").finish();
    await w.until(turn, "success");
  });

  test("is answered once: the same answer again changes nothing, another one is a conflict", async () => {
    const w = world({ model: "server" });
    const { pending, decide } = await waiting(w, await careful(w), "a");
    const id = pending[0]!.approval_id;
    const both = await Promise.all([decide(id, { approved: true }), decide(id, { approved: false })]);
    expect(both.map(({ status }) => status).toSorted()).toEqual([200, 409]);
    (await w.server.next()).say("ok").finish();
    expect(
      (await decide(id, { approved: true })).status + (await decide(id, { approved: false })).status,
    ).toBe(609);
    expect(w.rows("turns")).toHaveLength(1);
  });

  test("survives a restart before and after its answer", async () => {
    const w = world({ model: "server" });
    const agent = await careful(w);
    const { pending, turn } = await waiting(w, agent, "a");
    const second = world({ model: "server", storage: w.storage });
    expect(await second.turns.recover()).toBe(0);
    await second.runner.start();
    const { conversation_id, approval_id } = pending[0]!;
    await second.turns.answerApproval(
      CALLER,
      { agent_id: agent, conversation_id, approval_id },
      { approved: true },
    );
    await second.server.next(); // ends here again
    const third = world({ model: "server", storage: w.storage });
    expect(await third.turns.recover()).toBe(0);
    await third.runner.start();
    const call = await third.server.next();
    expect(results(call)).toEqual([{ paid: true }]);
    call.say("Done").finish();
    expect(await third.until(turn, "success")).toMatchObject({ reply: "Done" });
    expect(third.rows("executions")).toHaveLength(1);
  });

  test("of a message by webhook waits as well, without holding a job", async () => {
    const w = world({ model: "server" });
    const agent = await careful(w);
    const { id } = await w.enqueue(agent, "Refund");
    calls(await w.server.next(), "a");
    await w.until(id, "waiting");
    expect(w.rows("jobs")).toEqual([]);
    const [{ conversation_id, id: approval_id }] = w.rows("approvals") as never as [
      { conversation_id: string; id: string },
    ];
    await w.turns.answerApproval(
      CALLER,
      { agent_id: agent, conversation_id, approval_id },
      { approved: true },
    );
    (await w.server.next()).say("Done").finish();
    expect(await w.until(id, "success")).toMatchObject({ reply: "Done" });
  });

  test("of a sub-agent is asked of the same reader", async () => {
    const w = world({ model: "server" });
    const helper = await careful(w);
    const agent = await w.anAgent({ name: "Front", sub_agents: [{ agent_id: helper }] });
    const response = await w.ask("POST", `/agents/${agent}/stream`, chat("Refund me", "c1"));
    const read = response.text().then(readDataStream);
    const first = await w.server.next();
    first.delta({
      tool_calls: [{ index: 0, id: "s", function: { name: "ask_guide", arguments: '{"message":"Refund"}' } }],
    });
    first.finish("tool_calls");
    calls(await w.server.next(), "a");
    expect((await read).at(-2)).toMatchObject({ data: [{ tool_call_id: "a" }] });
    const { id: conversation_id, pending_approvals } = await w.conversations.get(CALLER, agent, "c1");
    const { approval_id, execution_id } = pending_approvals[0]!;
    await w.turns.answerApproval(
      CALLER,
      { agent_id: agent, conversation_id, approval_id },
      { approved: true },
    );
    const inner = await w.server.next();
    expect(results(inner)).toEqual([{ paid: true }]);
    inner.say("paid").finish();
    const outer = await w.server.next();
    expect(outer.body.messages.at(-1)).toMatchObject({ role: "tool", content: "paid" });
    outer.say("All done").finish();
    expect(await w.until(execution_id, "success")).toMatchObject({ reply: "All done" });
  });

  test("does not keep the conversation from going on; the model is told that it has not run", async () => {
    const w = world({ model: "server" });
    const agent = await careful(w);
    const { decide, pending, turn } = await waiting(w, agent, "a");
    const response = await w.ask("POST", `/agents/${agent}/stream`, chat("Are you there?", "c1"));
    const next = await w.server.next();
    expect(next.body.messages.map(({ role }: { role: string }) => role)).toEqual([
      "user",
      "assistant",
      "tool",
      "user",
    ]);
    expect(next.body.messages[2].content).toContain("has not run");
    next.say("Yes").finish();
    await response.text();
    await decide(pending[0]!.approval_id, { approved: true });
    const second = await w.server.next();
    expect(results(second)).toEqual([{ paid: true }]);
    second.say("Refunded").finish();
    await w.until(turn, "success");
    const { messages } = await w.conversations.get(CALLER, agent, "c1");
    expect(messages.map(({ content }) => content)).toEqual([
      "Refund me",
      "Refunded",
      "Are you there?",
      "Yes",
    ]);
  });

  test("in a stranger's conversation is a key's to answer; the stranger is told that it waits, and the rest", async () => {
    const w = world({ model: "server" });
    const agent = await careful(w);
    await w.call("PUT", `/agents/${agent}`, { visibility: "public" });
    const path = `/agents/anonymous/${agent}/stream`;
    const query = "protocol=ui-message-stream&approvals=true";
    const stranger = { authorization: "" };
    const ask = (body: unknown) => w.ask("POST", `${path}?${query}`, body, stranger);
    const said = ask(chat("Refund me", LONG));
    calls(await w.server.next(), "a");
    const first = await (await said).text();
    expect(first).toContain("data-waiting_for_approval");
    expect(first).not.toMatch(/approvalId|refund/);

    const waiting = () => w.call("GET", `/agents/${agent}/conversations?waiting=true`);
    const { body: list } = await waiting();
    const at = `/agents/${agent}/conversations/${list[0].id}`;
    const [{ approval_id }] = (await w.call("GET", at)).body.pending_approvals;
    const approval = { id: approval_id, approved: true };
    const part = { type: "dynamic-tool", toolCallId: "a", state: "approval-responded", approval };
    const invocation = { toolCallId: "a", state: "result", result: "yes" };
    for (const answer of [{ parts: [part] }, { toolInvocations: [invocation] }]) {
      const refused = await ask({ id: LONG, messages: [{ id: "m", role: "assistant", ...answer }] });
      expect(refused.status).toBe(403);
    }
    // Nor by the project as if it were a conversation of its own.
    const own = { id: LONG, messages: [{ id: "m", role: "assistant", parts: [part] }] };
    expect((await w.call("POST", `/agents/${agent}/stream`, own)).status).toBe(404);

    await w.call("POST", `${at}/approvals/${approval_id}`, { approved: true });
    const next = await w.server.next();
    const resumed = await w.ask("GET", `${path}?${query}&chatId=${LONG}`, undefined, stranger);
    next.say("Refunded").finish();
    const text = await resumed.text();
    expect(text).toContain("Refunded");
    expect(text).not.toContain("paid");
    expect((await waiting()).body).toEqual([]);
  });

  test("is dropped when the answer is stopped", async () => {
    const w = world({ model: "server" });
    const agent = await careful(w);
    const { conversation, decide, pending, turn } = await waiting(w, agent, "a");
    expect(await w.turns.halt(conversation.id)).toEqual([turn]);
    expect((await decide(pending[0]!.approval_id, { approved: true })).status).toBe(409);
    expect(await w.turns.status(turn)).toMatchObject({ status: "cancelled" });
  });

  test("is found by those who may, in its own conversation alone", async () => {
    const w = world({ model: "server" });
    const agent = await careful(w);
    const { conversation, pending, decide } = await waiting(w, agent, "a");
    const { approval_id } = pending[0]!;
    const other = await w.anAgent();
    const at = (a: string, c: string, id: string) => `/agents/${a}/conversations/${c}/approvals/${id}`;
    const yes = { approved: true };
    const foreign = { authorization: "Bearer other" };
    const status = async (path: string, body: object, headers = {}) =>
      (await w.call("POST", path, body, headers)).status;
    expect(await status(at(agent, conversation.id, approval_id), yes, foreign)).toBe(403);
    expect(await status(at(other, conversation.id, approval_id), yes)).toBe(404);
    expect(await status(at(agent, NOWHERE, approval_id), yes)).toBe(404);
    expect((await decide("nonsense", yes)).status).toBe(404);
    expect((await decide(NOWHERE, yes)).status).toBe(404);
    for (const body of [
      {},
      { approved: "yes" },
      { approved: true, reason: 1 },
      [],
      { approved: true, x: 1 },
    ]) {
      expect((await decide(approval_id, body)).status).toBe(400);
    }
  });
});
