import { afterEach, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { discardAfterEach } from "../helpers/folder.ts";
import { commandLine } from "./world.ts";

discardAfterEach();
const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

describe("agents", () => {
  test("are made, shown, changed, brought back and deleted", async () => {
    const { run, json, data } = commandLine();
    const made = await json("agents", "create", "--name", "Guide", "--system-prompt", "Be brief.");
    const id = made["id"] as string;
    expect(made).toMatchObject({ name: "Guide", system_prompt: "Be brief.", visibility: "private" });
    const file = join(data, "agent.json");
    writeFileSync(file, JSON.stringify({ ...made, name: "Other", recursion_limit: 3 }));
    const changed = await json("agents", "update", id, "--from", file, "--name", "Third");
    expect(changed).toMatchObject({ name: "Third", recursion_limit: 3 });
    expect(await json<unknown[]>("agents", "versions", id)).toHaveLength(2);
    expect(await json("agents", "restore", id, "1")).toMatchObject({ name: "Guide", recursion_limit: 25 });
    expect((await run("agents", "list")).stdout).toContain("Guide");
    expect((await run("agents", "delete", id)).code).toBe(0);
    const gone = await run("agents", "show", id);
    expect([gone.code, gone.stderr]).toEqual([5, expect.stringContaining("not found")]);
    expect((await run("agents", "list")).stderr).toContain("no agents yet");
  });

  test("with what an agent cannot have are refused by its name", async () => {
    const { run } = commandLine();
    const { code, stderr } = await run("agents", "create", "--name", "A", "--visibility", "secret");
    expect(code).not.toBe(0);
    expect(stderr).toContain("visibility");
    expect((await run("agents", "update", "x")).stderr).toContain("error:");
  });
});

describe("models", () => {
  const serving = (...ids: string[]) => {
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: ({ url }) =>
        new URL(url).pathname === "/v1/models"
          ? Response.json({ object: "list", data: ids.map((id) => ({ id })) })
          : new Response(null, { status: 404 }),
    });
    closing.push(() => void server.stop(true));
    return `http://127.0.0.1:${server.port}`;
  };
  type Listed = { default_model: string; providers: { provider: string; state: string; models: string[] }[] };

  test("are told with the server that has them, what is missing and what is not configured", async () => {
    const { run, json } = commandLine({
      OLLAMA_HOST: serving("llama3.2", "qwen3"),
      VLLM_BASE_URL: "http://me:hunter2@127.0.0.1:1/v1",
      ANTHROPIC_API_KEY: "sk-ant-hunter2",
    });
    const { default_model, providers } = await json<Listed>("models");
    expect(default_model).toBe("anthropic/claude-sonnet-4-5");
    const of = (name: string) => providers.find(({ provider }) => provider === name)!;
    expect(of("ollama")).toMatchObject({ state: "ready", models: ["llama3.2", "qwen3"] });
    expect(of("vllm")).toMatchObject({ state: "missing", base_url: "http://***@127.0.0.1:1/v1" });
    expect(of("anthropic")).toMatchObject({ state: "ready", models: [] });
    expect(of("groq")).toMatchObject({ state: "off", set: "GROQ_API_KEY" });
    expect(of("offline")).toMatchObject({ state: "ready" });
    const { stdout, stderr } = await run("models");
    expect(stdout).toMatch(/^ollama +ready/m);
    expect(stdout).toMatch(/^vllm +not reachable +VLLM_BASE_URL/m);
    expect(stdout).not.toContain("hunter2");
    expect(stderr).toContain("anthropic/claude-sonnet-4-5");
  });
});
