import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { chmodSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { checks, type Diagnosis } from "../../src/cli/doctor/index.ts";
import { sqliteFolder } from "../../src/storage/sqlite/folder.ts";
import { discardAfterEach } from "../helpers/folder.ts";
import { commandLine } from "./world.ts";

discardAfterEach();

/** A folder in use, with secrets in it. Port 0: nothing else on this machine may be asked. */
async function setup(env: Record<string, string> = {}) {
  const line = commandLine({ ERRAND_PORT: "0", ...env });
  await line.run("keys", "create");
  await line.run("webhooks", "create", "--url", "https://example.com", "--events", "*");
  const found = async (check: string) => {
    const { stdout } = await line.run("doctor", "--json");
    return (JSON.parse(stdout) as Diagnosis[]).find((one) => one.check === check)!;
  };
  const change = (sql: string) => {
    const db = new Database(join(line.data, "errand.db"));
    db.run(sql);
    db.close();
  };
  return { ...line, found, change };
}

test("an installation in order passes every check", async () => {
  const { run } = await setup();
  const { code, stdout } = await run("doctor");
  expect(code).toBe(0);
  expect(stdout.trim().split("\n")).toHaveLength(checks.length + 1);
  expect(stdout).not.toContain("fail");
  expect((await run("doctor", "--quiet")).stdout).toBe("");
});

test("an empty folder is no failure", async () => {
  expect((await commandLine({ ERRAND_PORT: "0" }).run("doctor")).code).toBe(0);
});

describe("notices", () => {
  test("a folder that others may read", async () => {
    const { found, data } = await setup();
    chmodSync(data, 0o755);
    expect(await found("data folder")).toMatchObject({ level: "warn", hint: `chmod 700 ${data}` });
  });

  test("the wrong key, and exits with 5", async () => {
    const { run, found, data } = await setup();
    writeFileSync(join(data, "errand.key"), `${Buffer.alloc(32, 1).toString("base64")}\n`, { mode: 0o600 });
    expect(await found("secret key")).toMatchObject({ level: "fail" });
    const { code, stderr } = await run("doctor", "--quiet");
    expect(code).toBe(5);
    expect(stderr).toContain("hint: secret key: ");
  });

  test("a key that is gone", async () => {
    const { found, data } = await setup();
    rmSync(join(data, "errand.key"));
    expect(await found("secret key")).toMatchObject({ level: "fail" });
  });

  test("a newer schema", async () => {
    const { found, change } = await setup();
    change("PRAGMA user_version = 99");
    expect(await found("schema")).toMatchObject({ level: "fail" });
  });

  test("a record from the future", async () => {
    const { found, change } = await setup();
    change(
      `INSERT INTO events VALUES ('e', 'p', 'workflow.execution.failed', 's', '{}', ${Date.now() + 3_600_000})`,
    );
    expect(await found("clock")).toMatchObject({ level: "warn" });
  });

  test("rows that refer to nothing", async () => {
    const { found, change } = await setup();
    change("INSERT INTO projects VALUES ('p', 'no such workspace', 'x', 0)");
    expect(await found("database")).toMatchObject({ level: "fail" });
  });

  test("a file that is no database", async () => {
    const { run, data } = commandLine({ ERRAND_PORT: "0" });
    writeFileSync(join(data, "errand.db"), "x".repeat(9_000));
    expect((await run("doctor")).code).toBe(5);
  });

  test("a server that runs and does not answer", async () => {
    const { found, data } = await setup();
    const lock = sqliteFolder.lock(data, { version: "1" });
    lock.announce("http://127.0.0.1:1");
    expect(await found("in use by")).toMatchObject({ level: "ok" });
    expect(await found("port")).toMatchObject({ level: "fail" });
    lock.release();
  });

  test("a server that is called by another name than its addresses say", async () => {
    const { found, data } = await setup();
    const lock = sqliteFolder.lock(data, { version: "1" });
    lock.announce("http://127.0.0.1:1");
    lock.notice("errand.example");
    expect(await found("public address")).toMatchObject({
      level: "warn",
      message: "requests come for errand.example, and webhook addresses say http://127.0.0.1:1",
    });
    lock.release();
  });

  test("another program on the port", async () => {
    const other = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("hello") });
    const { found } = await setup({ ERRAND_PORT: String(other.port) });
    expect(await found("port")).toMatchObject({ level: "warn" });
    await other.stop(true);
  });

  test.each([
    [{ ERRAND_HOST: "0.0.0.0" }, "public address"],
    [{ ERRAND_PUBLIC_URL: "http://errand.example" }, "public address"],
    [{ ERRAND_PUBLIC_URL: "https://errand.example" }, "public address"],
    [{ ERRAND_ALLOW_TARGETS: "10.0.0.0/8" }, "private targets"],
    [{ ERRAND_DEPLOYMENT: "development", ERRAND_HOST: "0.0.0.0" }, "private targets"],
  ])("%p: %s", async (env: Record<string, string>, check) => {
    const { found } = await setup(env);
    expect(await found(check)).toMatchObject({ level: "warn" });
  });
});
