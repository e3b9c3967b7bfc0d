import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { EXIT } from "../../../src/cli/exit.ts";
import { explain } from "../../../src/failures.ts";
import { Connection, openReader } from "../../../src/storage/sqlite/connection.ts";
import { migrate, type Step, schemaVersion } from "../../../src/storage/sqlite/migrate.ts";
import { migrations } from "../../../src/storage/sqlite/migrations.ts";
import { databasePath } from "../../../src/storage/sqlite/paths.ts";
import { startWorker } from "../../../src/storage/sqlite/worker-transport.ts";
import { createWriter } from "../../../src/storage/sqlite/writer.ts";
import { discardAfterEach, scratchFolder } from "../../helpers/folder.ts";

discardAfterEach();

test("a file that the writer thread cannot open is a failure with a hint, not a crash", async () => {
  const thread = startWorker(() => {});
  try {
    // A folder in the place of the file: a full disk or a failing one comes the same way.
    const failure = await thread.open(scratchFolder()).then(
      () => undefined,
      (error) => explain(error),
    );
    expect(failure?.code).toBe(EXIT.failed);
    expect(failure?.message).not.toContain(" at ");
    expect(failure?.hint).toContain("writable");
  } finally {
    thread.end();
  }
});

test("whoever writes through a thread without a file is told why there is none", async () => {
  const thread = startWorker(() => {});
  try {
    await thread.open(scratchFolder()).catch(() => {});
    const writer = createWriter(thread);
    const failure = await writer.submit("storage.probe", 0).catch((error) => explain(error));
    expect(failure).toMatchObject({ code: EXIT.failed, message: "unable to open database file" });
  } finally {
    thread.end();
  }
});

test("an older database is brought up to date by the thread, which tells of each step, after a copy of it", async () => {
  const folder = scratchFolder();
  const old = new Connection(new Database(databasePath(folder), { create: true, strict: true }));
  migrate(old, { now: 0, list: migrations.slice(0, -2) });
  old.close();
  const steps: Step[] = [];
  const thread = startWorker(() => {});
  await thread.prepare(folder, 7, (step) => steps.push(step));
  const [first, second] = migrations.slice(-2);
  expect(steps).toEqual([
    { name: first!.name, at: 1, of: 2 },
    { name: second!.name, at: 2, of: 2 },
  ]);
  const reader = openReader(databasePath(folder));
  expect(schemaVersion(reader)).toBe(second!.version);
  reader.close();
  await thread.close();
  const [copy] = readdirSync(join(folder, "backups"));
  expect(copy).toStartWith(`before-schema-${first!.version}-`);
});

test("a new folder is given its database by the thread, and no step is told", async () => {
  const folder = scratchFolder();
  const thread = startWorker(() => {});
  await thread.prepare(folder, 7, () => expect.unreachable());
  const reader = openReader(databasePath(folder));
  expect(schemaVersion(reader)).toBe(migrations.at(-1)!.version);
  reader.close();
  await thread.close();
});
