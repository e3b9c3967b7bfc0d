import { expect, test } from "bun:test";
import type { Storage } from "../../src/storage/sqlite/storage.ts";
import { settled } from "../helpers/clock.ts";
import { memoryStorage } from "../helpers/storage.ts";
import { server } from "../nodes/setup.ts";
import { apiCall, setVariables, world } from "./setup.ts";

/** A storage whose program dies at its n-th write: before that write reaches the disk, or just after. */
function dyingAt(storage: Storage, n: number, moment: "before" | "after"): Storage {
  let count = 0;
  const never = new Promise<never>(() => {});
  const submit: Storage["writer"]["submit"] = (name, args, mode) => {
    count++;
    if (count > n || (count === n && moment === "before")) return never;
    const written = storage.writer.submit(name, args, mode);
    return count === n ? written.then(() => never) : written;
  };
  return { reader: storage.reader, writer: { ...storage.writer, submit } };
}

const nodesOf = (url: string) => [
  setVariables("first", { n: "{{ n }}" }),
  apiCall("call", url),
  setVariables("between", { status: "{{ call.status }}" }),
  apiCall("again", url),
  setVariables("last", { n: "{{ first.n }}", status: "{{ between.status }}" }),
];

// The writes of an undisturbed run: accept, mark, checkpoint, mark, checkpoint, finish; and a little more.
const WRITES = 9;

for (const moment of ["before", "after"] as const) {
  for (let n = 1; n <= WRITES; n++) {
    test(`a crash ${moment} write ${n} loses nothing that was acknowledged and doubles no result`, async () => {
      using target = server(() => Response.json({ ok: true }));
      const storage = memoryStorage();
      const prepared = await world({ storage }).workflow({ nodes: nodesOf(target.url) });
      world({ storage }).subscribe("workflow.*");

      const doomed = world({ storage: dyingAt(storage, n, moment) });
      let acknowledged: string | undefined;
      void doomed.start(prepared, { n: 7 }).then(({ id }) => {
        acknowledged = id;
      });
      for (let turn = 0; turn < 30; turn++) {
        await settled(2);
        await Bun.sleep(0);
      }

      const next = world({ storage });
      await next.runner.start();
      const ids = storage.reader.all<{ id: string }>("SELECT id FROM executions").map((row) => row.id);
      if (acknowledged) expect(ids).toEqual([acknowledged]);
      for (const id of ids) {
        const run = await next.until(id, "success");
        expect(run.output_data).toEqual({ n: 7, status: 200 });
        expect(run.steps.map((step) => [step.name, step.status])).toEqual([
          ["first", "success"],
          ["call", "success"],
          ["between", "success"],
          ["again", "success"],
          ["last", "success"],
        ]);
        await settled();
        const kinds = next.eventRows().map((row) => row.kind);
        expect(kinds.filter((kind) => kind === "workflow.execution.started")).toHaveLength(1);
        expect(kinds.filter((kind) => kind === "workflow.execution.completed")).toHaveLength(1);
        expect(kinds.filter((kind) => kind === "workflow.step.completed")).toHaveLength(5);
        // A call may have been made twice, but only as the same call.
        const keys = target.got.map((call) => call.headers["idempotency-key"]);
        expect([...new Set(keys)]).toEqual([`${id}/1`, `${id}/3`]);
        expect(keys.length).toBeLessThanOrEqual(3);
      }
      expect(storage.reader.all("SELECT * FROM jobs")).toEqual([]);
    });
  }
}

test("a step whose outcome is unknown is not run again where the workflow says so", async () => {
  using target = server(() => Response.json({ ok: true }));
  const storage = memoryStorage();
  const prepared = await world({ storage }).workflow({
    nodes: [apiCall("pay", target.url, { on_unknown: "fail" }), setVariables("after", { x: 1 })],
  });
  const doomed = world({ storage: dyingAt(storage, 2, "after") });
  void doomed.start(prepared);
  for (let turn = 0; turn < 20; turn++) await settled(2);
  const next = world({ storage });
  await next.runner.start();
  const id = storage.reader.get<{ id: string }>("SELECT id FROM executions")!.id;
  expect((await next.until(id, "failed")).error).toMatchObject({ code: "UNKNOWN_OUTCOME", node: "pay" });
  expect(target.got.length).toBeLessThanOrEqual(1);
});

test("a disk that refuses for a while delays the end of a run and does not repeat its effect", async () => {
  using target = server(() => Response.json({ ok: true }));
  const storage = memoryStorage();
  const made = world({ storage });
  const prepared = await made.workflow({ nodes: [apiCall("call", target.url)] });
  let refusals = 0;
  const submit: Storage["writer"]["submit"] = (name, args, mode) => {
    if (name === "executions.finish" && refusals < 3) {
      refusals++;
      storage.reader.raw.run("PRAGMA max_page_count = 1");
      const refused = storage.writer.submit(name, args, mode);
      return refused.finally(() => storage.reader.raw.run("PRAGMA max_page_count = 1000000"));
    }
    return storage.writer.submit(name, args, mode);
  };
  const next = world({ storage: { reader: storage.reader, writer: { ...storage.writer, submit } } });
  const { id } = await next.start(prepared);
  for (let second = 0; second < 5; second++) {
    for (let turn = 0; turn < 10; turn++) await settled(2);
    await next.clock.advance(1_000);
  }
  expect((await next.until(id, "success")).output_data).toMatchObject({ status: 200 });
  expect(target.got).toHaveLength(1);
});
