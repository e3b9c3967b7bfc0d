import { expect, test } from "bun:test";
import { plannedOnce } from "../../src/storage/sqlite/connection.ts";
import { memoryStorage } from "../helpers/storage.ts";

test("the planner does not see what is compared with, nor how many are asked for", () => {
  expect(
    plannedOnce("SELECT id FROM jobs WHERE lane = ? AND run_at <= ?2 ORDER BY id LIMIT ? OFFSET ?"),
  ).toBe("SELECT id FROM jobs WHERE lane = +? AND run_at <= +?2 ORDER BY id LIMIT +? OFFSET +?");
  expect(plannedOnce("INSERT INTO jobs (id, lane) VALUES (?, ?)")).toBe(
    "INSERT INTO jobs (id, lane) VALUES (?, ?)",
  );
});

test("a value keeps its type behind the plus, and finds what it found", () => {
  const { reader: db } = memoryStorage();
  db.raw.run("CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT, size REAL, bytes BLOB) STRICT");
  const bytes = new Uint8Array([0, 255]);
  db.run("INSERT INTO things VALUES (?, ?, ?, ?)", 1, "", 0, null);
  db.run("UPDATE things SET name = ?, size = ?, bytes = ? WHERE id = ?", "a\u0000'b", 1.5, bytes, 1);
  const found = { id: 1, name: "a\u0000'b", size: 1.5, bytes };
  expect(db.all("SELECT * FROM things WHERE name = ?", "a\u0000'b")).toEqual([found as never]);
  expect(db.all("SELECT * FROM things WHERE size > ? AND bytes = ? LIMIT ?", 1, bytes, 1)).toEqual([
    found as never,
  ]);
  expect(db.all("SELECT * FROM things WHERE name = ?", null)).toEqual([]);
});

test("a statement that is asked again and again is not planned again each time", () => {
  const { reader: db } = memoryStorage();
  const sql = "SELECT min(run_at) AS at FROM jobs WHERE lane = ? AND state = 'ready' AND run_at > ?";
  const plain = db.raw.prepare(sql);
  const took = (ask: () => void) => {
    const began = performance.now();
    for (let n = 0; n < 500; n++) ask();
    return performance.now() - began;
  };
  const fewest = (ask: () => void) => Math.min(...Array.from({ length: 5 }, () => took(ask)));
  expect(fewest(() => db.get(sql, "runs", 1))).toBeLessThan(fewest(() => plain.get("runs", 1)) / 2);
});
