import { afterAll, describe, expect, test } from "bun:test";
import { readStreamBody } from "../../src/agents/stream-body.ts";
import { makeHookToken } from "../../src/hooks/token.ts";
import { LONGEST_WAIT_SECONDS, waitOf } from "../../src/hooks/waiting.ts";
import { apiCall, setVariables } from "../executions/setup.ts";
import { settled } from "../helpers/clock.ts";
import { live } from "./live.ts";

/** A server that answers when the test says so. */
function slowServer() {
  const open: (() => void)[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => new Promise((resolve) => open.push(() => resolve(Response.json({ ok: true })))),
  });
  afterAll(() => server.stop(true));
  return {
    url: `http://127.0.0.1:${server.port}/`,
    async called() {
      while (open.length === 0) await Bun.sleep(0);
      return open.shift()!;
    },
  };
}

const GREET = {
  input_schema: {
    title: "",
    description: "",
    required: ["name"],
    properties: { name: { title: "Name", type: "string" } },
  },
  nodes: [setVariables("greet", { text: "Hello {{ name }}" })],
};
const NOWHERE = "01900000-0000-7000-8000-000000000000";

describe("a webhook whose sender waits", () => {
  test("answers with the output of a workflow that ends in time", async () => {
    const { aWorkflow, send } = live();
    const { url, id } = await aWorkflow(GREET);
    const answer = await send("POST", `${url}&wait=5`, { body: { input_data: { name: "Ada" } } });
    expect([answer.status, answer.body]).toMatchObject([
      200,
      {
        success: true,
        status: "success",
        workflow_id: id,
        output_data: { text: "Hello Ada" },
        error: null,
        completed_at: "2026-01-01T00:00:00.000Z",
      },
    ]);
    const preferred = await send("POST", url, {
      body: { input_data: { name: "Ada" } },
      headers: { prefer: "respond-async, wait=5" },
    });
    expect(preferred.status).toBe(200);
  });

  test("tells a failure as the result it is, and a fault of the body as ever", async () => {
    const { aWorkflow, send } = live();
    const { url } = await aWorkflow({ ...GREET, nodes: [setVariables("a", { x: "{{ name.c }}" })] });
    const failed = await send("POST", `${url}&wait=5`, { body: { input_data: { name: "Ada" } } });
    expect([failed.status, failed.body]).toMatchObject([
      200,
      { success: false, status: "failed", output_data: null, error: { node: "a" } },
    ]);
    const refused = await send("POST", `${url}&wait=5`, { body: { input_data: {} } });
    expect([refused.status, refused.body.error.details.field]).toEqual([400, "input_data.name"]);
  });

  test("gets 202 when the time is over, and the result later at the status address", async () => {
    const slow = slowServer();
    const { aWorkflow, send, clock } = live();
    const { url, token } = await aWorkflow({ nodes: [apiCall("call", slow.url)] });
    const answering = send("POST", `${url}&wait=5`, { body: {} });
    const release = await slow.called();
    await clock.advance(5_000);
    const answer = await answering;
    expect([answer.status, answer.body.status]).toEqual([202, "queued"]);
    const at = `/webhooks/executions/${answer.body.execution_id}?token=${token}`;
    expect((await send("GET", at)).body).toMatchObject({
      success: true,
      status: "running",
      completed_at: null,
    });
    const waiting = send("GET", `${at}&wait=10`);
    await settled();
    release();
    expect((await waiting).body).toMatchObject({ status: "success", output_data: { status: 200 } });
  });

  test("gets the reply of an agent, and its failure", async () => {
    const { anAgent, send, model } = live();
    const { url, id } = await anAgent();
    const answering = send("POST", `${url}&wait=5`, { body: { message: "Hi", user_id: "u" } });
    (await model.next()).say("Hel", "lo").finish();
    const answer = await answering;
    expect([answer.status, answer.body]).toMatchObject([
      200,
      { success: true, status: "success", agent_id: id, reply: "Hello", error: null },
    ]);
    const failing = send("POST", `${url}&wait=5`, { body: { message: "Hi" } });
    (await model.next()).refuse(401);
    expect((await failing).body).toMatchObject({ success: false, status: "failed", reply: null });
  });

  test("gets the same result for a repeated request", async () => {
    const { aWorkflow, send } = live();
    const { url } = await aWorkflow(GREET);
    const fire = () =>
      send("POST", `${url}&wait=5`, {
        body: { input_data: { name: "Ada" } },
        headers: { "idempotency-key": "k" },
      });
    const [first, again] = [await fire(), await fire()];
    expect(again.body).toEqual(first.body);
    expect(again.headers.get("idempotent-replay")).toBe("true");
  });

  test("that goes away waits no longer, and the work goes on", async () => {
    const slow = slowServer();
    const { aWorkflow, ask, executions } = live();
    const { url } = await aWorkflow({ nodes: [apiCall("call", slow.url)] });
    const leaving = new AbortController();
    const answering = ask("POST", `${url}&wait=60`, { body: {}, signal: leaving.signal });
    const release = await slow.called();
    leaving.abort();
    const { execution_id } = (await (await answering).json()) as { execution_id: string };
    release();
    expect((await executions.until(execution_id, "success")).status).toBe("success");
  });

  test("is answered at once when the program stops", async () => {
    const slow = slowServer();
    const { aWorkflow, send, waiters } = live();
    const { url } = await aWorkflow({ nodes: [apiCall("call", slow.url)] });
    const answering = send("POST", `${url}&wait=60`, { body: {} });
    (await slow.called())();
    waiters.close();
    expect([200, 202]).toContain((await answering).status);
    expect((await send("POST", `${url}&wait=60`, { body: {} })).status).toBe(202);
  });

  test("says how long in whole seconds, at most a minute", async () => {
    const { aWorkflow, send, executions } = live();
    const { url } = await aWorkflow(GREET);
    for (const wait of ["", "x", "-1", "1.5", "1e1", "%20", "1&wait=2", "61", "9999999999"]) {
      const { status, body } = await send("POST", `${url}&wait=${wait}`, {
        body: { input_data: { name: "A" } },
      });
      expect([wait, status, body.error?.details.field]).toEqual([wait, 400, "wait"]);
    }
    expect(executions.storage.reader.all("SELECT * FROM executions")).toHaveLength(0);
    const none = new Headers();
    expect(waitOf("http://localhost/?wait=60", none)).toBe(LONGEST_WAIT_SECONDS);
    expect(waitOf("http://localhost/?await=5", none)).toBe(0);
    const preferring = (prefer: string) => waitOf("http://localhost/", new Headers({ prefer }));
    expect(["wait=7", 'WAIT = "7"', "a, wait=7;x", "wait=700"].map(preferring)).toEqual([7, 7, 7, 60]);
    expect(["wait", "wait=-1", "await=7", "wait=7s", "return=minimal"].map(preferring)).toEqual([
      0, 0, 0, 0, 0,
    ]);
  });
});

