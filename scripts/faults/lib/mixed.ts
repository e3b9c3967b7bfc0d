import { Database } from "bun:sqlite";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Connection } from "../../../src/storage/sqlite/connection.ts";
import { latestVersion, migrate } from "../../../src/storage/sqlite/migrate.ts";
import { migrations } from "../../../src/storage/sqlite/migrations.ts";
import {
  BINARY,
  createKey,
  discard,
  type Errand,
  freePort,
  type Key,
  run,
  scratch,
  startErrand,
} from "../../lib/errand.ts";
import { fire, generator, subscribe } from "../../lib/hook-load.ts";

export type Report = {
  rounds: number;
  acknowledged: {
    runs: number;
    streams: number;
    commands: number;
    rotations: number;
    backups: number;
    pruned: number;
  };
  lost: string[];
  doubled: number;
  undelivered: number;
  integrity: string;
  migrations: { killed: number; restarts: number; lost: number; integrity: string };
};

/** What is killed in the middle of a round, together with the server. */
const ADMINISTRATION = ["backup", "prune", "rotation", "key", "agent", "nothing"] as const;

const OLD_RUNS = 3_000;

/**
 * Rounds of everything at once (webhooks with and without waits, streams, deliveries, commands beside the
 * server), each ended by SIGKILL of the server and of the command under way; then kills in the middle of
 * migrations of an older database.
 */
export async function mixedRounds(options: {
  rounds: number;
  migrations: number;
  seed: number;
  progress?: ((text: string) => void) | undefined;
}): Promise<Report> {
  const data = scratch();
  const random = generator(options.seed);
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
  const report: Report = {
    rounds: options.rounds,
    acknowledged: { runs: 0, streams: 0, commands: 0, rotations: 0, backups: 0, pruned: 0 },
    lost: [],
    doubled: 0,
    undelivered: 0,
    integrity: "",
    migrations: { killed: 0, restarts: 0, lost: 0, integrity: "ok" },
  };
  const port = await freePort();
  const start = (key?: Key) =>
    startErrand({
      data,
      port,
      key,
      args: ["--log-level", "error", "--access-log", "false"],
      env: { ERRAND_ALLOW_TARGETS: "127.0.0.1" },
    });
  const done = {
    runs: new Set<string>(),
    streams: new Set<string>(),
    keys: new Set<string>(),
    agents: new Set<string>(),
    backups: new Set<string>(),
  };
  let secrets: string[] = [];
  let errand = await start();
  try {
    const key = await createKey(data);
    await errand.stop();
    errand = await start(key);
    const world = await arrange(errand, key);
    await subscribe(errand, `http://127.0.0.1:${receiver.port}/`);
    await errand.stop();
    addOldRuns(data, OLD_RUNS);

    for (let round = 1; round <= options.rounds; round++) {
      errand = await start(key);
      const over = new AbortController();
      const lanes = [
        ...world.hooks.flatMap((hook) => [
          fire(hook, done.runs, over.signal),
          fire(hook, done.runs, over.signal),
        ]),
        ...[0, 1].map(() => talk(errand, key, world.agent, done.streams, over.signal)),
      ];
      const what = ADMINISTRATION[Math.floor(random() * ADMINISTRATION.length)]!;
      const command = administer(what, { errand, data, world });
      await Bun.sleep(60 + random() * 500);
      command.kill();
      await errand.kill();
      over.abort();
      await Promise.all(lanes);
      const answer = await command.answer;
      if (what === "rotation") {
        if (answer) secrets = [answer];
        // Asked and not answered: it may have come about or not.
        else secrets.push("?");
      }
      if (what === "key" && answer) done.keys.add(answer);
      if (what === "agent" && answer) done.agents.add(answer);
      if (what === "backup" && answer) done.backups.add(answer);
      if (answer) {
        if (what === "rotation") report.acknowledged.rotations++;
        else if (what === "backup") report.acknowledged.backups++;
        else if (what === "prune") report.acknowledged.pruned++;
        else if (what !== "nothing") report.acknowledged.commands++;
      }
      options.progress?.(
        `round ${round}/${options.rounds} (${what}): ${done.runs.size} runs, ${done.streams.size} streams`,
      );
    }

    errand = await start(key);
    const last = performance.now() + 30_000;
    while ([...done.runs].some((id) => !received.has(id)) && performance.now() < last) await Bun.sleep(50);
    await checkCommands(errand, done, secrets, world.webhook, report);
    if ((await errand.stop()) !== 0) report.lost.push("the program did not end well");
    report.acknowledged.runs = done.runs.size;
    report.acknowledged.streams = done.streams.size;
    report.undelivered = [...done.runs].filter((id) => !received.has(id)).length;
    count(data, done, report);
  } finally {
    await errand.kill().catch(() => {});
    receiver.stop(true);
    discard(data);
  }
  await killMigrations(options.migrations, random, report, options.progress);
  return report;
}

