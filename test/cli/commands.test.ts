import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { sqliteFolder } from "../../src/storage/sqlite/folder.ts";
import { discardAfterEach, scratchFolder } from "../helpers/folder.ts";
import { commandLine } from "./world.ts";

discardAfterEach();

type Record_ = Record<string, string>;

describe("usage", () => {
  test.each([
    [["serv"], "did you mean serve?"],
    [["keys", "creat"], "did you mean create?"],
    [["keys", "list", "--jsn"], "did you mean --json?"],
  ])("%p is answered with the nearest name", async (argv, hint) => {
    const { code, stderr, stdout } = await commandLine().run(...argv);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toStartWith("error: unknown ");
    expect(stderr).toEndWith(`hint: ${hint}\n`);
  });

  test.each([
    [["keys", "show"]],
    [["keys", "show", "a", "b"]],
    [["serve", "--port", "99999"]],
    [["completion", "tcsh"]],
    [["webhooks", "tokens", "create", "agent/7"]],
  ])("%p is a usage error", async (argv) => {
    const line = commandLine();
    await line.run("keys", "create");
    const { code, stderr } = await line.run(...argv);
    expect(code).toBe(2);
    expect(stderr).toStartWith("error: ");
  });

  test("a group without a command shows what there is", async () => {
    const { code, stderr } = await commandLine().run("keys");
    expect(code).toBe(2);
    expect(stderr).toContain("rotate");
  });

  test("help goes to standard output and is no failure", async () => {
    const { code, stdout, stderr } = await commandLine().run("serve", "--help");
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toContain("ERRAND_PORT; default: 7070");
    expect(stdout).toContain("ERRAND_SECRET_KEY");
  });

  test("every command and every option says what it does", async () => {
    const pages = [
      [],
      ["keys"],
      ["webhooks"],
      ["webhooks", "tokens"],
      ["workflows"],
      ["runs"],
      ["conversations"],
      ["triggers"],
      ["nodes"],
      ["connections"],
      ["events"],
      ["workspaces"],
      ["backup"],
      ["migrate"],
      ["config"],
    ];
    for (const page of pages) {
      const { stdout } = await commandLine().run(...page, "--help");
      const names = [...stdout.matchAll(/^ {2}([a-z]\S*)/gm)].map((match) => match[1]!);
      expect(names.length).toBeGreaterThan(1);
      for (const name of names.filter((one) => one !== "help")) {
        const help = (await commandLine().run(...page, name, "--help")).stdout;
        expect(help).toStartWith(`Usage: errand ${[...page, name].join(" ")}`);
        expect(help).not.toMatch(/^ {2}--\S+( <\S+>)?$/m);
      }
    }
  });
});

describe("a folder without a database", () => {
  test.each([[["keys", "list"]], [["webhooks", "list"]], [["workspaces", "list"]], [["backup", "create"]]])(
    "%p refuses it and makes nothing",
    async (argv) => {
      const line = commandLine();
      const { code, stderr } = await line.run(...argv);
      expect(code).toBe(5);
      expect(stderr).toContain("holds no database");
      expect(existsSync(join(line.data, "errand.db"))).toBe(false);
    },
  );

  test("is made by the first key, for unattended installations", async () => {
    const { json } = commandLine();
    const key = await json<Record_>("keys", "create", "--name", "ci");
    expect(key["key"]).toStartWith("erk_");
    expect((await json<Record_[]>("workspaces", "list"))[0]!["id"]).toBe(key["workspace_id"]!);
  });
});

describe("keys", () => {
  test("are shown once, listed without secret, rotated and revoked", async () => {
    const { run, json } = commandLine();
    const made = await json<Record_>("keys", "create", "--name", "ci");
    const listed = await run("keys", "list");
    expect(listed.stdout).toContain("ci");
    expect(listed.stdout).not.toContain(made["key"]!);
    const next = await json<Record_>("keys", "rotate", made["id"]!, "--overlap-seconds", "0");
    expect(next["key"]).not.toBe(made["key"]!);
    expect((await run("keys", "revoke", next["id"]!)).code).toBe(0);
    const states = (await json<Record_[]>("keys", "list")).map((key) => key["status"]);
    expect(states).toEqual(["expired", "revoked"]);
  });

  test("belong to the project that is named", async () => {
    const { run, json } = commandLine();
    const workspace = await json<Record_>("workspaces", "create", "Acme", "--owner", "ops@acme.example");
    const project = await json<Record_>("workspaces", "projects", "create", "Shop", "--workspace", "Acme");
    const key = await json<Record_>("keys", "create", "--workspace", "Acme", "--project", "Shop");
    expect([key["workspace_id"], key["project_id"]]).toEqual([workspace["id"], project["id"]]);
    expect((await run("keys", "create", "--project", "Nowhere")).code).toBe(5);
  });

  test("one that is not there is told, with exit code 5", async () => {
    const { run } = commandLine();
    await run("keys", "create");
    const { code, stderr } = await run("keys", "show", "7");
    expect([code, stderr]).toEqual([5, "error: key 7 not found\n"]);
  });

  test("an end in the past is a usage error", async () => {
    expect((await commandLine().run("keys", "create", "--expires", "2001-01-01")).code).toBe(2);
  });
});

