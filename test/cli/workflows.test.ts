import { describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { newId } from "../../src/lib/ids.ts";
import { sqliteFolder } from "../../src/storage/sqlite/folder.ts";
import { discardAfterEach } from "../helpers/folder.ts";
import { commandLine } from "./world.ts";

discardAfterEach();

const greet = (text: string) => ({
  name: "Greet",
  input_schema: { required: ["name"], properties: { name: { type: "string" } } },
  nodes: [{ node_type_name: "set_variables", name: "greet", input_config: { variables: { text } } }],
});
const broken = {
  ...greet("x"),
  nodes: [
    {
      node_type_name: "api_call",
      name: "ask",
      input_config: { url: "http://127.0.0.1:9/", _options: { retry: { max_attempts: 1 } } },
    },
  ],
};

/** A command line and a way to write the files it reads. */
function world() {
  const line = commandLine();
  const file = (name: string, content: unknown) => {
    const path = join(line.data, name);
    writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
    return path;
  };
  return { ...line, file };
}
type Made = { id: string; name: string };

describe("workflows run FILE", () => {
  test("runs in this process where no server does, prints the output as data and the rest as words", async () => {
    const { run, file } = world();
    const path = file("greet.json", greet("Hi {{ name }}"));
    const ran = await run("workflows", "run", path, "--input", '{"name":"Ada"}', "--follow");
    expect([ran.code, JSON.parse(ran.stdout)]).toEqual([0, { text: "Hi Ada" }]);
    expect(ran.stderr).toMatch(/ ms {2}✓ greet +set_variables +\d+ ms\n/);
    expect(ran.stderr).toMatch(/success in \d+ ms, 1 step\n$/);
  });

  test("again after an edit runs the edit, and leaves one workflow", async () => {
    const { run, json, file } = world();
    const input = ["--input", '{"name":"Ada"}'];
    const path = file("greet.json", { ...greet("one"), output_mapping: { said: "{{ greet.text }}" } });
    expect(JSON.parse((await run("workflows", "run", path, ...input)).stdout)).toEqual({ said: "one" });
    file("greet.json", greet("two"));
    expect(JSON.parse((await run("workflows", "run", path, ...input)).stdout)).toEqual({ text: "two" });
    expect(await json<Made[]>("workflows", "list")).toHaveLength(1);
    expect(await json("runs", "list")).toHaveLength(2);
  });

  test("tells of a run that fails by its exit code, and why in words", async () => {
    const { run, file } = world();
    const path = file("broken.json", broken);
    const { code, stdout, stderr } = await run("workflows", "run", path, "--input", '{"name":"A"}', "--json");
    expect([code, JSON.parse(stdout).status]).toEqual([1, "failed"]);
    expect(stderr).toContain("failed in");
    expect(stderr).toContain("ask: BLOCKED");
  });

  test("lets the folder go when it is done", async () => {
    const { run, file, data } = world();
    await run("workflows", "run", file("greet.json", greet("x")), "--input", '{"name":"A"}');
    expect(sqliteFolder.holder(data)).toBeUndefined();
  });

  test.each([
    [["--input", "{"], "--input: "],
    [["--input", "[]"], "input_data"],
    [["--input", "{}"], "input_data.name"],
    [["--input", '{"name":1}'], "input_data.name"],
    [["--version", "one"], "--version"],
  ])("%p is refused in words", async (flags, words) => {
    const { run, file } = world();
    const { code, stdout, stderr } = await run("workflows", "run", file("greet.json", greet("x")), ...flags);
    expect([code === 0, stdout]).toEqual([false, ""]);
    expect(stderr).toContain(`error: ${words}`);
  });

  test("what is neither a file nor an id is refused", async () => {
    const { code, stderr } = await world().run("workflows", "run", "nothing.json");
    expect([code, stderr]).toEqual([5, expect.stringContaining("neither a file nor a workflow's id")]);
  });
});

describe("workflows", () => {
  test("are made, shown, listed, changed and deleted", async () => {
    const { run, json, file } = world();
    const { id } = await json<Made>("workflows", "create", "--from", file("a.json", greet("x")));
    expect(await json("workflows", "show", id)).toMatchObject({ name: "Greet", user_id: "command line" });
    expect((await run("workflows", "show", id)).stdout).toContain("name (required)");
    await json("workflows", "update", id, "--from", file("b.json", { name: "New" }));
    expect(await json<Made[]>("workflows", "list")).toMatchObject([{ id, name: "New" }]);
    expect((await run("workflows", "delete", id)).code).toBe(0);
    expect((await run("workflows", "show", id)).code).toBe(5);
    expect((await run("workflows", "show", newId())).code).toBe(5);
    expect((await run("workflows", "create")).code).toBe(2);
  });

  test("are published, and run as they were published whatever is saved", async () => {
    const { run, json, file } = world();
    const { id } = await json<Made>("workflows", "create", "--from", file("a.json", greet("one")));
    expect(await json("workflows", "publish", id, "--description", "first")).toMatchObject({ version: 1 });
    await run("workflows", "update", id, "--from", file("b.json", greet("two")));
    const output = async (...more: string[]) => {
      const { stdout } = await run("workflows", "run", id, "--input", '{"name":"A"}', ...more);
      return JSON.parse(stdout).text;
    };
    expect([await output(), await output("--version", "draft")]).toEqual(["one", "two"]);
    await json("workflows", "publish", id);
    expect([await output(), await output("--version", "1")]).toEqual(["two", "one"]);
    expect(await json("workflows", "versions", id)).toMatchObject([
      { version: 2, is_published: true },
      { version: 1, is_published: false },
    ]);
    await json("workflows", "publish", id, "--version", "1");
    expect(await output()).toBe("one");
    await json("workflows", "restore", id, "1");
    expect((await run("workflows", "publish", id, "--none")).stderr).toContain("the draft runs");
    expect(await output()).toBe("one");
  });

  test("go out as a file and come in from it", async () => {
    const { run, json, file, data } = world();
    const { id } = await json<Made>("workflows", "create", "--from", file("a.json", greet("x")));
    const out = join(data, "out.json");
    await json("workflows", "settings", id, "--from", file("s.json", { retention: { days: 2 } }));
    expect((await run("workflows", "export", id, out)).code).toBe(0);
    expect(JSON.parse(readFileSync(out, "utf8")).format).toBe("errand.workflow");
    const made = await json<Made>("workflows", "import", out);
    expect(made.id).not.toBe(id);
    expect(await json("workflows", "settings", made.id)).toMatchObject({
      retention: { days: 2, max_executions: null },
    });
    expect((await run("workflows", "import", file("c.json", "[]"))).code).toBe(2);
  });

  test("are validated with every fault, from a file or from the folder", async () => {
    const { run, json, file } = world();
    const { id } = await json<Made>("workflows", "create", "--from", file("a.json", greet("x")));
    expect((await run("workflows", "validate", id)).code).toBe(0);
    const wrong = file("b.json", { nodes: [{ node_type_name: "nothing", name: "run", input_config: {} }] });
    const { code, stdout } = await run("workflows", "validate", wrong);
    expect(code).toBe(5);
    expect(stdout).toContain("nodes.0.name");
    expect(stdout).toContain("nodes.0.node_type_name");
  });
});

describe("runs", () => {
  test("are listed by state and workflow, shown with steps and told step by step", async () => {
    const { run, json, file } = world();
    await run("workflows", "run", file("a.json", greet("x")), "--input", '{"name":"A"}');
    await run("workflows", "run", file("b.json", { ...broken, name: "B" }), "--input", '{"name":"A"}');
    const [failed] = await json<{ id: string; workflow_id: string }[]>("runs", "list", "--status", "failed");
    expect(await json("runs", "list", "--workflow", failed!.workflow_id)).toHaveLength(1);
    expect(await json<Made[]>("runs", "list", "--source", "api")).toEqual([]);
    expect(await json("runs", "show", failed!.id)).toMatchObject({
      steps: [{ name: "ask", status: "failed" }],
    });
    const logs = await run("runs", "logs", failed!.id, "--follow");
    expect([logs.code, logs.stdout]).toEqual([1, expect.stringMatching(/✗ ask .*\nfailed in .*BLOCKED/)]);
    expect((await run("runs", "list", "--status", "done")).code).toBe(2);
    expect((await run("runs", "show", newId())).code).toBe(5);
  });

  test("that failed go on over what was done, and any runs again, with another input too", async () => {
    const { run, json, file } = world();
    const nodes = [greet("Hi {{ name }}").nodes[0], broken.nodes[0]];
    await run("workflows", "run", file("b.json", { ...broken, nodes }), "--input", '{"name":"A"}');
    const [failed] = await json<Made[]>("runs", "list");
    const retried = await run("runs", "retry", failed!.id, "--follow");
    expect([retried.code, retried.stderr]).toEqual([1, expect.stringContaining("ask: BLOCKED")]);
    await run("workflows", "run", file("a.json", greet("Hi {{ name }}")), "--input", '{"name":"A"}');
    const [good] = await json<Made[]>("runs", "list", "--status", "success");
    const output = async (...argv: string[]) => JSON.parse((await run("runs", ...argv)).stdout).text;
    expect(await output("replay", good!.id)).toBe("Hi A");
    expect(await output("replay", good!.id, "--input", '{"name":"B"}')).toBe("Hi B");
    expect((await run("runs", "retry", good!.id)).code).not.toBe(0);
    expect((await run("runs", "replay", good!.id, "--input", "{}")).code).toBe(2);
  });

  test("that have ended cannot be cancelled", async () => {
    const { run, json, file } = world();
    await run("workflows", "run", file("a.json", greet("x")), "--input", '{"name":"A"}');
    const [one] = await json<Made[]>("runs", "list");
    const { code, stderr } = await run("runs", "cancel", one!.id);
    expect([code === 0, stderr]).toEqual([false, expect.stringContaining("has ended already")]);
  });
});

describe("nodes", () => {
  test("are listed, and shown with what they take and give", async () => {
    const { run, json } = world();
    expect(await json("nodes", "list")).toContainEqual(expect.objectContaining({ name: "api_call" }));
    expect(await json("nodes", "show", "api_call")).toMatchObject({ input_schema: { required: ["url"] } });
    expect((await run("nodes", "show", "api_call")).stdout).toMatch(/url +string +yes/);
    expect((await run("nodes", "show", "api_cal")).stderr).toContain("did you mean api_call?");
  });
});