type World = { hooks: string[]; agent: string; webhook: string };

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
  const hooks: string[] = [];
  for (const nodes of [[say], [say, pause, { ...say, name: "again" }]]) {
    const { id } = await post(`/api/workflows?${scope}`, { name: "mixed", nodes });
    hooks.push((await post<{ url: string }>(`/api/workflows/${id}/webhook-tokens`, {})).url);
  }
  const agent = await post(`/api/agents?${scope}`, { name: "mixed", auto_generate_title: false });
  const webhook = await post("/api/v1/webhooks", {
    name: "quiet",
    url: "http://127.0.0.1:9/",
    events: ["agent.conversation.completed"],
  });
  return { hooks, agent: agent.id, webhook: webhook.id };
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

/** Something that an operator does; `answer` is what was acknowledged of it, undefined when it was cut off. */
function administer(
  what: (typeof ADMINISTRATION)[number],
  { errand, data, world }: { errand: Errand; data: string; world: World },
): { answer: Promise<string | undefined>; kill(): void } {
  if (what === "nothing") return { answer: Promise.resolve(undefined), kill: () => {} };
  if (what === "rotation") {
    const path = `/api/v1/webhooks/${world.webhook}/secret/rotate`;
    const answer = errand.api<{ secret: string }>("POST", path).then(
      ({ status, body }) => (status === 200 ? body.secret : undefined),
      () => undefined,
    );
    return { answer, kill: () => {} };
  }
  const file = join(data, `backup-${crypto.randomUUID()}.db`);
  const words = {
    backup: ["backup", "create", file],
    prune: ["prune", "--older-than", "30d", "--json"],
    key: ["keys", "create", "--name", "mixed", "--json"],
    agent: ["agents", "create", "--name", "mixed", "--json"],
  }[what];
  const child = Bun.spawn([BINARY, ...words, "--data", data], {
    env: { PATH: process.env["PATH"] ?? "", HOME: data },
    stdout: "pipe",
    stderr: "ignore",
  });
  const answer = Promise.all([new Response(child.stdout).text(), child.exited]).then(([text, code]) => {
    if (code !== 0) return undefined;
    if (what === "backup") return file;
    return what === "prune" ? "pruned" : (JSON.parse(text) as { id: string }).id;
  });
  return { answer, kill: () => child.kill("SIGKILL") };
}

async function checkCommands(
  errand: Errand,
  done: { keys: Set<string>; agents: Set<string>; backups: Set<string> },
  secrets: string[],
  webhook: string,
  report: Report,
): Promise<void> {
  for (const id of done.keys)
    if ((await errand.api("GET", `/api/keys/${id}`)).status !== 200) report.lost.push("a key");
  for (const id of done.agents)
    if ((await errand.api("GET", `/api/agents/${id}`)).status !== 200) report.lost.push("an agent");
  for (const file of done.backups)
    if ((await run(["backup", "verify", file])).code !== 0) report.lost.push("a backup");
  const { body } = await errand.api<{ secret: string }>("GET", `/api/v1/webhooks/${webhook}/secret`);
  if (secrets.length > 0 && !secrets.includes("?") && body.secret !== secrets[0])
    report.lost.push("a rotation");
}

