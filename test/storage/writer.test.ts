import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError } from "../../src/lib/errors.ts";
import { newId } from "../../src/lib/ids.ts";
import type { Call, Outcome } from "../../src/storage/sqlite/batch.ts";
import { openReader, openWriter } from "../../src/storage/sqlite/connection.ts";
import { sqliteJobs } from "../../src/storage/sqlite/jobs.ts";
import { migrate } from "../../src/storage/sqlite/migrate.ts";
import { startWorker, watchdog } from "../../src/storage/sqlite/worker-transport.ts";
import { createWriter } from "../../src/storage/sqlite/writer.ts";
import { settled } from "../helpers/clock.ts";

const folder = mkdtempSync(join(tmpdir(), "errand-test-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const aJob = (ref: string) => ({
  id: newId(),
  lane: "runs" as const,
  kind: "k",
  tenant: "t",
  key: "k",
  ref,
  state: "ready" as const,
  run_at: 0,
  attempt: 0,
  crashes: 0,
  created_at: 0,
});

/** A writer whose transport waits for the test to answer each batch. */
function held() {
  const sent: {
    calls: Call[];
    answer: (outcomes: Outcome[], ms?: number) => void;
    fail: (error: Error) => void;
  }[] = [];
  const writer = createWriter({
    send: (calls) =>
      new Promise((resolve, fail) => {
        const answer = (outcomes: Outcome[], ms = 1) => resolve({ outcomes, ms });
        sent.push({ calls: [...calls], answer, fail });
      }),
    close: async () => {},
  });
  return { writer, sent };
}

describe("group commit", () => {
  test("what arrives while a batch is under way forms the next one", async () => {
    const { writer, sent } = held();
    const first = writer.submit("jobs.insert", [aJob("a")]);
    await settled();
    const later = [writer.submit("jobs.insert", [aJob("b")]), writer.submit("jobs.insert", [aJob("c")])];
    await settled();
    expect(sent.map((batch) => batch.calls.length)).toEqual([1]);
    sent[0]?.answer([{ ok: true, value: undefined }]);
    await first;
    expect(sent.map((batch) => batch.calls.length)).toEqual([1, 2]);
    sent[1]?.answer([
      { ok: true, value: undefined },
      { ok: false, error: { message: "no", code: "conflict" } },
    ]);
    await later[0];
    expect(later[1]).rejects.toThrow(AppError);
  });

  test("sixteen writes do not wait for the end of the turn, nor for the batch before them", async () => {
    const { writer, sent } = held();
    for (let n = 0; n < 40; n++) void writer.submit("jobs.insert", []);
    expect(sent.map((batch) => batch.calls.length)).toEqual([16, 16]);
    await settled();
    expect(sent.length).toBe(2);
    sent[0]?.answer(sent[0].calls.map(() => ({ ok: true, value: undefined })));
    await settled();
    expect(sent.length).toBe(2); // eight more wait for the connection to be free
    sent[1]?.answer(sent[1].calls.map(() => ({ ok: true, value: undefined })));
    await settled();
    expect(sent.map((batch) => batch.calls.length)).toEqual([16, 16, 8]);
  });

  test("on a slow disk everything that came meanwhile shares one batch", async () => {
    const { writer, sent } = held();
    for (let n = 0; n < 16; n++) void writer.submit("jobs.insert", []);
    sent[0]?.answer(
      sent[0].calls.map(() => ({ ok: true, value: undefined })),
      100,
    );
    await settled();
    for (let n = 0; n < 40; n++) void writer.submit("jobs.insert", []);
    await settled();
    expect(sent.map((batch) => batch.calls.length)).toEqual([16, 40]);
    for (let n = 0; n < 40; n++) void writer.submit("jobs.insert", []);
    await settled();
    expect(sent.length).toBe(2);
  });

  test("a full queue refuses with unavailable instead of growing", async () => {
    const { writer } = held();
    void writer.submit("jobs.insert", []);
    await settled();
    for (let n = 0; n < 10_016; n++) void writer.submit("jobs.insert", []);
    expect(writer.submit("jobs.insert", [])).rejects.toMatchObject({ code: "unavailable" });
  });

  test("a disk that refuses makes the writer unhealthy until a batch succeeds", async () => {
    const { writer, sent } = held();
    const refused = writer.submit("jobs.insert", []);
    await settled();
    sent[0]?.answer([{ ok: false, error: { message: "full", storage: "SQLITE_FULL" } }]);
    expect(refused).rejects.toMatchObject({ code: "unavailable" });
    await settled();
    expect(writer.health()).toMatchObject({ ok: false, fault: "SQLITE_FULL" });
    const accepted = writer.submit("jobs.insert", []);
    await settled();
    sent[1]?.answer([{ ok: true, value: undefined }]);
    await accepted;
    expect(writer.health().ok).toBe(true);
  });
});

describe("an end", () => {
  test("comes also after a batch that was lost on its way", async () => {
    const { writer, sent } = held();
    const lost = writer.submit("jobs.insert", [aJob("a")]);
    await settled();
    const closed = writer.close();
    sent[0]?.fail(new Error("gone"));
    expect(lost).rejects.toThrow("gone");
    await closed;
  });
});

describe("the writer thread", () => {
  test("commits to the file that a reader beside it sees at once", async () => {
    const path = join(folder, "a.db");
    const db = openWriter(path);
    migrate(db, { now: 0 });
    db.close();
    const lost: string[] = [];
    const thread = startWorker((reason) => lost.push(reason));
    await thread.open(path);
    const writer = createWriter(thread);
    const reader = openReader(path);
    const jobs = sqliteJobs({ reader, writer });
    await Promise.all(Array.from({ length: 100 }, (_, n) => jobs.insert([aJob(`job-${n}`)])));
    expect(await jobs.counts()).toEqual([{ lane: "runs", state: "ready", count: 100 }]);
    expect(writer.health().batches).toBeLessThan(100);
    expect(() => reader.run("DELETE FROM jobs")).toThrow();
    reader.close();
    await writer.close();
    expect(lost).toEqual([]);
  });

  test("says why it cannot open its file", async () => {
    const thread = startWorker(() => {});
    await expect(thread.open(join(folder, "nowhere", "a.db"))).rejects.toThrow();
    thread.end();
  });
});

test("a thread hangs when the same thing is waited for at many looks, however long lies between two", () => {
  const [one, other] = [{}, {}];
  let oldest: object | undefined = one;
  const hangs = watchdog(() => oldest, 3);
  const looks = (n: number) => Array.from({ length: n }, hangs);
  expect(looks(3)).toEqual([false, false, false]);
  oldest = other;
  expect(looks(3)).toEqual([false, false, false]);
  oldest = undefined;
  expect(looks(10)).toEqual(Array(10).fill(false));
  oldest = one;
  expect(looks(4)).toEqual([false, false, false, true]);
});
