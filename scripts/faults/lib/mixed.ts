import { Database } from "bun:sqlite";
import { cpSync, existsSync } from "node:fs";
import { join } from "node:path";
import {
  createKey,
  discard,
  type Errand,
  freePort,
  type Key,
  scratch,
  startErrand,
} from "../../lib/errand.ts";
import { fire, generator, subscribe } from "../../lib/hook-load.ts";
import {
  ADMINISTRATION,
  administer,
  type Done,
  missingOf,
  note,
  nothingDone,
  type Tally,
} from "./administration.ts";
import { addOldRuns, integrityOf, killMigrations, type Migrated } from "./old-database.ts";

export type Report = {
  rounds: number;
  runs: number;
  streams: number;
  /** What was done beside the server, and what of it was cut off by a kill. */
  administration: Tally;
  lost: string[];
  doubled: number;
  undelivered: number;
  /** How many times the database was looked through, and what was found wrong. */
  integrity: { checks: number; faults: string[] };
  restart_ms: { p50: number; p99: number; max: number; slowest: Restart[] };
  migrations: Migrated;
};

/** `what`: the command that was under way beside the server when it was killed. */
type Restart = { round: number; what: string; ms: number };

type Plan = {
  rounds: number;
  /** How many runs are to be acknowledged in each round before its kill. */
  runs: number;
  migrations: number;
  /** No round begins after so long; undefined: as many as are asked for. */
  minutes?: number | undefined;
  seed: number;
  progress?: ((text: string) => void) | undefined;
};

// A stretch of rounds has a folder of its own: what was acknowledged in it is asked for at its end.
const STRETCH = 100;
const CHECK_EACH = 10;
const SLOWEST = 5;
const OLD_RUNS = 3_000;
const LONGEST_ROUND_MS = 20_000;
const LONGEST_COMMAND_MS = 5_000;
const PATIENCE_MS = 60_000;
const PLAIN_CLIENTS = 12;
const WAITING_CLIENTS = 4;
const STREAM_CLIENTS = 2;

/**
 * Rounds of everything at once (webhooks with and without waits, streams, deliveries, commands beside the
 * server), each ended by SIGKILL of the server and of the command under way; then kills in the middle of
 * migrations of an older database.
 */
export async function mixedRounds(plan: Plan): Promise<Report> {
  const random = generator(plan.seed);
  const report: Report = {
    rounds: 0,
    runs: 0,
    streams: 0,
    administration: {},
    lost: [],
    doubled: 0,
    undelivered: 0,
    integrity: { checks: 0, faults: [] },
    restart_ms: { p50: 0, p99: 0, max: 0, slowest: [] },
    migrations: { migrations: 0, killed: 0, lost: 0, faults: [] },
  };
  const restarts: Restart[] = [];
  const last = performance.now() + (plan.minutes ?? Number.POSITIVE_INFINITY) * 60_000;
  const isOver = () => report.rounds >= plan.rounds || performance.now() > last || report.lost.length > 0;
  while (!isOver()) await stretch(plan, isOver, random, report, restarts);
  restarts.sort((a, b) => a.ms - b.ms);
  const at = (share: number) =>
    restarts[Math.min(restarts.length - 1, Math.floor(restarts.length * share))]?.ms ?? 0;
  report.restart_ms = { p50: at(0.5), p99: at(0.99), max: at(1), slowest: restarts.slice(-SLOWEST) };
  report.migrations = await killMigrations(plan.migrations, random, plan.progress);
  return report;
}

