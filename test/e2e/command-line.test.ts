import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { receiver, world } from "./setup.ts";

const { errand, workspace } = await world();
const calls = receiver(() => Response.json({ said: "hello" }));

const body = {
  name: "Ask",
  input_schema: { required: ["name"], properties: { name: { type: "string" } } },
  nodes: [
    {
      node_type_name: "set_variables",
      name: "greet",
      input_config: { variables: { text: "Hi {{ name }}" } },
    },
    {
      node_type_name: "api_call",
      name: "ask",
      input_config: { url: calls.url, body: "{{ greet }}", method: "POST" },
    },
  ],
  output_mapping: { said: "{{ ask.body.said }}" },
};
const input = ["--input", '{"name":"Ada"}'];

test("a run put down beside a running server is taken up by it, and followed step by step", async () => {
  const { id } = (await errand.api<{ id: string }>("POST", `/api/workflows?${workspace}`, body)).body;
  const ran = await errand.command("workflows", "run", id, ...input, "--follow");
  expect([ran.code, JSON.parse(ran.stdout)]).toEqual([0, { said: "hello" }]);
  expect(ran.stderr).toMatch(/✓ greet .*\n.*✓ ask /);
  expect(ran.stderr).toMatch(/success in .*, 2 steps/);
  expect(JSON.parse((await calls.next()).body)).toEqual({ text: "Hi Ada" });
  const [run] = (await errand.api<{ trigger_source: string; status: string }[]>("GET", "/api/executions"))
    .body;
  expect(run).toMatchObject({ trigger_source: "command line", status: "success" });
});

test("without --follow it is left to the server, and its log can be read later", async () => {
  const file = join(errand.data, "ask.json");
  writeFileSync(file, JSON.stringify(body));
  const { code, stdout } = await errand.command("workflows", "run", file, ...input);
  expect(code).toBe(0);
  const logs = await errand.command("runs", "logs", stdout.trim(), "--follow");
  expect([logs.code, logs.stdout]).toEqual([0, expect.stringMatching(/✓ ask .*\nsuccess in /)]);
});

test("history is listed and pruned beside the server", async () => {
  const counted = JSON.parse(
    (await errand.command("prune", "--older-than", "0h", "--dry-run", "--json")).stdout,
  );
  expect(counted.executions).toBe(2);
  const pruned = JSON.parse((await errand.command("prune", "--older-than", "0h", "--json")).stdout);
  expect(pruned.executions).toBe(2);
  expect((await errand.api("GET", "/api/executions")).body).toEqual([] as never);
});
