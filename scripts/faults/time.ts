/**
 * Sets the clock on the wall while the program runs: an hour forward and back as a careless machine does in
 * spring and autumn, 25 hours forward, two days back, and right again. Nothing may come before its time by that
 * clock, nothing may be missed, and what does not wait must go on as if nothing had been. `--sleep 40`: under
 * load the machine sleeps for so many seconds as well.
 */
import { Database } from "bun:sqlite";
import { closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { createKey, discard, type Errand, scratch, startErrand } from "../lib/errand.ts";
import { fire, greetingHook } from "../lib/hook-load.ts";
import { buildShim, shimMissing } from "./lib/disk-shim.ts";
import { until } from "./lib/project.ts";
import { script } from "./lib/script.ts";

export type Report = {
  jumps: number;
  runs: number;
  deliveries: number;
  /** From the jump that made them due to the end of all that then was, in milliseconds. */
  caught_up_ms: number;
  faults: string[];
};

const HOUR = 3_600_000;
// How a retry waits after the first, the second and so on: never less.
const SCHEDULE = [60_000, 300_000, 900_000, HOUR, 6 * HOUR];
const PATIENCE_MS = 15_000;

export async function setClock({ sleep_s = 0 } = {}): Promise<Report> {
  const data = scratch();
  const file = join(data, "..", `${data.split("/").at(-1)}.time`);
  const clock = openSync(file, "w+");
  let offset = 0;
  const add = (ms: number) => {
    offset += ms;
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(offset));
    writeSync(clock, bytes, 0, 8, 0);
  };
  add(0);
  const report: Report = { jumps: 0, runs: 0, deliveries: 0, caught_up_ms: 0, faults: [] };
  let answer = 500;
  const receiver = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => new Response(null, { status: answer }),
  });
  const key = await createKey(data);
  const args = ["--log-level", "error", "--access-log", "false"];
  // A zone with summer time, which nothing may depend on.
  const env = {
    LD_PRELOAD: buildShim(data, "time-shim"),
    TIME_FILE: file,
    TZ: "Europe/Berlin",
    ERRAND_ALLOW_TARGETS: "127.0.0.1",
  };
  const errand = await startErrand({ data, key, args, env });
  try {
    const post = async <T>(path: string, body: object) => {
      const made = await errand.api<T>("POST", path, body);
      if (made.status >= 300) throw new Error(JSON.stringify(made.body));
      return made.body;
    };
    const scope = `workspace_id=${key.workspace_id}`;
    const waiting = async (name: string, seconds: number) => {
      const nodes = [{ name: "pause", node_type_name: "wait", input_config: { seconds } }];
      return (await post<{ id: string }>(`/api/workflows?${scope}`, { name, nodes })).id;
    };
    const [brief, long, next] = [
      await waiting("brief", 1),
      await waiting("long", 20 * 3_600),
      await waiting("days", 40 * 3_600),
    ];
    await post("/api/v1/webhooks", {
      url: `http://127.0.0.1:${receiver.port}/`,
      events: ["workflow.execution.started"],
    });
    const start = async (workflow: string) => {
      report.runs++;
      return (await post<{ execution_id: string }>(`/api/workflows/${workflow}/executions`, {})).execution_id;
    };
    const stateOf = async (id: string) =>
      (await errand.api<{ status: string }>("GET", `/api/executions/${id}`)).body.status;
    /** Whether it has come to its end within reason, by the clock of this script. */
    const ends = async (what: string, id: string) => {
      const last = performance.now() + PATIENCE_MS;
      while ((await stateOf(id)) !== "success") {
        if (performance.now() > last)
          return report.faults.push(`${what} has not ended: ${await stateOf(id)}`);
        await Bun.sleep(20);
      }
      return 0;
    };
    const jump = async (ms: number, ...stillWaiting: string[]) => {
      add(ms);
      report.jumps++;
      // Whoever asks is served at once, whatever time it is, and short waits are short.
      const began = performance.now();
      if ((await errand.api("GET", "/api/me")).status !== 200) report.faults.push(`refused after ${ms} ms`);
      if (performance.now() - began > 2_000) report.faults.push(`slow after ${ms} ms`);
      await ends(`a wait of a second after a jump of ${ms / HOUR} h`, await start(brief));
      for (const id of stillWaiting)
        if ((await stateOf(id)) !== "waiting")
          report.faults.push(`a run woke before its time, after ${ms / HOUR} h`);
    };

    const twenty = await start(long);
    const forty = await start(next);
    await until(async () => ((await stateOf(forty)) === "waiting" ? true : undefined));
    await jump(HOUR, twenty, forty);
    await jump(-HOUR, twenty, forty);
    const began = performance.now();
    await jump(25 * HOUR, forty);
    await ends("a wait of 20 h, 25 h later", twenty);
    report.caught_up_ms = Math.round(performance.now() - began);
    await jump(-48 * HOUR, forty);
    const fresh = await start(long);
    await jump(48 * HOUR, forty);
    await ends("a wait begun while the clock was two days behind", fresh);
    answer = 204;
    await jump(25 * HOUR);
    await ends("a wait of 40 h, 50 h later", forty);
    const db = () => new Database(join(data, "errand.db"), { readonly: true });
    const count = (sql: string) => {
      const open = db();
      const { n } = open.query<{ n: number }, []>(sql).get()!;
      open.close();
      return n;
    };
    // All that was put off is due now, and the receiver is well again.
    const last = performance.now() + PATIENCE_MS;
    while (
      count("SELECT count(*) AS n FROM deliveries WHERE state != 'success'") > 0 &&
      performance.now() < last
    )
      await Bun.sleep(20);
    report.deliveries = count("SELECT count(*) AS n FROM deliveries");
    const missed = count("SELECT count(*) AS n FROM deliveries WHERE state != 'success'");
    if (missed > 0) report.faults.push(`${missed} deliveries were missed`);
    if (report.deliveries !== report.runs)
      report.faults.push(`${report.deliveries} deliveries of ${report.runs} runs`);
    report.faults.push(...earlyIn(db()));
    if (sleep_s > 0) {
      const hook = await greetingHook(errand, key.workspace_id);
      report.faults.push(...(await sleepUnderLoad(errand, hook, sleep_s)));
    }
    if ((await errand.stop()) !== 0) report.faults.push(`did not end well: ${errand.output().slice(-500)}`);
    if (errand.output().includes('"level":"error"')) report.faults.push(errand.output().slice(-500));
    return report;
  } finally {
    await errand.kill().catch(() => {});
    receiver.stop(true);
    closeSync(clock);
    discard(file);
    discard(data);
  }
}

