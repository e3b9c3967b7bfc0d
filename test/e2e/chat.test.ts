import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { tmpdir } from "node:os";
import { BINARY } from "../../scripts/lib/errand.ts";
import { chatServer } from "../models/chat-server.ts";
import { world } from "./setup.ts";

setDefaultTimeout(30_000); // each runs several programs
const model = chatServer();
afterAll(model.close);
const { errand, workspace } = await world({ env: { OPENAI_BASE_URL: model.url } });
const { body: agent } = await errand.api<{ id: string }>("POST", `/api/agents?${workspace}`, {
  name: "Guide",
  auto_generate_title: false,
});

// Nothing of the server's surroundings: its models are its own.
const chat = (...args: string[]) =>
  Bun.spawn([BINARY, "chat", "Guide", ...args, "--data", errand.data], {
    cwd: tmpdir(),
    env: { PATH: process.env["PATH"] ?? "", HOME: errand.data },
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
  });

describe("errand chat beside a server", () => {
  test("talks to the server's model, word by word", async () => {
    const talk = chat("Hi");
    const reader = talk.stdout.getReader();
    const call = await model.next();
    call.say("Hel");
    expect(new TextDecoder().decode((await reader.read()).value)).toBe("Hel");
    call.say("lo").finish();
    expect(new TextDecoder().decode((await reader.read()).value)).toBe("lo");
    expect(await talk.exited).toBe(0);
  });

  test("takes a message from a pipe", async () => {
    const talk = chat("--json");
    talk.stdin.write("From a pipe");
    talk.stdin.end();
    const call = await model.next();
    expect(call.body.messages.at(-1).content).toBe("From a pipe");
    call.say("Yes").finish();
    expect(JSON.parse(await new Response(talk.stdout).text())).toMatchObject({ reply: "Yes" });
  });

  test("stops the answer at Ctrl-C; what came is kept", async () => {
    const talk = chat("Hi", "--conversation", "stopped");
    const reader = talk.stdout.getReader();
    const call = await model.next();
    call.say("Hel");
    await reader.read();
    const gone = new Promise((resolve) => call.gone.addEventListener("abort", resolve));
    talk.kill("SIGINT");
    await gone;
    expect(await talk.exited).toBe(130);
    const { body } = await errand.api<{ messages: { status: string; content: string }[] }>(
      "GET",
      `/api/agents/${agent.id}/conversations/stopped`,
    );
    expect(body.messages.at(-1)).toMatchObject({ status: "stopped", content: "Hel" });
  });

  test.each([{ signals: ["SIGHUP"] }, { signals: ["SIGTERM"] }, { signals: ["SIGINT", "SIGINT"] }] as const)(
    "leaves no key behind, however it ends (%j)",
    async ({ signals }) => {
      const talk = chat("Hi");
      const reader = talk.stdout.getReader();
      const call = await model.next();
      call.say("Hel");
      await reader.read();
      const keys = async () => {
        const { stdout } = await errand.command("keys", "list", "--json");
        return (JSON.parse(stdout) as { name: string }[]).map(({ name }) => name);
      };
      expect(await keys()).toContain("errand chat");
      for (const signal of signals) talk.kill(signal);
      expect(await talk.exited).toBe(130);
      expect(await keys()).not.toContain("errand chat");
    },
  );
});