describe("the status address", () => {
  test("takes the token in every form, and no other", async () => {
    const { aWorkflow, send } = live();
    const { url, token } = await aWorkflow(GREET);
    const { body } = await send("POST", url, { body: { input_data: { name: "Ada" } } });
    const at = `/webhooks/executions/${body.execution_id}`;
    const asks: [string, string?][] = [
      [`?token=${token}`],
      ["", `Bearer ${token}`],
      ["", `Basic ${btoa(`x:${token}`)}`],
      ["", undefined],
      ["?token=", undefined],
      [`?token=${makeHookToken()}`],
      [`?token=${token}`, "Bearer wrong"],
    ];
    const statuses = [];
    for (const [query, authorization] of asks) {
      statuses.push(
        (await send("GET", at + query, { headers: authorization ? { authorization } : {} })).status,
      );
    }
    expect(statuses).toEqual([200, 200, 200, 401, 401, 401, 401]);
    expect((await send("HEAD", `${at}?token=${token}`)).status).toBe(200);
  });

  test("tells of the token's own target only; all else is not there", async () => {
    const { aWorkflow, anAgent, agents, send } = live();
    const [one, other, agent] = [await aWorkflow(GREET), await aWorkflow(GREET), await anAgent()];
    const started = (await send("POST", one.url, { body: { input_data: { name: "Ada" } } })).body
      .execution_id;
    const turn = (await send("POST", agent.url, { body: { message: "Hi" } })).body.execution_id;
    const chat = await agents.turns.talk(
      { key_id: "key", workspace_id: "w", project_id: "p" },
      agent.id,
      readStreamBody({ messages: [{ role: "user", content: "private" }] }),
      { request_id: "r", tellContext: false, hop: 0 },
    );
    const status = async (id: string, token: string) => {
      const { status, body } = await send("GET", `/webhooks/executions/${id}?token=${token}`);
      return status === 200 ? 200 : [status, body.error.code, body.success];
    };
    const absent = [404, "NOT_FOUND", false];
    expect(await status(started, one.token)).toBe(200);
    expect(await status(turn, agent.token)).toBe(200);
    expect(await status(started, other.token)).toEqual(absent);
    expect(await status(started, agent.token)).toEqual(absent);
    expect(await status(turn, one.token)).toEqual(absent);
    expect(await status(chat.turn_id, agent.token)).toEqual(absent);
    expect(await status(NOWHERE, one.token)).toEqual(absent);
    expect(await status("no-id", one.token)).toEqual(absent);
    const both = `/webhooks/executions/${started}?token=${one.token}&token=${other.token}`;
    expect((await send("GET", both)).status).toBe(401);
  });
});

