import { afterAll, describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  createKey,
  discard,
  type Errand,
  freePort,
  run,
  scratch,
  startErrand,
} from "../../scripts/lib/errand.ts";
import { eventually } from "./setup.ts";

const folders: string[] = [];
const folder = () => {
  const made = scratch();
  folders.push(made);
  return made;
};
afterAll(() => folders.forEach(discard));

/** What a first start prints; it comes a moment after the first answer. */
const banner = (errand: Errand) =>
  eventually(
    async () => errand.output(),
    (output) => output.includes("curl"),
  );

describe("a start", () => {
  test("on an empty folder works, listens on loopback alone and keeps its files to itself", async () => {
    const data = join(folder(), "fresh");
    const errand = await startErrand({ data, args: ["--first-key", "always"] });
    expect(await banner(errand)).toContain("erk_");
    for (const file of ["errand.db", "errand.key", "lock.json"]) {
      expect(statSync(join(data, file)).mode & 0o077).toBe(0);
    }
    expect(await errand.stop()).toBe(0);
  });

  test("prints a curl line that works as it stands", async () => {
    const errand = await startErrand({ data: join(folder(), "d"), args: ["--first-key", "always"] });
    const line = /^ *(curl .*(?:\\\n.*)*)/m.exec(await banner(errand))?.[1] ?? "";
    const child = Bun.spawn(["sh", "-c", line], { stdout: "pipe", stderr: "ignore" });
    expect(await new Response(child.stdout).text()).toContain('0:"');
    await errand.stop();
  });

  test("on a taken port, or a folder in use, says so and ends with 3", async () => {
    const data = folder();
    const errand = await startErrand({ data });
    const port = new URL(errand.url).port;
    const taken = await run(["serve", "--data", folder(), "--port", port]);
    expect([taken.code, taken.stderr]).toEqual([3, expect.stringMatching(/^error: .*port/m)]);
    const locked = await run(["serve", "--data", data, "--port", String(await freePort())]);
    expect([locked.code, locked.stderr]).toEqual([3, expect.stringMatching(/^error: .*in use/m)]);
    expect(locked.stderr).toContain("hint:");
    await errand.stop();
  });

  test("on a database of a newer errand is refused by name with 4", async () => {
    const data = folder();
    await createKey(data);
    const { Database } = await import("bun:sqlite");
    const db = new Database(join(data, "errand.db"));
    db.run("PRAGMA user_version = 99");
    db.close();
    const refused = await run(["serve", "--data", data, "--port", "0"]);
    expect([refused.code, refused.stderr]).toEqual([4, expect.stringContaining("99")]);
  });

  test("in a hostile folder is not changed by what lies there", async () => {
    const cwd = folder();
    writeFileSync(join(cwd, ".env"), "ERRAND_PORT=1\nERRAND_NONSENSE=1\n");
    writeFileSync(join(cwd, "bunfig.toml"), 'preload = ["./evil.ts"]\n');
    writeFileSync(join(cwd, "evil.ts"), 'console.log("EVIL"); process.exit(66);\n');
    writeFileSync(join(cwd, "package.json"), '{"type":"commonjs","imports":{"#x":"./evil.ts"}}\n');
    const shown = await run(["config", "show", "--json"], { cwd });
    expect(shown.code).toBe(0);
    expect(shown.stdout + shown.stderr).not.toContain("EVIL");
    expect(shown.stdout).toContain("7070");
  });
});

test("a folder that cannot be written is refused with words", async () => {
  if (process.getuid?.() === 0) {
    const file = join(folder(), "file");
    writeFileSync(file, "");
    const refused = await run(["serve", "--data", join(file, "below"), "--port", "0"]);
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringMatching(/^error: /)]);
    return;
  }
  const data = join(folder(), "read-only");
  mkdirSync(data);
  chmodSync(data, 0o500);
  const refused = await run(["serve", "--data", data, "--port", "0"]);
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringMatching(/^error: /)]);
});

describe("a stop", () => {
  test("lets a request under way end and refuses new ones", async () => {
    const data = folder();
    const key = await createKey(data);
    let release: () => void = () => {};
    const slow = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: () =>
        new Promise<Response>((resolve) => {
          release = () => resolve(Response.json({ ok: true }));
        }),
    });
    const errand = await startErrand({ data, key, env: { ERRAND_ALLOW_TARGETS: "127.0.0.1" } });
    const workflow = await errand.api<{ id: string }>(
      "POST",
      `/api/workflows?workspace_id=${key.workspace_id}`,
      {
        nodes: [
          {
            node_type_name: "api_call",
            name: "call",
            input_config: { url: `http://127.0.0.1:${slow.port}/` },
          },
        ],
      },
    );
    const answered = errand.api("POST", `/api/workflows/${workflow.body.id}/executions`, {
      response_type: "result",
    });
    while (slow.pendingRequests === 0) await Bun.sleep(2);
    const stopped = errand.stop();
    await Bun.sleep(50);
    release();
    expect(await answered).toMatchObject({ status: 200, body: { status: "success" } });
    expect(await stopped).toBe(0);
    slow.stop(true);
  });
});

describe("a backup", () => {
  test("made while the server runs can be verified and brought back elsewhere, keys and all", async () => {
    const data = folder();
    const key = await createKey(data);
    const errand = await startErrand({ data, key });
    const agent = await errand.api<{ id: string }>("POST", `/api/agents?workspace_id=${key.workspace_id}`, {
      name: "kept",
    });
    const file = join(folder(), "copy.errand-backup");
    expect((await errand.command("backup", "create", file, "--with-key")).code).toBe(0);
    expect((await run(["backup", "verify", file])).code).toBe(0);
    expect((await errand.command("restore", file)).code).toBe(3);
    await errand.stop();

    const elsewhere = join(folder(), "restored");
    const restored = await run(["restore", file, "--data", elsewhere]);
    expect([restored.code, restored.stderr]).toEqual([0, expect.any(String)]);
    const second = await startErrand({ data: elsewhere, key });
    expect((await second.api("GET", `/api/agents/${agent.body.id}`)).status).toBe(200);
    await second.stop();
  });
});

test("errand demo runs the whole loop, in under three seconds, and leaves nothing behind", async () => {
  const began = performance.now();
  const demo = await run(["demo"], { cwd: folder() });
  expect(demo.code).toBe(0);
  expect(performance.now() - began).toBeLessThan(3_000);
  expect(demo.stdout + demo.stderr).toMatch(
    /streamed[\s\S]*webhook accepted[\s\S]*delivery received[\s\S]*verified/,
  );
});