test("a workspace gets an owner, who is told of failing webhooks", async () => {
  const { run, json } = commandLine();
  await run("keys", "create");
  expect(await json("workspaces", "update", "--owner-email", "ada@example.org")).toMatchObject({
    name: "Default",
    owner_email: "ada@example.org",
  });
  expect(await json("workspaces", "update", "Default", "--name", "Shop")).toMatchObject({ name: "Shop" });
  expect(await json("workspaces", "update", "Shop", "--owner-email", "")).toMatchObject({
    owner_email: null,
  });
  expect((await run("workspaces", "update")).code).toBe(2);
  expect((await run("workspaces", "update", "Elsewhere", "--name", "x")).code).toBe(5);
});

describe("webhooks", () => {
  async function setup() {
    const line = commandLine({ ERRAND_ALLOW_TARGETS: "127.0.0.1" });
    await line.run("keys", "create");
    return line;
  }

  test("are made, changed, paused, resumed and deleted", async () => {
    const { run, json } = await setup();
    const made = await json<Record_>(
      "webhooks",
      "create",
      "--url",
      "https://example.com/in",
      "--events",
      "workflow.execution.failed",
    );
    const id = made["id"]!;
    expect(made["secret"]).toStartWith("whsec_");
    expect((await json("webhooks", "update", id, "--name", "alerts"))["name"]).toBe("alerts");
    expect(await json("webhooks", "secret", id)).toMatchObject({ secret: made["secret"] });
    const rotated = await json("webhooks", "rotate-secret", id, "--overlap-seconds", "0");
    expect([rotated["secret"] === made["secret"], rotated["previous_secret"]]).toEqual([false, null]);
    expect((await run("webhooks", "rotate-secret", id, "--overlap-seconds", "soon")).code).not.toBe(0);
    expect((await json("webhooks", "pause", id))["status"]).toBe("paused");
    expect((await json("webhooks", "resume", id))["status"]).toBe("active");
    expect((await run("webhooks", "show", id)).stdout).not.toContain(made["secret"]!);
    expect(await json<unknown[]>("webhooks", "logs", id)).toEqual([]);
    expect(await json("webhooks", "stats", id)).toMatchObject({ total_deliveries: 0 });
    expect((await run("webhooks", "delete", id)).code).toBe(0);
    expect(await json<unknown[]>("webhooks", "list")).toEqual([]);
  });

  test("in every project are listed and reached by id alone", async () => {
    const { json } = await setup();
    await json("workspaces", "create", "Acme");
    const elsewhere = ["--url", "https://example.com", "--events", "*", "--workspace", "Acme"];
    const { id } = await json<Record_>("webhooks", "create", ...elsewhere);
    expect((await json<Record_[]>("webhooks", "list")).map((one) => one["id"])).toEqual([id!]);
    expect((await json("webhooks", "show", id!))["id"]).toBe(id!);
  });

  test("are checked as by the API", async () => {
    const { run } = await setup();
    const bad = await run("webhooks", "create", "--url", "http://10.0.0.1/", "--events", "workflow.exploded");
    expect(bad.code).toBe(2);
    expect((await run("webhooks", "create", "--events", "*")).stderr).toContain("url: expected");
  });

  test("take further fields from a file, single flags over it", async () => {
    const { run, json } = await setup();
    const file = join(scratchFolder(), "webhook.json");
    writeFileSync(
      file,
      JSON.stringify({ url: "https://example.com/a", events: ["*"], retry_policy: { max_retries: 2 } }),
    );
    const made = await json("webhooks", "create", "--from", file, "--url", "https://example.com/b");
    expect(made).toMatchObject({ url: "https://example.com/b", retry_policy: { max_retries: 2 } });
    writeFileSync(file, "[");
    expect((await run("webhooks", "create", "--from", file)).code).toBe(2);
  });

  test("a test send tells both sides, and fails when the receiver does", async () => {
    const { run, json } = await setup();
    let status = 204;
    const receiver = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: () => new Response(null, { status }),
    });
    const { id } = await json<Record_>("webhooks", "create", "--url", receiver.url.href, "--events", "*");
    expect((await json("webhooks", "test", id!))["success"]).toBe(true);
    const file = join(scratchFolder(), "data.json");
    writeFileSync(file, '{"message_count": 41}');
    const chosen = ["--event", "agent.conversation.completed", "--from", file];
    const { sent, verify } = await json<{ sent: { body: string }; verify: object }>(
      ...["webhooks", "test", id!],
      ...chosen,
    );
    expect(JSON.parse(sent.body)).toMatchObject({ data: { message_count: 41, test: true } });
    expect(verify).toMatchObject({ secret: expect.stringContaining(`errand webhooks secret ${id}`) });
    expect(await json("webhooks", "dry-run", id!, ...chosen)).toMatchObject({
      would_send: true,
      payload: expect.stringContaining('"data":{"message_count":41}'),
    });
    expect((await run("webhooks", "dry-run", id!)).stdout).toContain("would_send");
    expect(await json<unknown[]>("events", "list")).toEqual([]);
    expect((await run("events", "show", id!)).code).toBe(5);
    expect((await run("webhooks", "redeliver", id!, id!)).code).toBe(5);
    status = 500;
    const { code, stdout } = await run("webhooks", "test", id!);
    expect(code).toBe(5);
    expect(stdout).toContain("response_code");
    await receiver.stop(true);
  });
});

