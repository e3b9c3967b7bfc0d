import { describe, expect, test } from "bun:test";
import { createAsk } from "../../src/agents/ask.ts";
import { createWaiters } from "../../src/executions/waiters.ts";
import { settled, TestClock } from "../helpers/clock.ts";
import { CALLER, NOWHERE, OTHER, world } from "./world.ts";

const scope = { workspace_id: "w", project_id: "p" };

function setup(model: "offline" | "server" = "offline") {
  const waiters = createWaiters(new TestClock());
  const w = world({ model, ended: waiters.ended });
  const ask = createAsk({ ...w, waiters });
  const question = (agent_id: string, more: object = {}) => ({
    scope,
    agent_id,
    message: "Hi",
    hop: 1,
    idempotencyKey: "run/0",
    signal: new AbortController().signal,
    ...more,
  });
  return { ...w, waiters, askAgent: ask, question };
}

describe("a question of a workflow to an agent", () => {
  test("is answered in a conversation, which another question may go on", async () => {
    const { anAgent, askAgent, question, rows } = setup();
    const agent = await anAgent();
    const first = await askAgent(question(agent));
    if (first.outcome !== "answered") throw new Error(first.outcome);
    expect(first.reply).toContain('You said: "Hi"');
    const { conversation_id } = first;
    const second = await askAgent(
      question(agent, { message: "More", conversation_id, idempotencyKey: "run/1" }),
    );
    expect(second).toMatchObject({ outcome: "answered", conversation_id });
    expect(rows("conversations")).toHaveLength(1);
    expect(rows("messages")).toHaveLength(4);
  });

  test("asked again with its key gets the same answer and puts nothing more on record", async () => {
    const { anAgent, askAgent, question, rows } = setup();
    const agent = await anAgent();
    const first = await askAgent(question(agent));
    expect(await askAgent(question(agent))).toEqual(first);
    expect(rows("turns")).toHaveLength(1);
    expect(await askAgent(question(agent, { message: "Other" }))).toMatchObject({
      outcome: "failed",
      code: "CONFLICT",
    });
  });

  test("fails where there is no such agent in the project, and past eight hops", async () => {
    const { anAgent, askAgent, question } = setup();
    const foreign = await anAgent({}, OTHER);
    expect(await askAgent(question(NOWHERE))).toMatchObject({ code: "AGENT_MISSING" });
    expect(await askAgent(question("no-id"))).toMatchObject({ code: "AGENT_MISSING" });
    expect(await askAgent(question(foreign))).toMatchObject({ code: "AGENT_FOREIGN" });
    expect(await askAgent(question(await anAgent({}, CALLER), { hop: 9 }))).toMatchObject({ code: "LOOP" });
    const odd = question(await anAgent(), { conversation_id: "" });
    expect(await askAgent(odd)).toMatchObject({ outcome: "failed", code: "INVALID_INPUT" });
  });

  test("fails as the agent's model failed", async () => {
    const { anAgent, askAgent, question } = setup();
    const agent = await anAgent({ model: "nobody/nothing" });
    expect(await askAgent(question(agent))).toMatchObject({ outcome: "failed", code: "MODEL_UNKNOWN" });
  });

  test("stops waiting when its run is cancelled", async () => {
    const { anAgent, askAgent, question } = setup();
    const agent = await anAgent();
    expect(await askAgent(question(agent, { signal: AbortSignal.abort() }))).toMatchObject({
      code: "NO_ANSWER",
    });
  });
});

describe("a run that asks an agent", () => {
  async function asking(w: ReturnType<typeof world>, options: object = {}) {
    const agent = await w.anAgent();
    const node = (name: string, node_type_name: string, input_config: Record<string, unknown>) => ({
      name,
      node_type_name,
      input_config,
    });
    const made = await w.workflows.create(CALLER, scope, {
      nodes: [
        node("ask", "run_agent", { agent_id: agent, message: "Hi", _options: options }),
        node("after", "set_variables", { variables: { said: "{{ ask.reply }}" } }),
      ],
    });
    const { body } = await w.executions.startByKey(CALLER, made.id, {}, { hop: 0 });
    return String(body["execution_id"]);
  }
  async function stands(w: ReturnType<typeof world>, id: string, ...states: string[]) {
    for (let n = 0; n < 500; n++) {
      const run = await w.executions.get(CALLER, id);
      if (states.includes(run.status)) return run;
      await settled(2);
    }
    throw new Error(`still ${(await w.executions.get(CALLER, id)).status}`);
  }
  const conversationOf = (w: ReturnType<typeof world>) => (w.rows("conversations")[0] as { id: string }).id;

  test("holds nothing while it waits, and goes on with the answer", async () => {
    const w = world({ model: "server" });
    const id = await asking(w);
    const call = await w.server.next();
    const waiting = await stands(w, id, "waiting");
    expect(waiting.steps[0]).toMatchObject({ status: "waiting", output: { turn_id: expect.any(String) } });
    await settled();
    expect(w.runner.inFlight().runs).toBe(0);
    call.say("Hello").finish();
    const run = await stands(w, id, "success", "failed");
    expect(run.output_data).toEqual({ said: "Hello" });
    expect(run.steps[0]).toMatchObject({ status: "success", attempts: 1, input: { message: "Hi" } });
    expect(w.rows("turns")).toHaveLength(1);
    expect(w.rows("jobs")).toEqual([]);
  });

  test("is told when the answer is stopped, or its conversation deleted", async () => {
    const w = world({ model: "server" });
    const id = await asking(w);
    await w.server.next();
    await stands(w, id, "waiting");
    await w.turns.halt(conversationOf(w));
    expect((await stands(w, id, "success", "failed")).status).toBe("failed");
    const other = await asking(w);
    await w.server.next();
    await stands(w, other, "waiting");
    const [, conversation] = w.rows("conversations") as { id: string; agent_id: string }[];
    await w.conversations.remove(CALLER, conversation!.agent_id, conversation!.id);
    expect((await stands(w, other, "failed")).error).toMatchObject({ code: "GONE" });
  });

  test("fails at its own time limit", async () => {
    const w = world({ model: "server" });
    const id = await asking(w, { timeout_seconds: 60 });
    await w.server.next();
    await stands(w, id, "waiting");
    await w.clock.advance(61_000);
    expect((await stands(w, id, "failed")).error).toMatchObject({ code: "TIMEOUT", node: "ask" });
  });

  test("finds the answer that came while the program was down", async () => {
    const before = world({ model: "server" });
    const id = await asking(before);
    const call = await before.server.next();
    await stands(before, id, "waiting");
    const { storage } = before;
    // The turn's commit, and nothing after it.
    before.runner.wake = async () => {};
    call.say("Late").finish();
    await before.until((before.rows("turns")[0] as { id: string }).id, "success");
    expect(storage.reader.get("SELECT run_at <= ? AS due FROM jobs", before.clock.now())).toEqual({ due: 1 });
  });
});
