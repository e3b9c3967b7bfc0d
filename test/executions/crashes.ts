import type { Storage } from "../../src/storage/sqlite/storage.ts";
import { settled, TestClock } from "../helpers/clock.ts";
import { CALLER, world } from "./setup.ts";

export type World = ReturnType<typeof world>;
type Driven = Pick<World, "storage" | "executions" | "clock">;

/** A storage whose program dies at its n-th write: before that write reaches the disk, or just after. */
export function dyingAt(storage: Storage, n: number, moment: "before" | "after") {
  let count = 0;
  const never = new Promise<never>(() => {});
  const submit: Storage["writer"]["submit"] = (name, args, mode) => {
    count++;
    if (count > n || (count === n && moment === "before")) return never;
    const written = storage.writer.submit(name, args, mode);
    return count === n ? written.then(() => never) : written;
  };
  return {
    storage: { reader: storage.reader, writer: { ...storage.writer, submit } },
    writes: () => count,
    isDead: () => count >= n,
  };
}

type Wait = { id: string; token: string };

/** Whoever was told where to call does so. */
function callAll({ storage, executions }: Driven): void {
  const waits = storage.reader.all<Wait>("SELECT id, token FROM waits WHERE signal IS NULL ORDER BY id");
  for (const { id, token } of waits) {
    executions.callBack(id, [token.split("|")[1]!], { called: true }).catch(() => {});
  }
}

/** Lets time go on, callers call and servers answer, until `isOver`. */
export async function drive(made: Driven, isOver: () => boolean, rounds = 60): Promise<void> {
  for (let round = 0; round < rounds && !isOver(); round++) {
    for (let turn = 0; turn < 4 && !isOver(); turn++) {
      await settled(1);
      await Bun.sleep(0);
    }
    callAll(made);
    // Not awaited to the end by a program that is dead: its timers may wait for what never comes.
    await made.clock.advance(3_000);
  }
}

export const unfinished = ({ reader }: Pick<Storage, "reader">): number =>
  reader.get<{ n: number }>(
    "SELECT count(*) AS n FROM executions WHERE state IN ('queued', 'running', 'waiting')",
  )!.n;

/** The same data in a new life of the program, a moment later. */
export async function nextLife(storage: Storage, clock: TestClock): Promise<World> {
  const next = world({ storage, clock: new TestClock(clock.now()) });
  await next.runner.start();
  return next;
}

// Wherever they are kept.
const STEPS = `(SELECT execution_id, position, state, ended_at FROM steps
  UNION ALL SELECT e.id, value ->> 0, value ->> 4, value ->> 10 FROM executions e, json_each(e.steps))`;

/** What must hold when nothing runs any more, whatever happened on the way; what does not, in words. */
export function brokenInvariants({ storage: { reader } }: Pick<World, "storage">): string[] {
  const broken: string[] = [];
  const none = (what: string, sql: string) => {
    const rows = reader.all(sql);
    if (rows.length > 0) broken.push(`${what}: ${JSON.stringify(rows.slice(0, 3))}`);
  };
  none("a job without its execution's life", "SELECT id, ref, state FROM jobs WHERE lane = 'runs'");
  none(
    "not exactly one start and one end told",
    `SELECT e.id, e.state, sum(v.kind = 'workflow.execution.started') AS starts,
       sum(v.kind IN ('workflow.execution.completed', 'workflow.execution.failed')) AS ends
     FROM executions e LEFT JOIN events v ON v.subject_id = e.id GROUP BY e.id
     HAVING starts != (e.started_at IS NOT NULL) OR ends != 1`,
  );
  none(
    "a step told of other than once",
    `SELECT e.id, (SELECT count(*) FROM ${STEPS} s WHERE s.execution_id = e.id AND s.state = 'success') AS happened,
       (SELECT count(*) FROM events v WHERE v.subject_id = e.id AND v.kind = 'workflow.step.completed') AS told
     FROM executions e WHERE happened != told AND e.origin_id IS NULL`,
  );
  none(
    "a counter that is not its recount",
    `SELECT e.id, e.steps_completed FROM executions e WHERE e.steps_completed !=
       (SELECT count(*) FROM ${STEPS} s WHERE s.execution_id = e.id AND s.state = 'success')`,
  );
  none(
    "a count of runs that is not its recount",
    `SELECT w.id, w.num_runs FROM workflows w WHERE w.num_runs != (SELECT count(*) FROM executions e
       WHERE e.workflow_id = w.id AND e.state IN ('success', 'failed'))`,
  );
  none(
    "a step without an end in an execution that has ended",
    `SELECT s.execution_id, s.position, s.state FROM ${STEPS} s JOIN executions e ON e.id = s.execution_id
     WHERE e.ended_at IS NOT NULL AND s.ended_at IS NULL`,
  );
  none(
    "an event without one answer for each who listens",
    `SELECT v.id FROM events v WHERE (SELECT count(*) FROM deliveries d WHERE d.event_id = v.id) !=
       (SELECT count(*) FROM subscriptions)`,
  );
  none(
    "a step that started two executions",
    `SELECT parent_id, parent_position FROM executions WHERE parent_id IS NOT NULL
     GROUP BY parent_id, parent_position HAVING count(*) > 1`,
  );
  return broken;
}

/** What came of everything, without what differs from run to run. */
export async function resultOf(storage: Storage, clock: TestClock) {
  const { executions } = world({ storage, clock });
  const ids = storage.reader.all<{ id: string }>("SELECT id FROM executions ORDER BY depth, parent_position");
  const all = await Promise.all(ids.map(({ id }) => executions.get(CALLER, id)));
  const names = new Map(ids.map(({ id }, index) => [id, `execution ${index}`]));
  const plain = (value: unknown): unknown =>
    JSON.parse(
      [...names].reduce((text, [id, name]) => text.replaceAll(id, name), JSON.stringify(value)),
      (key, each) => (/_ms$|date|url|message/.test(key) ? undefined : each),
    );
  return all.map(({ status, output_data, response, steps }) =>
    plain({
      status,
      output_data,
      response,
      steps: steps.map((step) => [step.position, step.name, step.status, step.output]),
    }),
  );
}
