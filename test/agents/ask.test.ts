import { describe, expect, test } from "bun:test";
import { createAsk } from "../../src/agents/ask.ts";
import { createWaiters } from "../../src/executions/waiters.ts";
import { TestClock } from "../helpers/clock.ts";
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
    if (first.outcome !== "answered") throw new Error(first.message);
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