/** Runs of long ago, for pruning to have something to do. */
function addOldRuns(data: string, runs: number): void {
  const db = new Database(join(data, "errand.db"));
  const at = Date.now() - 90 * 86_400_000;
  const columns = db
    .query<{ name: string; notnull: number; type: string; dflt_value: string | null }, []>(
      "PRAGMA table_info(executions)",
    )
    .all()
    .filter(({ notnull, dflt_value }) => notnull && dflt_value === null);
  const values: Record<string, unknown> = {
    state: "success",
    source: "old",
    metadata: "{}",
    input: "{}",
    definition_hash: "none",
    created_at: at,
  };
  const given = columns.map(({ name, type }) => values[name] ?? (type === "INTEGER" ? 0 : "old"));
  const names = [...columns.map(({ name }) => name), "ended_at", "started_at"];
  const insert = db.query(`INSERT INTO executions (${names.join()}) VALUES (${names.map(() => "?").join()})`);
  db.transaction(() => {
    for (let n = 0; n < runs; n++) {
      const row = columns.map(({ name }, index) =>
        name === "id" ? Bun.randomUUIDv7("hex", at + n) : given[index],
      );
      insert.run(...([...row, at, at] as never[]));
    }
  })();
  db.close();
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
  report.doubled = db
    .query<{ n: number }, []>(
      `SELECT count(*) AS n FROM (SELECT subject_id FROM events WHERE kind IN ('workflow.execution.completed', 'workflow.execution.failed')
       GROUP BY subject_id HAVING count(*) > 1)`,
    )
    .get()!.n;
  report.integrity = integrityOf(db);
  db.close();
}

const integrityOf = (db: Database): string =>
  db.query<{ integrity_check: string }, []>("PRAGMA integrity_check").get()!.integrity_check;

const OLD_ROWS = 5_000;

/** An older database is brought up to date by a program that is killed again and again on the way. */
async function killMigrations(
  times: number,
  random: () => number,
  report: Report,
  progress?: (text: string) => void,
): Promise<void> {
  for (let n = 0; n < times; n++) {
    const data = scratch();
    try {
      const from = 1 + Math.floor(random() * (migrations.length - 1));
      oldDatabase(data, from);
      for (let tries = 0; ; tries++) {
        const child = Bun.spawn([BINARY, "migrate", "up", "--data", data], {
          env: { HOME: data },
          stdout: "ignore",
          stderr: "pipe",
        });
        // The later, the less often: it has to come through in the end.
        const timer = setTimeout(() => child.kill("SIGKILL"), 20 + random() * 60 * (1 + tries / 2));
        const stderr = await new Response(child.stderr).text();
        const code = await child.exited;
        clearTimeout(timer);
        if (child.signalCode === "SIGKILL") {
          report.migrations.killed++;
          continue;
        }
        if (code !== 0)
          report.lost.push(`a migration from ${from} ended with ${code}: ${stderr.slice(0, 300)}`);
        break;
      }
      report.migrations.restarts++;
      const db = new Database(join(data, "errand.db"), { readonly: true });
      const kept = db.query<{ n: number }, []>("SELECT count(*) AS n FROM executions").get()!.n;
      report.migrations.lost += OLD_ROWS - kept;
      const { user_version } = db.query<{ user_version: number }, []>("PRAGMA user_version").get()!;
      if (user_version !== latestVersion()) report.lost.push(`a migration stayed at ${user_version}`);
      if (integrityOf(db) !== "ok") report.migrations.integrity = integrityOf(db);
      db.close();
      if (!existsSync(join(data, "backups")) || readdirSync(join(data, "backups")).length === 0)
        report.lost.push("no backup before a migration");
      progress?.(`migration ${n + 1}/${times}: ${report.migrations.killed} kills`);
    } finally {
      discard(data);
    }
  }
}

function oldDatabase(data: string, steps: number): void {
  const raw = new Database(join(data, "errand.db"), { create: true, strict: true });
  raw.run("PRAGMA journal_mode = WAL");
  migrate(new Connection(raw), { now: 0, list: migrations.slice(0, steps) });
  raw.close();
  addOldRuns(data, OLD_ROWS);
}

export const isClean = ({
  lost,
  doubled,
  undelivered,
  integrity,
  migrations: { lost: gone, integrity: whole },
}: Report): boolean =>
  lost.length + doubled + undelivered + gone === 0 && integrity === "ok" && whole === "ok";