describe("the estimate of when work will be done", () => {
  test("comes from what the agent's answers took so far, and follows when that changes", async () => {
    const { anAgent, send, model, agents } = live();
    const { url } = await anAgent();
    // The agents' clock: it stands still but for what a test lets an answer take.
    const begun = agents.clock.now();
    const answered = async (ms: number) => {
      const { body } = await send("POST", url, { body: { message: "Hi" } });
      const call = await model.next();
      const estimate = Date.parse(body.estimated_completion) - agents.clock.now();
      await agents.clock.advance(ms);
      call.say("Hello").finish();
      await agents.until(body.execution_id, "success");
      return estimate;
    };
    expect(await answered(1_000)).toBe(5_000);
    expect(await answered(3_000)).toBe(1_000);
    expect(await answered(2_000)).toBe(2_000);
    expect(agents.clock.now() - begun).toBe(6_000);
    for (let n = 0; n < 200; n++) await answered(10_000);
    expect(await answered(0)).toBeGreaterThan(9_000);
  });

  test("comes from what the workflow's runs took so far", async () => {
    const slow = slowServer();
    const { aWorkflow, send, clock } = live();
    const { url } = await aWorkflow({ nodes: [apiCall("call", slow.url)] });
    const answering = send("POST", url, { body: {} });
    const release = await slow.called();
    const { execution_id } = (await answering).body;
    await clock.advance(4_000);
    release();
    const token = url.slice(url.indexOf("token="));
    await send("GET", `/webhooks/executions/${execution_id}?${token}&wait=5`);
    const { body } = await send("POST", url, { body: {} });
    (await slow.called())();
    expect(Date.parse(body.estimated_completion) - clock.now()).toBe(4_000);
  });

  test("counts those who wait in front: runs of the workflow, as many at a time as it may have, and messages", async () => {
    const slow = slowServer();
    const { aWorkflow, anAgent, send, model, clock, agents, executions, callers } = live();
    const { url, id } = await aWorkflow({ nodes: [apiCall("call", slow.url)] });
    await executions.workflows.updateSettings(callers.workflows, id, {
      concurrency: { limit: 2, key: null },
    });
    const estimates = [];
    for (let n = 0; n < 5; n++) {
      const { body } = await send("POST", url, { body: {} });
      estimates.push(Date.parse(body.estimated_completion) - clock.now());
    }
    expect(estimates).toEqual([1_000, 1_000, 1_500, 2_000, 2_500]);

    const agent = await anAgent();
    const said = [];
    for (let n = 0; n < 3; n++) {
      const body = { message: "Hi", context: { conversation_id: "c" } };
      said.push(
        Date.parse((await send("POST", agent.url, { body })).body.estimated_completion) - agents.clock.now(),
      );
    }
    expect(said).toEqual([5_000, 10_000, 15_000]);
    (await model.next()).say("Hello").finish();
    for (let n = 0; n < 5; n++) (await slow.called())();
  });
});