async function stretch(
  plan: Plan,
  isOver: () => boolean,
  random: () => number,
  report: Report,
  restarts: Restart[],
): Promise<void> {
  const data = scratch();
  const received = new Set<string>();
  const receiver = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const { data } = (await request.json()) as { data: { execution_id?: string } };
      if (data.execution_id) received.add(data.execution_id);
      return new Response(null, { status: 204 });
    },
  });
  const port = await freePort();
  const start = (key?: Key) =>
    startErrand({
      data,
      port,
      key,
      args: ["--log-level", "error", "--access-log", "false"],
      env: { ERRAND_ALLOW_TARGETS: "127.0.0.1" },
    });
  const done = { runs: new Set<string>(), streams: new Set<string>(), ...nothingDone() };
  let errand = await start();
  try {
    const key = await createKey(data);
    await errand.stop();
    errand = await start(key);
    const world = await arrange(errand, key);
    await subscribe(errand, `http://127.0.0.1:${receiver.port}/`);
    await errand.stop();

    let before = "";
    for (let round = 1; round <= STRETCH && !isOver(); round++) {
      const what = ADMINISTRATION[Math.floor(random() * ADMINISTRATION.length)]!;
      if (what === "prune") addOldRuns(data, OLD_RUNS);
      errand = await start(key);
      // The first found no crash before it.
      if (round > 1)
        restarts.push({ round: report.rounds + 1, what: before, ms: Math.round(errand.startedInMs) });
      before = what;
      await oneRound({ plan, errand, key, world, what, random, data, done, report });
      report.rounds++;
      if (report.rounds % CHECK_EACH === 0) lookThrough(data, report);
      plan.progress?.(
        `round ${report.rounds}/${plan.rounds} (${what}): ${report.runs + done.runs.size} runs, ${report.streams + done.streams.size} streams, restart ${Math.round(errand.startedInMs)} ms`,
      );
    }

    errand = await start(key);
    await settle(done.runs, received);
    report.lost.push(...(await missingOf(errand, done, world.webhook)));
    if ((await errand.stop()) !== 0) report.lost.push("the program did not end well");
    report.runs += done.runs.size;
    report.streams += done.streams.size;
    report.undelivered += done.runs.difference(received).size;
    count(data, done, report);
  } finally {
    await errand.kill().catch(() => {});
    receiver.stop(true);
    discard(data);
  }
}

async function oneRound(its: {
  plan: Plan;
  errand: Errand;
  key: Key;
  world: World;
  what: (typeof ADMINISTRATION)[number];
  random: () => number;
  data: string;
  done: Done & { runs: Set<string>; streams: Set<string> };
  report: Report;
}): Promise<void> {
  const { plan, errand, key, world, what, random, data, done, report } = its;
  const over = new AbortController();
  const clients = (count: number, act: () => Promise<void>) => Array.from({ length: count }, act);
  const lanes = [
    ...clients(PLAIN_CLIENTS, () => fire(world.plain, done.runs, over.signal)),
    ...clients(WAITING_CLIENTS, () => fire(world.waiting, done.runs, over.signal)),
    ...clients(STREAM_CLIENTS, () => talk(errand, key, world.agent, done.streams, over.signal)),
  ];
  const began = performance.now();
  const enough = done.runs.size + plan.runs;
  const command = administer(what, { errand, data, webhook: world.webhook });
  // A command is killed by itself, or together with the server, or comes to its end.
  const fate = random();
  const cut = fate < 1 / 3 ? setTimeout(command.kill, 30 + random() * 600) : undefined;
  await Bun.sleep(60 + random() * 500);
  while (done.runs.size < enough && performance.now() - began < LONGEST_ROUND_MS) await Bun.sleep(2);
  if (fate > 2 / 3) await Promise.race([command.answer, Bun.sleep(LONGEST_COMMAND_MS)]);
  command.kill();
  await errand.kill();
  clearTimeout(cut);
  over.abort();
  await Promise.all(lanes);
  note(what, await command.answer, done, report.administration);
}

type World = { plain: string; waiting: string; agent: string; webhook: string };

