import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { copyFileSync } from "node:fs";
import { openStorage } from "../../../src/storage/sqlite/open.ts";
import { databasePath } from "../../../src/storage/sqlite/paths.ts";
import { discardAfterEach, scratchFolder } from "../../helpers/folder.ts";

discardAfterEach();

test("a database whose first transactions a kill cut short is brought in order by the next start", async () => {
  const [before, after] = [scratchFolder(), scratchFolder()];
  const db = new Database(databasePath(before), { create: true });
  db.run("PRAGMA journal_mode = DELETE");
  db.run("PRAGMA cache_size = 1"); // so that pages are written before the commit, which never comes
  db.run("BEGIN");
  db.run("CREATE TABLE early (text TEXT)");
  for (let n = 0; n < 50; n++) db.run("INSERT INTO early VALUES (hex(randomblob(2000)))");
  for (const suffix of ["", "-journal"])
    copyFileSync(databasePath(before) + suffix, databasePath(after) + suffix);
  db.run("ROLLBACK");
  db.close();
  const lost: string[] = [];
  const storage = await openStorage({
    folder: after,
    now: 0,
    lost: (reason) => lost.push(reason),
    migrating: () => {},
  });
  await storage.opened;
  expect(storage.reader.all("SELECT name FROM sqlite_master WHERE name = 'early'")).toEqual([]);
  await storage.close();
  expect(lost).toEqual([]);
});
