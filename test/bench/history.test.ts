import { expect, test } from "bun:test";
import { join } from "node:path";
import { bytesEach, writeHistory } from "../../scripts/bench/history.ts";
import { openWriter } from "../../src/storage/sqlite/connection.ts";
import { migrate } from "../../src/storage/sqlite/migrate.ts";
import { discardAfterEach, scratchFolder } from "../helpers/folder.ts";

discardAfterEach();

test("one run on record becomes many, each with its step, its event and what was sent of it", () => {
  const data = scratchFolder();
  const open = () => openWriter(join(data, "errand.db"));
  const db = open();
  migrate(db, { now: 0 });
  db.run(
    `INSERT INTO executions (id, workflow_id, workspace_id, project_id, definition_hash, state, source, metadata, input,
       hop, external_calls, tokens, steps_completed, created_at, ended_at)
     VALUES ('run', 'w', 's', 'p', 'h', 'success', 'api', '{}', '{"name":"Ada"}', 0, 0, 0, 1, 5, 6)`,
  );
  db.run(
    `INSERT INTO steps (execution_id, position, seq, name, node_type_name, state, attempts, started_at)
     VALUES ('run', '0', 0, 'a', 'set_variables', 'success', 1, 5)`,
  );
  db.run(
    `INSERT INTO events (id, project_id, kind, subject_id, data, created_at)
     VALUES ('event', 'p', 'workflow.execution.completed', 'run', '{}', 6)`,
  );
  db.run(
    `INSERT INTO deliveries (id, event_id, subscription_id, kind, state, hop, body, attempts, attempts_max, created_at)
     VALUES ('delivery', 'event', 'sub', 'workflow.execution.completed', 'success', 1, '', 1, 6, 6)`,
  );
  db.close();
  Bun.gc(true); // statements of the migration hold the file until they are collected

  writeHistory(data, 1_000);

  const after = open();
  const count = (sql: string) => after.get<{ n: number }>(`SELECT count(*) AS n FROM ${sql}`)!.n;
  expect(count('executions WHERE input = \'{"name":"Ada"}\'')).toBe(1_000);
  expect(count("executions e JOIN steps s ON s.execution_id = e.id")).toBe(1_000);
  expect(count("executions e JOIN events v ON v.subject_id = e.id")).toBe(1_000);
  expect(count("events v JOIN deliveries d ON d.event_id = v.id WHERE d.subscription_id = 'sub'")).toBe(
    1_000,
  );
  expect(count("executions WHERE state = 'success'")).toBe(901);
  expect(count("(SELECT DISTINCT created_at FROM executions)")).toBe(1_000);
  after.close();
  expect(bytesEach(data, "executions", "steps")).toBeWithin(300, 3_000);
});
