import { Database } from "bun:sqlite";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Connection } from "../../../src/storage/sqlite/connection.ts";
import { latestVersion, migrate } from "../../../src/storage/sqlite/migrate.ts";
import { migrations } from "../../../src/storage/sqlite/migrations.ts";
import { BINARY, discard, scratch } from "../../lib/errand.ts";

export type Migrated = { migrations: number; killed: number; lost: number; faults: string[] };

const ROWS = 5_000;

export const integrityOf = (db: Database): string =>
  db.query<{ integrity_check: string }, []>("PRAGMA integrity_check").get()!.integrity_check;

/** Runs of long ago, for pruning to have something to do. */
export function addOldRuns(data: string, runs: number): void {
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

/** Older databases, brought up to date by a program that is killed again and again on the way. */
export async function killMigrations(
  times: number,
  random: () => number,
  progress?: (text: string) => void,
): Promise<Migrated> {
  const report: Migrated = { migrations: 0, killed: 0, lost: 0, faults: [] };
  for (let n = 0; n < times; n++) {
    const data = scratch();
    try {
      const from = 1 + Math.floor(random() * (migrations.length - 1));
      makeOld(data, from);
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
          report.killed++;
          continue;
        }
        if (code !== 0)
          report.faults.push(`a migration from ${from} ended with ${code}: ${stderr.slice(0, 300)}`);
        break;
      }
      report.migrations++;
      check(data, report);
      progress?.(`migration ${n + 1}/${times}: ${report.killed} kills`);
    } finally {
      discard(data);
    }
  }
  return report;
}

function check(data: string, report: Migrated): void {
  const db = new Database(join(data, "errand.db"), { readonly: true });
  report.lost += ROWS - db.query<{ n: number }, []>("SELECT count(*) AS n FROM executions").get()!.n;
  const { user_version } = db.query<{ user_version: number }, []>("PRAGMA user_version").get()!;
  if (user_version !== latestVersion()) report.faults.push(`a migration stayed at ${user_version}`);
  const whole = integrityOf(db);
  if (whole !== "ok") report.faults.push(whole);
  db.close();
  if (!existsSync(join(data, "backups")) || readdirSync(join(data, "backups")).length === 0)
    report.faults.push("no backup before a migration");
}

function makeOld(data: string, steps: number): void {
  const raw = new Database(join(data, "errand.db"), { create: true, strict: true });
  raw.run("PRAGMA journal_mode = WAL");
  migrate(new Connection(raw), { now: 0, list: migrations.slice(0, steps) });
  raw.close();
  addOldRuns(data, ROWS);
}
