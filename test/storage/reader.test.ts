import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openReader, openWriter } from "../../src/storage/sqlite/connection.ts";

const folder = mkdtempSync(join(tmpdir(), "errand-test-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let files = 0;
function setup() {
  const path = join(folder, `${files++}.db`);
  const writer = openWriter(path);
  writer.run("CREATE TABLE t (x INTEGER) STRICT");
  const reader = openReader(path);
  const count = () => reader.get<{ n: number }>("SELECT count(*) AS n FROM t")!.n;
  const add = () => writer.run("INSERT INTO t VALUES (1)");
  return { reader, count, add };
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

describe("reads of one turn", () => {
  test("see one state of the database, and the next turn sees what came since", async () => {
    const { count, add } = setup();
    expect(count()).toBe(0);
    add();
    expect(count()).toBe(0);
    await nextTurn();
    expect(count()).toBe(1);
  });

  test("see a commit as soon as somebody is told of it", () => {
    const { reader, count, add } = setup();
    expect(count()).toBe(0);
    add();
    reader.refresh();
    expect(count()).toBe(1);
  });

  test("that ask for the same thing ask the database once", async () => {
    const { reader, count, add } = setup();
    let asked = 0;
    const shared = () =>
      reader.shared("count", () => {
        asked++;
        return count();
      });
    expect([shared(), shared(), asked]).toEqual([0, 0, 1]);
    add();
    await nextTurn();
    expect([shared(), asked]).toEqual([1, 2]);
  });

  test("that share something share it until somebody commits", async () => {
    const { reader, count, add } = setup();
    let asked = 0;
    const shared = () => reader.shared("count", () => ++asked && count());
    expect(shared()).toBe(0);
    await nextTurn();
    reader.refresh();
    expect([shared(), asked]).toEqual([0, 1]);
    await nextTurn();
    add();
    expect([shared(), asked]).toEqual([1, 2]);
    for (let n = 0; n < 1_100; n++) reader.shared(`key ${n}`, () => n);
    await nextTurn();
    expect([shared(), asked]).toEqual([1, 3]);
  });

  test("go on after a failure that ended what they saw", () => {
    const { reader, count, add } = setup();
    expect(count()).toBe(0);
    reader.raw.run("ROLLBACK"); // as SQLite does by itself on an I/O error
    add();
    reader.refresh();
    expect(count()).toBe(1);
  });

  test("cannot write", () => {
    const { reader } = setup();
    expect(() => reader.run("INSERT INTO t VALUES (1)")).toThrow();
    reader.close();
  });
});
