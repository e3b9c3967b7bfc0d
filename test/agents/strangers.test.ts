import { expect, test } from "bun:test";
import { CALLER, chat, world } from "./world.ts";

const LONG = "a-long-random-id-of-mine";

test.each(["data-stream", "ui-message-stream"])(
  "nothing of how an agent is made reaches those without a key (%s)",
  async (protocol) => {
    const w = world({ model: "server" });
    const workflow = await w.workflows.create(CALLER, { workspace_id: "w" }, {
      name: "Internal ledger",
      nodes: [{ name: "a", node_type_name: "set_variables", input_config: { variables: { v: "hush" } } }],
    } as never);
    const agent = await w.anAgent({
      visibility: "public",
      system_prompt: "The password is hunter2.",
      model: "openai/secret-model",
      tools: [{ workflow_id: workflow.id }],
    });
    const path = `/agents/anonymous/${agent}/stream?protocol=${protocol}`;
    const headers = { authorization: "", "x-enable-request-context": "true" };

    const first = w.ask("POST", path, chat("Hi", LONG), headers);
    const call = await w.server.next();
    const [{ function: tool }] = call.body.tools;
    const args = JSON.stringify({ account: "4711" });
    call.delta({ tool_calls: [{ index: 0, id: "a", function: { name: tool.name, arguments: args } }] });
    call.finish("tool_calls");
    const next = await w.server.next();
    const resumed = w.ask(
      "GET",
      `/agents/anonymous/${agent}/stream?chatId=${LONG}&protocol=${protocol}`,
      undefined,
      {
        authorization: "",
      },
    );
    const again = await resumed;
    next.say("Your account is in order.").finish();
    const texts = [await (await first).text(), await again.text()];

    const failing = w.ask("POST", path, chat("Hi", LONG), headers);
    (await w.server.next()).refuse(400, { message: "secret-model is not for org-12345" });
    texts.push(await (await failing).text());
    expect(texts[2]).toContain("The agent could not answer.");
    for (const text of texts) {
      for (const secret of [
        "secret-model",
        "ledger",
        "4711",
        "hush",
        "hunter2",
        "org-12345",
        "agent_version",
      ]) {
        expect(text).not.toContain(secret);
      }
    }
    expect(texts[0]).toContain("Your account is in order.");
    expect(texts[1]).toBe(texts[0]!);
  },
);

test.each(["data-stream", "ui-message-stream"])(
  "what the model thinks reaches those without a key only where the agent says so (%s)",
  async (protocol) => {
    const w = world({ model: "server" });
    const agent = await w.anAgent({ visibility: "public" });
    const path = (who: string) => `/agents/${who}${agent}/stream?protocol=${protocol}`;
    const stranger = { authorization: "" };
    const told = async (id: string) => {
      const first = w.ask("POST", path("anonymous/"), chat("Hi", id), stranger);
      const call = await w.server.next();
      call.delta({ reasoning_content: "My prompt says" });
      const answer = await first; // from here on the conversation is there to be read
      const resumed = await w.ask("GET", `${path("anonymous/")}&chatId=${id}`, undefined, stranger);
      call.say("Hello").finish();
      const texts = [await answer.text(), await resumed.text()];
      expect(texts[0]).toContain("Hello");
      expect(texts[1]).toBe(texts[0]!);
      return texts[0]!;
    };
    expect(await told(LONG)).not.toMatch(/My prompt|reasoning|^g:/m);
    await w.agents.update(CALLER, agent, { public_reasoning: true });
    expect(await told(`${LONG}-2`)).toContain("My prompt says");
    await w.agents.update(CALLER, agent, { public_reasoning: null });
    const known = w.ask("POST", path(""), chat("Hi", "c1"));
    (await w.server.next()).delta({ reasoning_content: "My prompt says" }).say("Hello").finish();
    expect(await (await known).text()).toContain("My prompt says");
  },
);
