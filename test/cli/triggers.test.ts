import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { AUTHENTICATION_TYPES } from "../../src/triggers/authentication/index.ts";
import { discardAfterEach } from "../helpers/folder.ts";
import { commandLine } from "./world.ts";

discardAfterEach();

type Made = { id: string; url: string; secret?: string; trigger_config: { path: string } };

async function withAgent() {
  const line = commandLine({ ERRAND_PUBLIC_URL: "https://errand.example" });
  const agent = (await line.json<{ id: string }>("agents", "create", "--name", "Guide")).id;
  const file = (name: string, content: string) => {
    const path = join(line.data, name);
    writeFileSync(path, content);
    return path;
  };
  return { ...line, agent, file };
}

describe("triggers", () => {
  test("are made with their ready address, shown without secrets, changed and deleted", async () => {
    const { run, json, agent, file } = await withAgent();
    expect((await run("triggers", "list")).stderr).toContain("no triggers yet");
    const secret = file("secret", "gh-secret-of-mine\n");
    const made = await run(
      "triggers",
      "create",
      agent,
      "--auth",
      "github",
      "--secret-from",
      secret,
      "--name",
      "Pushes",
    );
    expect([made.code, made.stdout.includes("gh-secret")]).toEqual([0, false]);
    const [listed] = await json<Made[]>("triggers", "list");
    const { id, trigger_config } = listed!;
    expect(made.stdout).toContain(`https://errand.example/api/agents/webhook/${trigger_config.path}/trigger`);
    expect(await json<Made[]>("triggers", "list", "--agent", agent)).toHaveLength(1);
    const changed = await json(
      "triggers",
      "update",
      id,
      "--message",
      "{{ event.body.ref }}",
      "--method",
      "post",
      "--active",
      "no",
    );
    expect(changed).toMatchObject({
      trigger_config: { method: "POST", auth_config: { type: "github" } },
      task_config: { message: "{{ event.body.ref }}" },
      is_active: false,
    });
    const back = file("trigger.json", JSON.stringify({ ...changed, name: "Again" }));
    expect(await json("triggers", "update", id, "--from", back, "--method", "any")).toMatchObject({
      name: "Again",
      trigger_config: { method: null },
    });
    expect((await run("triggers", "show", id)).stdout).not.toContain("gh-secret");
    expect((await run("triggers", "delete", id)).code).toBe(0);
    expect((await run("triggers", "show", id)).code).toBe(5);
  });

  test("show a secret that was made for them once, and exchange it", async () => {
    const { run, json, agent, file } = await withAgent();
    const { id, secret } = await json<Made>("triggers", "create", agent, "--auth", "bearer");
    expect(secret).toStartWith("ett_");
    expect((await run("triggers", "show", id, "--json")).stdout).not.toContain(secret!);
    const rotated = await run("triggers", "rotate-secret", id, "--overlap-seconds", "0");
    expect([rotated.code, rotated.stderr]).toEqual([
      0,
      "This is the only time the secret is shown.\nThe old secret counts no more.\n",
    ]);
    const given = await json<Made>(
      "triggers",
      "rotate-secret",
      id,
      "--secret-from",
      file("next", "my-own-token"),
    );
    expect(given.secret).toBeUndefined();
  });

  test("are told of with every way to know a sender", async () => {
    const { stdout } = await commandLine().run("triggers", "create", "--help");
    expect(stdout.replace(/\s+/g, " ")).toContain(AUTHENTICATION_TYPES.join(", "));
  });

  test("tell what called them: nothing yet", async () => {
    const { run, agent, json } = await withAgent();
    const { id } = await json<Made>("triggers", "create", agent, "--auth", "none");
    expect((await run("triggers", "events", id)).stderr).toBe("nothing has called it yet\n");
    const { code, stderr } = await run("triggers", "redeliver", id, crypto.randomUUID());
    expect([code, stderr]).toEqual([5, expect.stringContaining("not found")]);
  });

  test("with what makes no trigger are refused in words", async () => {
    const { run, agent, file } = await withAgent();
    const secret = file("secret", "x");
    for (const [argv, words] of [
      [["create", agent], "trigger_config"],
      [["create", agent, "--auth", "magic"], "auth_config.type"],
      [["create", agent, "--auth", "stripe"], "auth_config.secret"],
      [["create", agent, "--auth", "none", "--secret-from", secret], "has no secret"],
      [["create", agent, "--secret-from", secret], "without --auth"],
      [["create", agent, "--auth", "bearer", "--secret-from", "/nonexistent"], "--secret-from"],
      [["create", agent, "--auth", "none", "--message", "{{ body }}"], "task_config.message"],
      [["create", agent, "--auth", "none", "--active", "maybe"], "yes or no"],
      [["create", crypto.randomUUID(), "--auth", "none"], "not found"],
      [["update", crypto.randomUUID()], "nothing to change"],
      [["show", "x"], "not found"],
    ] as [string[], string][]) {
      const { code, stderr } = await run("triggers", ...argv);
      expect([argv, code !== 0, stderr]).toEqual([argv, true, expect.stringContaining(words)]);
    }
  });
});