describe("backup and restore", () => {
  test("carry an installation to another folder, the key only when asked for", async () => {
    const line = commandLine();
    const key = await line.json<Record_>("keys", "create");
    await line.run("webhooks", "create", "--url", "https://example.com", "--events", "*");
    const file = join(scratchFolder(), "all");
    const without = await line.run("backup", "create", `${file}.1`);
    expect(without.stderr).toContain("holds no key");
    const made = await line.run("backup", "create", `${file}.2`, "--with-key");
    expect(made.stderr).toContain("Whoever reads it");
    expect(await line.json("backup", "verify", `${file}.2`)).toMatchObject({ has_key: true });

    const other = commandLine();
    expect((await other.run("restore", `${file}.2`)).code).toBe(0);
    expect((await other.json<Record_[]>("keys", "list"))[0]!["id"]).toBe(key["id"]!);
    expect(await other.json<unknown[]>("webhooks", "list")).toHaveLength(1);

    const third = commandLine();
    expect((await third.run("restore", `${file}.1`)).stderr).toContain("holds no key");
    const { code, stderr } = await third.run("webhooks", "list");
    expect([code, stderr]).toEqual([1, expect.stringContaining("errand.key")]);
  });

  test("nothing is overwritten without force", async () => {
    const { run, data } = commandLine();
    await run("keys", "create");
    const file = join(data, "x");
    await run("backup", "create", file);
    expect((await run("backup", "create", file)).code).toBe(5);
    expect((await run("restore", file)).code).toBe(5);
    expect((await run("restore", file, "--force")).code).toBe(0);
  });
});

describe("other processes and versions", () => {
  test("a folder in use cannot be restored into or migrated: exit code 3", async () => {
    const { run, data } = commandLine();
    await run("keys", "create");
    const lock = sqliteFolder.lock(data, { version: "1.2.3" });
    lock.announce("http://127.0.0.1:7999");
    const { code, stderr } = await run("migrate", "up");
    expect(code).toBe(3);
    expect(stderr).toContain(`process id ${process.pid}`);
    expect(stderr).toContain("http://127.0.0.1:7999");
    lock.release();
  });

  test("beside a running server, tokens get addresses of that server", async () => {
    const { run, json, data } = commandLine();
    await run("keys", "create");
    const lock = sqliteFolder.lock(data, { version: "1.2.3" });
    lock.announce("http://127.0.0.1:7999");
    const db = new Database(join(data, "errand.db"));
    const [scope] = await json<Record_[]>("workspaces", "projects", "list");
    const id = "01900000-0000-7000-8000-000000000001";
    db.run(
      `INSERT INTO agents (id, workspace_id, project_id, name, description, visibility, settings, version, created_at)
       VALUES (?, ?, ?, 'a', '', 'private', '{}', 1, 0)`,
      [id, scope!["workspace_id"]!, scope!["id"]!],
    );
    db.close();
    const made = await json<Record_>("webhooks", "tokens", "create", `agents/${id}`);
    expect(made["url"]).toStartWith(`http://127.0.0.1:7999/webhooks/agents/${id}?token=`);
    expect(await json<unknown[]>("webhooks", "tokens", "list", `agents/${id}`)).toHaveLength(1);
    expect((await run("webhooks", "tokens", "revoke", made["id"]!)).code).toBe(0);
    lock.release();
  });

  test("a database of a newer errand is refused: exit code 4", async () => {
    const { run, data } = commandLine();
    await run("keys", "create");
    const db = new Database(join(data, "errand.db"));
    db.run("PRAGMA user_version = 99");
    db.close();
    for (const argv of [
      ["keys", "list"],
      ["migrate", "status"],
      ["migrate", "up"],
      ["serve", "--port", "0"],
    ]) {
      const { code, stderr } = await run(...argv);
      expect([argv[0], code]).toEqual([argv[0], 4]);
      expect(stderr).toContain("schema 99");
    }
  });

  test("something that is no database is told: exit code 1", async () => {
    const { run, data } = commandLine();
    writeFileSync(join(data, "errand.db"), "this is not a database, however long it may be".repeat(100));
    const { code, stderr } = await run("keys", "list");
    expect(code).toBe(1);
    expect(stderr).toContain("hint: errand.db is no database");
  });

  test("a file in the place of the data folder is told: exit code 1", async () => {
    const file = join(scratchFolder(), "file");
    writeFileSync(file, "");
    const { code, stderr } = await commandLine().run("keys", "create", "--data", file);
    expect([code, stderr]).toEqual([1, expect.stringContaining("--data must name a folder")]);
  });
});

