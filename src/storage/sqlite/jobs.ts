import type { JobRow, Lane, Lease } from "../../jobs/job.ts";
import type { JobStore } from "../../jobs/store.ts";
import type { Connection } from "./connection.ts";
import type { Storage } from "./storage.ts";

const COLUMNS = "id, lane, kind, tenant, key, ref, state, run_at, attempt, crashes, created_at";

// The next five are called by other features' operations, inside their transaction.

export function insertJob(db: Connection, job: JobRow): void {
  db.run(
    `INSERT INTO jobs (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    job.id,
    job.lane,
    job.kind,
    job.tenant,
    job.key,
    job.ref,
    job.state,
    job.run_at,
    job.attempt,
    job.crashes,
    job.created_at,
  );
}

/** The fence: false when the job is not running under this attempt any more. */
export function finishJob(db: Connection, lease: Lease): boolean {
  return (
    db.run("DELETE FROM jobs WHERE id = ? AND attempt = ? AND state = 'running'", lease.id, lease.attempt) ===
    1
  );
}

/** Puts a running job back, due at `at`. Progress was made, so the crash count starts anew. */
export function releaseJob(db: Connection, lease: Lease, at: number, reason: string): boolean {
  const changed = db.run(
    `UPDATE jobs SET state = 'ready', run_at = ?, error = ?, crashes = 0, owner = NULL
     WHERE id = ? AND attempt = ? AND state = 'running'`,
    at,
    reason,
    lease.id,
    lease.attempt,
  );
  return changed === 1;
}

/**
 * The same for a job that waits: due at `at`, or at `now` when what it waits for has come while it ran.
 * Answers when. Undefined: the job is not running under this attempt any more.
 */
export function parkJob(
  db: Connection,
  lease: Lease,
  { at, now, reason }: { at: number; now: number; reason: string },
): number | undefined {
  return db.get<{ run_at: number }>(
    `UPDATE jobs SET state = 'ready', run_at = CASE woken WHEN 1 THEN min(?1, ?2) ELSE ?1 END, error = ?3,
       crashes = 0, owner = NULL
     WHERE id = ?4 AND attempt = ?5 AND state = 'running' RETURNING run_at`,
    at,
    now,
    reason,
    lease.id,
    lease.attempt,
  )?.run_at;
}

/** What the job of `ref` waits for has come: it is due, or looks again before it next waits. */
export function wakeJob(db: Connection, ref: string, now: number): void {
  db.run(
    `UPDATE jobs SET woken = 1, run_at = CASE state WHEN 'ready' THEN min(run_at, ?) ELSE run_at END
     WHERE ref = ? AND state != 'dead'`,
    now,
    ref,
  );
}

/** A step of a long job is stored: the fence, and the crash count starts anew. */
export function holdJob(db: Connection, lease: Lease): boolean {
  return (
    db.run(
      "UPDATE jobs SET crashes = 0 WHERE id = ? AND attempt = ? AND state = 'running'",
      lease.id,
      lease.attempt,
    ) === 1
  );
}

/** The fence alone: true while the job runs under this attempt. A start is no progress, so crashes stay counted. */
export const runsJob = (db: Connection, lease: Lease): boolean =>
  db.get("SELECT 1 FROM jobs WHERE id = ? AND attempt = ? AND state = 'running'", lease.id, lease.attempt) !==
  undefined;

type Wanted = { lane: Lane; key: string; count: number };

function claim(db: Connection, args: { wanted: Wanted[]; owner: string; now: number }): JobRow[] {
  return args.wanted.flatMap(({ lane, key, count }) =>
    db.all<JobRow>(
      `UPDATE jobs SET state = 'running', attempt = attempt + 1, woken = 0, owner = ? WHERE id IN (
         SELECT id FROM jobs WHERE lane = ? AND key = ? AND state = 'ready' AND run_at <= ?
         ORDER BY run_at, id LIMIT ?)
       RETURNING ${COLUMNS}`,
      args.owner,
      lane,
      key,
      args.now,
      count,
    ),
  );
}

type Recovery = { orphans: Lease[]; limits: Record<string, number>; now: number };

function recover(db: Connection, { orphans, limits, now }: Recovery): { recovered: number; dead: JobRow[] } {
  const kinds = Object.keys(limits);
  const limit = kinds.length === 0 ? "NULL" : `CASE kind ${kinds.map(() => "WHEN ? THEN ?").join(" ")} END`;
  const each = Object.entries(limits).flat();
  let recovered = 0;
  for (const { id, attempt } of orphans) {
    // Without a limit the comparison is null, which is not true.
    const now_is = db.get<{ state: string }>(
      `UPDATE jobs SET crashes = crashes + 1,
         (state, error, owner, run_at) = (SELECT
           iif(gone, 'dead', 'ready'), iif(gone, 'crash_loop', error), iif(gone, owner, NULL), iif(gone, run_at, min(run_at, ?))
           FROM (SELECT crashes + 1 >= ${limit} AS gone))
       WHERE id = ? AND attempt = ? AND state = 'running' RETURNING state`,
      now,
      ...each,
      id,
      attempt,
    );
    if (now_is?.state === "ready") recovered++;
  }
  // Those of an earlier start as well: the program may have died before it could end what they worked.
  const dead = db.all<JobRow>(`SELECT ${COLUMNS} FROM jobs WHERE state = 'dead' ORDER BY id`);
  return { recovered, dead };
}

export const jobWrites = {
  "jobs.insert": (db: Connection, jobs: JobRow[]): void => {
    for (const job of jobs) insertJob(db, job);
  },
  "jobs.claim": claim,
  "jobs.finish": finishJob,
  "jobs.release": (db: Connection, args: { lease: Lease; at: number; reason: string }): boolean =>
    releaseJob(db, args.lease, args.at, args.reason),
  "jobs.recover": recover,
  "jobs.bury": (db: Connection, id: string): void => {
    db.run("DELETE FROM jobs WHERE id = ? AND state = 'dead'", id);
  },
  "jobs.requeue": (db: Connection, leases: Lease[]): void => {
    for (const { id, attempt } of leases) {
      db.run(
        "UPDATE jobs SET state = 'ready', owner = NULL WHERE id = ? AND attempt = ? AND state = 'running'",
        id,
        attempt,
      );
    }
  },
};

// One index look-up per key instead of a scan over all that waits: half a million rows of one key cost one step.
const EACH_KEY = `WITH RECURSIVE each (key) AS (
    SELECT min(key) FROM jobs WHERE lane = ?1 AND state = 'ready'
    UNION ALL
    SELECT (SELECT min(key) FROM jobs WHERE lane = ?1 AND state = 'ready' AND key > each.key)
    FROM each WHERE each.key IS NOT NULL)
  SELECT key, (SELECT tenant FROM jobs WHERE lane = ?1 AND state = 'ready' AND jobs.key = each.key LIMIT 1) AS tenant
  FROM each WHERE key IS NOT NULL`;

export const sqliteJobs = ({ reader, writer }: Storage): JobStore => ({
  insert: (jobs) => writer.submit("jobs.insert", jobs),
  // No sync: a claim that a power cut takes back leaves the job ready, as if it had not been claimed.
  claim: (wanted, owner, now) => writer.submit("jobs.claim", { wanted, owner, now }, "lazy"),
  finish: (lease) => writer.submit("jobs.finish", lease),
  release: (lease, at, reason) => writer.submit("jobs.release", { lease, at, reason }),
  requeue: (leases) => writer.submit("jobs.requeue", leases),
  bury: (id) => writer.submit("jobs.bury", id),
  // In the order of ids: the table itself, from where the last slice ended.
  orphans: async ({ lanes, owner, after, count }) =>
    reader.all(
      `SELECT id, attempt, lane, tenant, key FROM jobs
       WHERE id > ? AND state = 'running' AND owner IS NOT ? AND lane IN (${lanes.map((lane) => `'${lane}'`)})
       ORDER BY id LIMIT ?`,
      after,
      owner,
      count,
    ),
  recover: (orphans, limits, now) => writer.submit("jobs.recover", { orphans, limits, now }),
  waitingKeys: async (lane) => reader.all(EACH_KEY, lane),
  dueKeys: async (lane, since, now, limit) =>
    reader.all(
      `SELECT DISTINCT key, tenant FROM jobs
       WHERE lane = ? AND state = 'ready' AND run_at > ? AND run_at <= ? LIMIT ?`,
      lane,
      since,
      now,
      limit,
    ),
  allDueKeys: async (lane, now) =>
    reader.all(
      `${EACH_KEY} AND EXISTS (SELECT 1 FROM jobs WHERE lane = ?1 AND state = 'ready' AND jobs.key = each.key AND run_at <= ?2)`,
      lane,
      now,
    ),
  nextDue: async (lane, now) =>
    reader.get<{ at: number | null }>(
      "SELECT min(run_at) AS at FROM jobs WHERE lane = ? AND state = 'ready' AND run_at > ?",
      lane,
      now,
    )?.at ?? undefined,
  waitingOf: async (ref) =>
    reader.get("SELECT lane, tenant, key FROM jobs WHERE ref = ? AND state = 'ready'", ref),
  // Asked for an estimate by every start that has to wait: once for all of one moment.
  due: async (lane, key, now, most) =>
    reader.shared(
      `due ${lane} ${key}`,
      () =>
        reader.get<{ n: number }>(
          `SELECT count(*) AS n FROM (SELECT 1 FROM jobs INDEXED BY jobs_ready
             WHERE state = 'ready' AND lane = ? AND key = ? AND run_at <= ? LIMIT ?)`,
          lane,
          key,
          now,
          most,
        )!.n,
    ),
  counts: async () => reader.all("SELECT lane, state, count(*) AS count FROM jobs GROUP BY lane, state"),
});
