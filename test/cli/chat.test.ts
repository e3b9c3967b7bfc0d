import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { discardAfterEach } from "../helpers/folder.ts";
import { chatServer } from "../models/chat-server.ts";
import { commandLine } from "./world.ts";

setDefaultTimeout(30_000); // each begins a server or two
discardAfterEach();
const model = chatServer();
afterAll(model.close);

async function world() {
  const line = commandLine({ OPENAI_BASE_URL: model.url });
  const written = async (content: object) => {
    const path = join(line.data, `${crypto.randomUUID()}.json`);
    await Bun.write(path, JSON.stringify(content));
    return path;
  };
  const agent = await line.json<{ id: string }>(
    "agents",
    "create",
    "--from",
    await written({ name: "Guide", auto_generate_title: false }),
  );
  return { ...line, agent: agent.id, written };
}

describe("chat AGENT MESSAGE", () => {
  test("prints the answer as data, and leaves no key behind", async () => {
    const { run } = await world();
    const ran = run("chat", "Guide", "Hi");
    const call = await model.next();
    expect(call.body.messages.at(-1)).toEqual({ role: "user", content: "Hi" });
    call.say("Hel\u001b[2J", "lo").finish();
    expect(await ran).toMatchObject({ code: 0, stdout: "Hel�[2Jlo\n", stderr: "" });
    expect(JSON.parse((await run("keys", "list", "--json")).stdout)).toEqual([]);
  });

  test("goes on with a conversation, and tells all of it as JSON", async () => {
    const { run, json, agent } = await world();
    const first = run("chat", agent, "Hi", "--conversation", "c1");
    (await model.next()).say("Hello").finish();
    await first;
    const second = run("chat", agent, "And?", "--conversation", "c1", "--json");
    const call = await model.next();
    expect(call.body.messages.map(({ content }: { content: string }) => content)).toEqual([
      "Hi",
      "Hello",
      "And?",
    ]);
    call.say("Well").finish();
    expect(JSON.parse((await second).stdout)).toEqual({
      conversation_id: "c1",
      reply: "Well",
      calls: [],
      finish_reason: "stop",
      usage: { prompt_tokens: 7, completion_tokens: 3 },
    });
    expect(await json("conversations", "list")).toHaveLength(1);
  });

  test("shows calls in words; one that wants approval runs with --yes alone", async () => {
    const { run, json, written } = await world();
    const nodes = [{ name: "n", node_type_name: "set_variables", input_config: { variables: { paid: 7 } } }];
    const workflow = await json<{ id: string }>(
      "workflows",
      "create",
      "--from",
      await written({ name: "Refund", nodes }),
    );
    const tools = [{ workflow_id: workflow.id, run_behavior: "request_confirmation" }];
    await json(
      "agents",
      "create",
      "--from",
      await written({ name: "Clerk", tools, auto_generate_title: false }),
    );
    const asks = async () => {
      const call = await model.next();
      call
        .delta({ tool_calls: [{ index: 0, id: "c1", function: { name: "refund", arguments: "{}" } }] })
        .finish("tool_calls");
    };
    const refused = run("chat", "Clerk", "Refund me");
    await asks();
    const { code, stderr } = await refused;
    expect([code, stderr]).toEqual([5, expect.stringContaining("refund waits for approval")]);
    const ran = run("chat", "Clerk", "Refund me", "--yes");
    await asks();
    const second = await model.next();
    expect(second.body.messages.at(-1)).toMatchObject({ role: "tool", content: '{"paid":7}' });
    second.say("You have it back").finish();
    const done = await ran;
    expect([done.code, done.stdout]).toEqual([0, "You have it back\n"]);
    expect(done.stderr).toContain("→ refund {}\n");
    expect(done.stderr).toContain('← {"paid":7}\n');
  });

  test("says what went wrong, by its exit code as well", async () => {
    const { run } = await world();
    expect(await run("chat", "Nobody", "Hi")).toMatchObject({
      code: 5,
      stderr: expect.stringContaining("no agent Nobody"),
    });
    expect(await run("chat", "Guide", "  ")).toMatchObject({ code: 2 });
    const failed = run("chat", "Guide", "Hi");
    (await model.next()).refuse(400, { message: "Not today" });
    expect(await failed).toMatchObject({ code: 1, stderr: expect.stringContaining("Not today") });
    await run("agents", "create", "--name", "Guide");
    expect(await run("chat", "Guide", "Hi")).toMatchObject({
      code: 5,
      stderr: expect.stringContaining("several agents"),
    });
  });
});
