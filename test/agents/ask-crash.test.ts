import { expect, test } from "bun:test";
import type { Storage } from "../../src/storage/sqlite/storage.ts";
import { brokenInvariants, drive, dyingAt, unfinished } from "../executions/crashes.ts";
import { aNode, forEach, parallel, wait } from "../executions/nodes.ts";
import { setVariables } from "../executions/setup.ts";
import { copyOf, memoryStorage } from "../helpers/storage.ts";
import { CALLER, world } from "./world.ts";

const QUESTIONS = 4;

/** Questions to an agent in a row, beside each other and beside a wait. */
async function prepare(storage: Storage) {
  const made = world({ storage });
  const agent_id = await made.anAgent();
  const asks = (name: string, message: string) => aNode("run_agent", name, { agent_id, message });
  const { id } = await made.workflows.create(
    CALLER,
    { workspace_id: "w" },
    {
      nodes: [
        asks("first", "one"),
        parallel("both", {
          list: [forEach("each", [2, 3], [asks("asked", "item {{ loop.item }}")], { parallelism: 2 })],
          other: [wait("pause", { seconds: 2 }), asks("late", "late")],
        }),
        setVariables("end", {
          first: "{{ first.reply }}",
          late: "{{ both.other.reply }}",
          count: "{{ both.list.count }}",
        }),
      ],
    },
  );
  made.subscribe("*");
  return id;
}

async function resultOf({ storage, executions }: ReturnType<typeof world>) {
  const { id } = storage.reader.get<{ id: string }>("SELECT id FROM executions")!;
  const { status, output_data, steps } = await executions.get(CALLER, id);
  const count = (table: string) => storage.reader.get<{ n: number }>(`SELECT count(*) AS n FROM ${table}`)!.n;
  return {
    status,
    output_data,
    steps: steps.map((step) => [step.position, step.name, step.status]),
    counts: ["turns", "conversations", "messages", "jobs WHERE lane IN ('runs', 'turns')"].map((table) => [
      table,
      count(table),
    ]),
  };
}

async function undisturbed(workflow: string, template: Storage) {
  const storage = copyOf(template);
  const counted = dyingAt(storage, Number.POSITIVE_INFINITY, "before");
  const made = world({ storage: counted.storage });
  await made.executions.startByKey(CALLER, workflow, {}, { hop: 0 });
  await drive(made, () => unfinished(storage) === 0);
  expect(brokenInvariants(made)).toEqual([]);
  return { writes: counted.writes(), result: await resultOf(made) };
}

for (const moment of ["before", "after"] as const) {
  test(`a crash ${moment} any write of a run that asks agents asks each question once, and it has its answers`, async () => {
    const template = memoryStorage();
    const workflow = await prepare(template);
    const plain = await undisturbed(workflow, template);
    expect(plain.result).toMatchObject({
      status: "success",
      output_data: { count: 2 },
      counts: [
        ["turns", QUESTIONS],
        ["conversations", QUESTIONS],
        ["messages", 2 * QUESTIONS],
        ["jobs WHERE lane IN ('runs', 'turns')", 0],
      ],
    });
    expect(plain.writes).toBeGreaterThan(20);
    for (let n = 1; n <= plain.writes + 2; n++) {
      const where = `crash ${moment} write ${n}`;
      const storage = copyOf(template);
      const dying = dyingAt(storage, n, moment);
      const doomed = world({ storage: dying.storage });
      let isAcknowledged = false;
      void doomed.executions.startByKey(CALLER, workflow, {}, { hop: 0 }).then(() => {
        isAcknowledged = true;
      });
      const hasEnded = () => isAcknowledged && unfinished(storage) === 0;
      await drive(doomed, () => dying.isDead() || hasEnded(), 20);

      const next = world({ storage });
      await next.clock.advance(doomed.clock.now() - next.clock.now());
      await next.runner.start();
      await drive(next, () => unfinished(storage) === 0);
      const begun = storage.reader.all("SELECT id FROM executions").length;
      expect([where, isAcknowledged && begun === 0]).toEqual([where, false]);
      if (begun === 0) continue;
      expect([where, unfinished(storage), brokenInvariants(next)]).toEqual([where, 0, []]);
      expect([where, await resultOf(next)]).toEqual([where, plain.result]);
    }
  }, 120_000);
}