async function arrange(errand: Errand, key: Key): Promise<World> {
  const post = async <T = { id: string }>(path: string, body: object) => {
    const made = await errand.api<T>("POST", path, body);
    if (made.status >= 300) throw new Error(JSON.stringify(made.body));
    return made.body;
  };
  const scope = `workspace_id=${key.workspace_id}`;
  const say = {
    name: "say",
    node_type_name: "set_variables",
    input_config: { variables: { text: "Hello {{ inputs.n }}" } },
  };
  const pause = { name: "pause", node_type_name: "wait", input_config: { seconds: 0.5 } };
  const hookOf = async (nodes: object[]) => {
    const { id } = await post(`/api/workflows?${scope}`, { name: "mixed", nodes });
    return (await post<{ url: string }>(`/api/workflows/${id}/webhook-tokens`, {})).url;
  };
  const agent = await post(`/api/agents?${scope}`, { name: "mixed", auto_generate_title: false });
  const webhook = await post("/api/v1/webhooks", {
    name: "quiet",
    url: "http://127.0.0.1:9/",
    events: ["agent.conversation.completed"],
  });
  return {
    plain: await hookOf([say]),
    waiting: await hookOf([say, pause, { ...say, name: "again" }]),
    agent: agent.id,
    webhook: webhook.id,
  };
}

/** One message after the other, each in a thread of its own; those whose stream came to its end are acknowledged. */
async function talk(
  errand: Errand,
  key: Key,
  agent: string,
  ended: Set<string>,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const id = crypto.randomUUID();
    try {
      const response = await fetch(`${errand.url}/api/agents/${agent}/stream`, {
        method: "POST",
        headers: { authorization: `Bearer ${key.key}`, "content-type": "application/json" },
        body: JSON.stringify({ id, messages: [{ role: "user", content: "Hello" }] }),
        signal,
      });
      const text = await response.text();
      if (/^d:\{"finishReason":"stop"/m.test(text)) ended.add(id);
    } catch {
      return; // cut off under way
    }
  }
}

/** Waits until all is delivered, for as long as it becomes more. */
async function settle(acknowledged: Set<string>, received: Set<string>): Promise<void> {
  let missing = Number.POSITIVE_INFINITY;
  for (let last = 0; missing > 0; await Bun.sleep(50)) {
    const now = acknowledged.difference(received).size;
    if (now < missing) last = performance.now() + PATIENCE_MS;
    missing = now;
    if (performance.now() > last) return;
  }
}

/** Looks through a copy as the kill has left it: the program is to find it as it was. */
function lookThrough(data: string, report: Report): void {
  const folder = scratch();
  try {
    for (const name of ["errand.db", "errand.db-wal"])
      if (existsSync(join(data, name))) cpSync(join(data, name), join(folder, name));
    const db = new Database(join(folder, "errand.db"));
    judge(db, report);
    db.close();
  } finally {
    discard(folder);
  }
}

function judge(db: Database, { integrity }: Report): void {
  const found = integrityOf(db);
  integrity.checks++;
  if (found !== "ok") integrity.faults.push(found);
}

function count(data: string, done: { runs: Set<string>; streams: Set<string> }, report: Report): void {
  const db = new Database(join(data, "errand.db"), { readonly: true });
  const states = new Map(
    db
      .query<{ id: string; state: string }, []>("SELECT id, state FROM executions")
      .all()
      .map(({ id, state }) => [id, state]),
  );
  for (const id of done.runs) if (states.get(id) !== "success") report.lost.push(`a run: ${states.get(id)}`);
  const answered = new Set(
    db
      .query<{ client_id: string }, []>(
        `SELECT c.client_id FROM conversations c JOIN messages m ON m.conversation_id = c.id
         WHERE m.role = 'assistant' AND m.state = 'complete'`,
      )
      .all()
      .map(({ client_id }) => client_id),
  );
  for (const id of done.streams) if (!answered.has(id)) report.lost.push("an answer of a stream");
  report.doubled += db
    .query<{ n: number }, []>(
      `SELECT count(*) AS n FROM (SELECT subject_id FROM events WHERE kind IN ('workflow.execution.completed', 'workflow.execution.failed')
       GROUP BY subject_id HAVING count(*) > 1)`,
    )
    .get()!.n;
  judge(db, report);
  db.close();
}

export const isClean = ({ lost, doubled, undelivered, integrity, migrations }: Report): boolean =>
  lost.length + doubled + undelivered + integrity.faults.length === 0 &&
  migrations.lost + migrations.faults.length === 0;
