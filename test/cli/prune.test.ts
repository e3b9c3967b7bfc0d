import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { discardAfterEach } from "../helpers/folder.ts";
import { commandLine } from "./world.ts";

discardAfterEach();

test("prune counts on request, deletes what is older than asked, and refuses what is no age", async () => {
  const { run, json, data } = commandLine();
  const path = join(data, "a.json");
  writeFileSync(
    path,
    JSON.stringify({
      nodes: [{ node_type_name: "set_variables", name: "a", input_config: { variables: {} } }],
    }),
  );
  await run("workflows", "run", path);
  const db = new Database(join(data, "errand.db"));
  db.run("UPDATE executions SET created_at = created_at - 172800000, ended_at = ended_at - 172800000");
  db.close();
  expect(await json("prune")).toMatchObject({ executions: 0 });
  expect(await json("prune", "--older-than", "36h", "--dry-run")).toMatchObject({ executions: 1 });
  expect((await run("prune", "--older-than", "1d")).stdout).toMatch(/executions +1\n/);
  expect(await json<object[]>("runs", "list")).toEqual([]);
  for (const age of ["", "30", "d", "-1d", "1.5d", "30m"]) {
    expect([age, (await run("prune", "--older-than", age)).code]).toEqual([age, 2]);
  }
});
