import { expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { FolderLocked } from "../../../src/storage/folder.ts";
import { lockFolder, lockHolder } from "../../../src/storage/sqlite/lock.ts";
import { discardAfterEach, scratchFolder } from "../../helpers/folder.ts";

discardAfterEach();

test("a folder is held by one, who says who it is", () => {
  const folder = scratchFolder();
  const lock = lockFolder(folder, { version: "1.2.3", now: 0 });
  lock.announce("http://127.0.0.1:7070");
  expect(() => lockFolder(folder, { version: "1.2.3" })).toThrow(FolderLocked);
  expect(lockHolder(folder)).toMatchObject({
    pid: process.pid,
    version: "1.2.3",
    started_at: "1970-01-01T00:00:00.000Z",
    url: "http://127.0.0.1:7070",
  });
  lock.release();
});

test("a holder whose time runs fast says how", () => {
  const folder = scratchFolder();
  const pace = { scale: 60, from: 1_000 };
  const lock = lockFolder(folder, { version: "1", pace });
  expect(lockHolder(folder)?.pace).toEqual(pace);
  lock.release();
  const plain = lockFolder(folder, { version: "1" });
  expect(lockHolder(folder)?.pace).toBeNull();
  plain.release();
});

test("a folder that was let go is free", () => {
  const folder = scratchFolder();
  lockFolder(folder, { version: "1" }).release();
  expect(lockHolder(folder)).toBeUndefined();
  lockFolder(folder, { version: "1" }).release();
});

test("what a dead holder left behind holds nothing", () => {
  const folder = scratchFolder();
  lockFolder(folder, { version: "1" }).release();
  writeFileSync(join(folder, "lock.json"), JSON.stringify({ pid: 1, url: "http://127.0.0.1:1" }));
  expect(lockHolder(folder)).toBeUndefined();
});

test("a holder whose note cannot be read still holds", () => {
  const folder = scratchFolder();
  const lock = lockFolder(folder, { version: "1" });
  writeFileSync(join(folder, "lock.json"), "{");
  expect(lockHolder(folder)).toMatchObject({ pid: null, url: null });
  lock.release();
});

test("a folder that was never held has no holder, and looking makes no file", () => {
  const folder = scratchFolder();
  expect(lockHolder(folder)).toBeUndefined();
  expect(() => readFileSync(join(folder, "lock.db"))).toThrow();
});

test("the lock survives the collection of garbage", () => {
  const folder = scratchFolder();
  const { release } = lockFolder(folder, { version: "1" });
  Bun.gc(true);
  expect(() => lockFolder(folder, { version: "1" })).toThrow(FolderLocked);
  release();
});