/** The machine sleeps in the middle of everything: the program goes on afterwards as if nothing had been. */
async function sleepUnderLoad(errand: Errand, hook: string, seconds: number): Promise<string[]> {
  const acknowledged = new Set<string>();
  const over = new AbortController();
  const clients = Array.from({ length: 8 }, () => fire(hook, acknowledged, over.signal));
  await until(async () => (acknowledged.size > 20 ? true : undefined));
  process.kill(errand.pid, "SIGSTOP");
  await Bun.sleep(seconds * 1_000);
  process.kill(errand.pid, "SIGCONT");
  const before = acknowledged.size;
  const last = performance.now() + PATIENCE_MS;
  while (acknowledged.size < before + 20 && performance.now() < last) await Bun.sleep(20);
  over.abort();
  await Promise.all(clients);
  return acknowledged.size < before + 20
    ? [`asleep for ${seconds} s, it did not go on: ${errand.output()}`]
    : [];
}

/** What came before its time by the program's own clock. */
function earlyIn(db: Database): string[] {
  const early: string[] = [];
  const waits = db
    .query<{ seconds: number }, []>(
      "SELECT (wake_at - ended_at) / 1000 AS seconds FROM steps WHERE node_type_name = 'wait' AND ended_at < wake_at",
    )
    .all();
  for (const { seconds } of waits) early.push(`a wait ended ${seconds} s early`);
  const attempts = db
    .query<{ number: number; gap: number }, []>(
      `SELECT number, started_at - lag(started_at) OVER (PARTITION BY delivery_id ORDER BY number) AS gap FROM attempts`,
    )
    .all();
  db.close();
  // Put back in between, the clock says less than passed: those gaps say nothing.
  for (const { number, gap } of attempts)
    if (gap !== null && gap >= 0 && gap < SCHEDULE[number - 2]!)
      early.push(`attempt ${number} came ${gap} ms after the one before`);
  return early;
}

export const isClean = ({ faults }: Report): boolean => faults.length === 0;

if (import.meta.main) {
  await script({
    name: "time",
    about:
      "Sets the clock of the running program forward and back, and looks for what comes early or not at all.",
    missing: shimMissing,
    numbers: { sleep: { help: "seconds that the machine sleeps under load", usually: 0 } },
    run: ({ number }) => setClock({ sleep_s: number("sleep") }),
    isClean,
  });
}
