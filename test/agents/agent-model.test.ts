import { describe, expect, test } from "bun:test";
import { CALLER, chat, NOWHERE, OTHER, world } from "./world.ts";

const KEY = "sk-of-the-project-itself";

/** An agent of a project that keeps its own key; its provider's server may be reached. */
async function setup() {
  const w = world({ allow: ["127.0.0.1"] });
  const config = { provider: "openai", api_key: KEY, base_url: w.server.url };
  const connect = (caller = CALLER, more: object = {}) =>
    w.connections.create(caller, { workspace_id: "w" }, {
      name: "ours",
      type: "model",
      config,
      ...more,
    } as never);
  const made = await connect();
  const agent = await w.anAgent({ model: "openai/gpt-x", model_config: { connection: "ours" } });
  const say = async (text = "Hi") => w.ask("POST", `/agents/${agent}/stream`, chat(text, "c1"));
  return { ...w, w, connect, made, agent, say };
}

describe("a key that a project keeps as a connection", () => {
  test("is what its agent's model is asked with, though the operator has none", async () => {
    const { server, say } = await setup();
    const answer = say();
    const call = await server.next();
    expect(call.headers).toMatchObject({ authorization: `Bearer ${KEY}` });
    call.say("Hello").finish();
    expect(await (await answer).text()).toContain("Hello");
  });

  test("is for fallback models of the same provider as well, and for no other", async () => {
    const { call, agent, server, say } = await setup();
    const fallback_models = ["openai/gpt-y", "groq/llama"];
    await call("PUT", `/agents/${agent}`, { model_config: { connection: "ours", fallback_models } });
    const answer = say();
    (await server.next()).refuse(400, { message: "no" });
    const second = await server.next();
    expect(second.body.model).toBe("gpt-y");
    expect(second.headers).toMatchObject({ authorization: `Bearer ${KEY}` });
    second.refuse(400, { message: "no" });
    expect(await (await answer).text()).toContain("MODEL_REFUSED");
  });

  test("makes the title too", async () => {
    const { call, agent, server, say } = await setup();
    await call("PUT", `/agents/${agent}`, { auto_generate_title: true });
    const answer = say();
    (await server.next()).say("Hello").finish();
    const title = await server.next();
    expect(title.headers).toMatchObject({ authorization: `Bearer ${KEY}` });
    title.say("A greeting").finish();
    expect(await (await answer).text()).toContain("A greeting");
  });

  test("is in no error, whatever the provider says", async () => {
    const { server, say } = await setup();
    const answer = say();
    (await server.next()).refuse(400, { message: `The key ${KEY} is not for this model.` });
    const text = await (await answer).text();
    expect(text).toContain("MODEL_REFUSED");
    expect(text).not.toContain(KEY);
  });

  test("is named in a readable error when it is gone or for another provider", async () => {
    const { w, call, agent, say, made } = await setup();
    await call("PUT", `/agents/${agent}`, { model: "groq/llama" });
    expect(await (await say()).text()).toContain('The connection \\"ours\\" holds a key of openai');
    await w.connections.remove(CALLER, made.id);
    expect(await (await say()).text()).toContain('There is no connection \\"ours\\"');
  });

  test("has to be the project's own and of type model when it is written", async () => {
    const { call, agent, connect } = await setup();
    const foreign = await connect(OTHER);
    await connect(CALLER, { name: "bearer", type: "bearer", config: { token: "token" } });
    const put = async (connection: unknown) =>
      (await call("PUT", `/agents/${agent}`, { model_config: { connection } })).status;
    expect(await put(foreign.id)).toBe(403);
    for (const connection of [NOWHERE, "nothing", "bearer", "", 5, null])
      expect(await put(connection)).toBe(400);
    expect(await put("ours")).toBe(200);
  });
});
