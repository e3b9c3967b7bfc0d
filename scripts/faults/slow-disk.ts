/**
 * Runs the program on a disk whose every sync takes a while longer, under load, and asks three things: is
 * everything that was answered on disk, does the program stay responsive to what needs no disk, and is it
 * healthy all along.
 *
 *     scripts/faults/slow-disk [--sync-ms 10,100] [--seconds 5] [--json]
 *
 * Exit code 0 when all holds, 1 when something does not, 77 where the shim cannot be made.
 */
import { Database } from "bun:sqlite";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { createKey, discard, scratch, startErrand } from "../lib/errand.ts";
import { greetingHook } from "../lib/hook-load.ts";
import { clientsApart } from "./lib/clients.ts";
import { buildShim, shimMissing } from "./lib/disk-shim.ts";

export type Report = {
  sync_ms: number;
  acknowledged: number;
  /** Acknowledged and not there after a kill. */
  lost: number;
  /** Of `GET /health` under load: what the event loop was held up by. */
  health_p50_ms: number;
  health_p99_ms: number;
  unhealthy: number;
};

const CLIENTS = 16;
const LOOK_MS = 10;
// Compiled by then, and the clients as well.
const WARM_UP_MS = 1_500;

export async function slowDisk({ sync_ms, seconds }: { sync_ms: number; seconds: number }): Promise<Report> {
  const folder = scratch();
  try {
    const data = join(folder, "data");
    const key = await createKey(data);
    const errand = await startErrand({
      data,
      key,
      args: ["--log-level", "error", "--access-log", "false"],
      env: { LD_PRELOAD: buildShim(folder), SYNC_MS: String(sync_ms) },
    });
    const hook = await greetingHook(errand, key.workspace_id);
    const clients = clientsApart(hook, CLIENTS);
    await Bun.sleep(WARM_UP_MS);
    const times: number[] = [];
    let unhealthy = 0;
    for (const until = performance.now() + seconds * 1_000; performance.now() < until; ) {
      const asked = performance.now();
      const { status } = await fetch(`${errand.url}/health`);
      times.push(performance.now() - asked);
      if (status !== 200) unhealthy++;
      await Bun.sleep(LOOK_MS);
    }
    await errand.kill();
    const acknowledged = await clients.acknowledged;
    const stored = storedExecutions(join(data, "errand.db"));
    times.sort((a, b) => a - b);
    const at = (share: number) => Math.round((times[Math.floor(times.length * share)] ?? 0) * 100) / 100;
    return {
      sync_ms,
      acknowledged: acknowledged.size,
      lost: acknowledged.difference(stored).size,
      health_p50_ms: at(0.5),
      health_p99_ms: at(0.99),
      unhealthy,
    };
  } finally {
    discard(folder);
  }
}

function storedExecutions(path: string): Set<string> {
  const db = new Database(path);
  const rows = db.query<{ id: string }, []>("SELECT id FROM executions").all();
  db.close();
  return new Set(rows.map(({ id }) => id));
}

const LAG_TARGET_MS = 10;

export const isGood = ({ lost, unhealthy, health_p99_ms }: Report): boolean =>
  lost + unhealthy === 0 && health_p99_ms < LAG_TARGET_MS;

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      "sync-ms": { type: "string", default: "10,100" },
      seconds: { type: "string", default: "5" },
      json: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) {
    console.log("usage: scripts/faults/slow-disk [--sync-ms 10,100] [--seconds 5] [--json]");
    process.exit(0);
  }
  const missing = shimMissing();
  if (missing) {
    console.error(`skipped: ${missing}`);
    process.exit(77);
  }
  let good = true;
  for (const sync_ms of values["sync-ms"].split(",").map(Number)) {
    const report = await slowDisk({ sync_ms, seconds: Number(values.seconds) });
    good &&= isGood(report);
    if (values.json) console.log(JSON.stringify(report));
    else for (const [name, value] of Object.entries(report)) console.log(`${name.padEnd(14)} ${value}`);
  }
  process.exit(good ? 0 : 1);
}
