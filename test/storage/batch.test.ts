import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { AppError } from "../../src/lib/errors.ts";
import { type Call, runBatch } from "../../src/storage/sqlite/batch.ts";
import { Connection } from "../../src/storage/sqlite/connection.ts";

const operations = {
  add: (db: Connection, id: number) => db.run("INSERT INTO t VALUES (?)", id),
  addTwice: (db: Connection, id: number) => {
    db.run("INSERT INTO t VALUES (?)", id);
    db.run("INSERT INTO t VALUES (?)", id);
  },
  count: (db: Connection, id: number) => {
    const sum = db.tally(
      "t",
      () => ({ ids: 0, times: 0 }),
      ({ ids, times }) => db.run("INSERT INTO t VALUES (?)", ids * 100 + times),
    );
    sum.ids += id;
    sum.times++;
  },
  told: (db: Connection) => {
    db.tell("t");
    return db.get<{ id: number }>("SELECT max(id) AS id FROM t")?.id;
  },
  refuse: (db: Connection, id: number) => {
    db.run("INSERT INTO t VALUES (?)", id);
    throw new AppError("conflict", "no");
  },
};

function setup() {
  const db = new Connection(new Database(":memory:", { strict: true }));
  db.run("CREATE TABLE t (id INTEGER PRIMARY KEY) STRICT");
  const call = (name: keyof typeof operations, args: unknown): Call => ({ name, args, durable: true });
  return {
    db,
    call,
    run: (...calls: Call[]) => runBatch(db, operations, calls),
    ids: () => db.all<{ id: number }>("SELECT id FROM t ORDER BY id").map((row) => row.id),
  };
}

describe("a batch", () => {
  test("runs every operation in one transaction and answers in order", () => {
    const { run, call, ids } = setup();
    expect(run(call("add", 1), call("add", 2))).toEqual([
      { ok: true, value: 1 },
      { ok: true, value: 1 },
    ]);
    expect(ids()).toEqual([1, 2]);
  });

  test("refuses only the operation that threw, and leaves nothing of it", () => {
    const { run, call, ids } = setup();
    const outcomes = run(call("add", 1), call("addTwice", 5), call("refuse", 7), call("add", 2));
    expect(outcomes.map((outcome) => outcome.ok)).toEqual([true, false, false, true]);
    expect(outcomes[2]).toEqual({ ok: false, error: { message: "no", code: "conflict" } });
    expect(ids()).toEqual([1, 2]);
  });

  test("refuses every operation when the disk is full, and works again when there is room", () => {
    const { db, run, call, ids } = setup();
    const pages = db.get<{ page_count: number }>("PRAGMA page_count")!.page_count;
    db.raw.run(`PRAGMA max_page_count = ${pages}`);
    const many = Array.from({ length: 2_000 }, (_, id) => call("add", id));
    const outcomes = run(...many);
    expect(outcomes.every((outcome) => !outcome.ok && outcome.error.storage === "SQLITE_FULL")).toBe(true);
    expect(ids()).toEqual([]);
    db.raw.run(`PRAGMA max_page_count = ${pages + 1_000}`);
    expect(run(call("add", 1))).toEqual([{ ok: true, value: 1 }]);
  });

  test("syncs for a durable operation and not for lazy ones", () => {
    const { db, run, call } = setup();
    const level = () => db.raw.query("PRAGMA synchronous").get();
    run({ ...call("add", 1), durable: false });
    expect(level()).toEqual({ synchronous: 1 });
    run({ ...call("add", 2), durable: false }, call("add", 3));
    expect(level()).toEqual({ synchronous: 2 });
  });

  test("writes a sum once before its commit, and at once for who asks", () => {
    const { run, call, ids } = setup();
    run(call("count", 1), call("count", 2), call("count", 4));
    expect(ids()).toEqual([703]);
    const outcomes = run(call("count", 8), call("told", 0), call("count", 1));
    expect(outcomes[1]).toEqual({ ok: true, value: 801 });
    expect(ids()).toEqual([101, 703, 801]);
  });

  test("that is rolled back counts nothing twice", () => {
    const { run, call, ids } = setup();
    const outcomes = run(call("count", 1), call("refuse", 7), call("count", 2));
    expect(outcomes.map((outcome) => outcome.ok)).toEqual([true, false, true]);
    expect(ids()).toEqual([101, 201]);
  });
});