describe("config", () => {
  test("show tells values and where they come from, secrets only as being there", async () => {
    const { run, json } = commandLine({ OPENAI_API_KEY: "sk-hunter2", ERRAND_PORT: "7001" });
    const { stdout } = await run("config", "show", "--origin", "--host", "127.0.0.9");
    expect(stdout).toMatch(/^port +7001 +environment ERRAND_PORT$/m);
    expect(stdout).toMatch(/^host +127\.0\.0\.9 +--host$/m);
    expect(stdout).toMatch(/^openai_api_key +\(set, not shown\) +environment OPENAI_API_KEY$/m);
    expect(JSON.stringify(await json("config", "show"))).not.toContain("hunter2");
  });

  test("path names the file that is read", async () => {
    const { run, data } = commandLine();
    expect((await run("config", "path")).stdout).toBe(`${join(data, "errand.toml")}\n`);
  });
});

test("version tells schema and engine", async () => {
  const version = await commandLine().json("version");
  expect(version).toMatchObject({ bun: Bun.version, schema: sqliteFolder.latestSchema() });
  expect(Object.keys(version)).toEqual(["version", "commit", "bun", "sqlite", "schema", "platform"]);
});

describe("completion", () => {
  test.each(["bash", "zsh", "fish"])("%s knows commands and their options", async (shell) => {
    const { code, stdout } = await commandLine().run("completion", shell);
    expect(code).toBe(0);
    for (const word of ["rotate", "tokens", "overlap-seconds", "quiet"]) expect(stdout).toContain(word);
  });

  test("bash offers what may follow", async () => {
    const { stdout } = await commandLine().run("completion", "bash");
    const offered = (line: string) => {
      const words = line.split(" ");
      const script = `${stdout}\nCOMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length - 1}; _errand; echo "\${COMPREPLY[*]}"`;
      return Bun.spawnSync(["bash", "-c", script]).stdout.toString().trim();
    };
    expect(offered("errand key")).toBe("keys");
    expect(offered("errand webhooks tokens ")).toBe("create list revoke --help");
    expect(offered("errand keys rotate 7 --over")).toBe("--overlap-seconds");
  });
});

test("healthcheck is 1 when nothing answers, with a reason", async () => {
  const { code, stderr } = await commandLine().run("healthcheck", "--port", "1");
  expect([code, stderr]).toEqual([1, expect.stringContaining("does not answer")]);
});

describe("connections", () => {
  test("are kept, shown without their secret, changed and deleted, by name or id", async () => {
    const { data, run, json } = commandLine();
    await json("keys", "create");
    const from = join(data, "secret.json");
    writeFileSync(from, '{"token":"canary-token"}');
    const made = await json<Record_>(
      "connections",
      "create",
      "--name",
      "api",
      "--type",
      "bearer",
      "--from",
      from,
    );
    expect(made).toMatchObject({ name: "api", type: "bearer" });
    writeFileSync(from, '{"token":"canary-token","hosts":["api.example.org"]}');
    await json("connections", "update", "api", "--from", from);
    const shown = await Promise.all([
      run("connections", "list"),
      run("connections", "show", "api"),
      run("connections", "show", made["id"]!, "--json"),
    ]);
    expect(shown.map(({ code }) => code)).toEqual([0, 0, 0]);
    for (const { stdout } of shown) {
      expect(stdout).toContain("api.example.org");
      expect(stdout).not.toContain("canary");
    }
    expect(
      (await run("connections", "create", "--name", "api", "--type", "bearer", "--from", from)).code,
    ).toBe(5);
    expect(
      (await run("connections", "create", "--name", "b", "--type", "smoke", "--from", from)).code,
    ).not.toBe(0);
    expect((await run("connections", "update", "api")).code).toBe(2);
    expect((await run("connections", "delete", "api")).code).toBe(0);
    expect((await run("connections", "show", "api")).code).toBe(5);
  });
});
