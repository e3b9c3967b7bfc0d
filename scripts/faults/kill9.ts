/**
 * Kills the program with SIGKILL under load, again and again, and then counts: every webhook that was
 * answered 202 must have one execution, ended, and no execution may have ended twice.
 *
 *     bun scripts/faults/kill9.ts [--rounds 20] [--seed 1] [--json]
 *         [--mixed [--runs 50] [--migrations 5] [--minutes 60]]
 *
 * `--mixed`: streams, waits and commands beside the webhooks, kills of commands (backup, prune, rotation) as
 * well, and of migrations of an older database; a round is killed once so many runs of it are
 * acknowledged, and none begins after so many minutes.
 *
 * Exit code 0 when nothing was lost, 1 when something was.
 */
import { Database } from "bun:sqlite";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { createKey, discard, type Errand, freePort, scratch, startErrand } from "../lib/errand.ts";
import { fire, generator, greetingHook, subscribe } from "../lib/hook-load.ts";
import { isClean as isCleanMixed, mixedRounds } from "./lib/mixed.ts";

export type Report = {
  rounds: number;
  acknowledged: number;
  lost: number;
  unfinished: number;
  doubled: number;
  delivered: number;
  undelivered: number;
  redelivered: number;
  integrity: string;
  restart_ms: { p50: number; p99: number; max: number };
};

const CLIENTS = 16;

export async function killRounds(options: {
  rounds: number;
  seed: number;
  progress?: (text: string) => void;
}): Promise<Report> {
  const data = scratch();
  const random = generator(options.seed);
  const received = new Map<string, number>();
  const receiver = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const envelope = (await request.json()) as { data: { execution_id: string } };
      const id = envelope.data.execution_id;
      received.set(id, (received.get(id) ?? 0) + 1);
      return new Response(null, { status: 204 });
    },
  });
  const env = { ERRAND_ALLOW_TARGETS: "127.0.0.1" };
  const args = ["--log-level", "error"];
  const port = await freePort();
  const acknowledged = new Set<string>();
  const restarts: number[] = [];
  try {
    let errand = await startErrand({ data, port, env, args, key: undefined });
    const key = await createKey(data);
    await errand.stop();
    errand = await startErrand({ data, port, env, args, key });
    const hook = await greetingHook(errand, key.workspace_id);
    await subscribe(errand, `http://127.0.0.1:${receiver.port}/`);

    for (let round = 1; round <= options.rounds; round++) {
      const ended = new AbortController();
      const clients = Array.from({ length: CLIENTS }, () => fire(hook, acknowledged, ended.signal));
      // The first requests of a life wait for its routes: every other life may be killed before that.
      if (round % 2 === 0) await more(acknowledged);
      await Bun.sleep(40 + random() * 200);
      await errand.kill();
      ended.abort();
      await Promise.all(clients);
      errand = await startErrand({ data, port, env, args, key });
      restarts.push(errand.startedInMs);
      options.progress?.(`round ${round}/${options.rounds}: ${acknowledged.size} acknowledged`);
    }

    await settle(errand, received, acknowledged);
    const code = await errand.stop();
    if (code !== 0) throw new Error(`errand ended with ${code}:\n${errand.output()}`);
    return count(data, options.rounds, acknowledged, received, restarts);
  } finally {
    receiver.stop(true);
    discard(data);
  }
}

/** Resolves when something is acknowledged, or after 5 s without. */
async function more(acknowledged: Set<string>): Promise<void> {
  const before = acknowledged.size;
  const until = performance.now() + 5_000;
  while (acknowledged.size === before && performance.now() < until) await Bun.sleep(5);
}

async function settle(
  errand: Errand,
  received: Map<string, number>,
  acknowledged: Set<string>,
): Promise<void> {
  const until = performance.now() + 30_000;
  let before = -1;
  while (performance.now() < until) {
    const missing = [...acknowledged].filter((id) => !received.has(id)).length;
    if (missing === 0) return;
    if (errand.pid === 0 || missing === before) await Bun.sleep(100);
    before = missing;
    await Bun.sleep(20);
  }
}

function count(
  data: string,
  rounds: number,
  acknowledged: Set<string>,
  received: Map<string, number>,
  restarts: number[],
): Report {
  const db = new Database(join(data, "errand.db"), { readonly: true });
  // Counted in one pass: a look-up per acknowledgement would walk through all events each time.
  const states = new Map(
    db
      .query<{ id: string; state: string }, []>("SELECT id, state FROM executions")
      .all()
      .map((row) => [row.id, row.state]),
  );
  const ends = new Map<string, number>();
  const ended = db.query<{ subject_id: string }, []>(
    "SELECT subject_id FROM events WHERE kind IN ('workflow.execution.completed', 'workflow.execution.failed')",
  );
  for (const { subject_id } of ended.all()) ends.set(subject_id, (ends.get(subject_id) ?? 0) + 1);
  const report = { lost: 0, unfinished: 0, doubled: 0, undelivered: 0 };
  for (const id of acknowledged) {
    const found = states.get(id);
    if (found === undefined) report.lost++;
    else if (found !== "success") report.unfinished++;
    if ((ends.get(id) ?? 0) > 1) report.doubled++;
    if (!received.has(id)) report.undelivered++;
  }
  const integrity = db
    .query<{ integrity_check: string }, []>("PRAGMA integrity_check")
    .get()!.integrity_check;
  db.close();
  const sorted = restarts.toSorted((a, b) => a - b);
  const at = (share: number) =>
    Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0);
  return {
    rounds,
    acknowledged: acknowledged.size,
    ...report,
    delivered: received.size,
    redelivered: [...received.values()].filter((times) => times > 1).length,
    integrity,
    restart_ms: { p50: at(0.5), p99: at(0.99), max: at(1) },
  };
}

export const isClean = (report: Report): boolean =>
  report.lost + report.unfinished + report.doubled + report.undelivered === 0 && report.integrity === "ok";

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      rounds: { type: "string", default: "20" },
      seed: { type: "string", default: "1" },
      mixed: { type: "boolean", default: false },
      runs: { type: "string", default: "50" },
      migrations: { type: "string" },
      minutes: { type: "string" },
      json: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) {
    console.log(
      "usage: scripts/faults/kill9 [--rounds 20] [--seed 1] [--json] [--mixed [--runs 50] [--migrations 5] [--minutes 60]]",
    );
    process.exit(0);
  }
  const plan = {
    rounds: Number(values.rounds),
    seed: Number(values.seed),
    progress: values.json ? undefined : (text: string) => void process.stderr.write(`\r\x1b[K${text}`),
  };
  const mixed = values.mixed
    ? await mixedRounds({
        ...plan,
        runs: Number(values.runs),
        minutes: values.minutes === undefined ? undefined : Number(values.minutes),
        migrations: Number(values.migrations ?? Math.ceil(plan.rounds / 4)),
      })
    : undefined;
  const report = mixed ?? (await killRounds(plan));
  if (values.json) console.log(JSON.stringify({ seed: plan.seed, ...report }));
  else {
    process.stderr.write("\n");
    for (const [name, value] of Object.entries(report)) {
      console.log(`${name.padEnd(14)} ${typeof value === "object" ? JSON.stringify(value) : value}`);
    }
  }
  process.exit((mixed ? isCleanMixed(mixed) : isClean(report as Report)) ? 0 : 1);
}
