/**
 * Fills the disk under the running program while webhooks come in, and frees it again, several times. Nothing may
 * be answered 2xx that is not on disk, whoever asks must be told so at once, `/health` must say it within two
 * seconds, reading must go on, and all must be well again without a restart.
 */
import { Database } from "bun:sqlite";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createKey, discard, type Errand, scratch, startErrand } from "../lib/errand.ts";
import { greetingHook } from "../lib/hook-load.ts";
import { buildShim, shimMissing } from "./lib/disk-shim.ts";
import { script } from "./lib/script.ts";

export type Report = {
  times: number;
  acknowledged: number;
  /** Acknowledged and not there after a kill. */
  lost: number;
  unfinished: number;
  /** Answered 503 while the disk was full. */
  refused: number;
  /** From the full disk to a health that says so, at the longest; and from the freed one to the next 202. */
  red_ms: number;
  well_ms: number;
  faults: string[];
};

const CLIENTS = 8;
const RED_WITHIN_MS = 2_000;
const PATIENCE_MS = 20_000;
const FULL_MS = 600;

export async function fillDisk({ times }: { times: number }): Promise<Report> {
  const folder = scratch();
  const data = join(folder, "data");
  const full = join(folder, "full");
  const key = await createKey(data);
  const errand = await startErrand({
    data,
    key,
    args: ["--log-level", "error", "--access-log", "false"],
    env: { LD_PRELOAD: buildShim(folder), FULL_FILE: full, DISK_MATCH: "errand.db" },
  });
  const report: Report = {
    times,
    acknowledged: 0,
    lost: 0,
    unfinished: 0,
    refused: 0,
    red_ms: 0,
    well_ms: 0,
    faults: [],
  };
  const acknowledged = new Set<string>();
  try {
    const hook = await greetingHook(errand, key.workspace_id);
    const over = new AbortController();
    const clients = Array.from({ length: CLIENTS }, () => insist(hook, acknowledged, report, over.signal));
    for (let n = 0; n < times; n++) {
      await grows(acknowledged, report);
      const filled = performance.now();
      writeFileSync(full, "");
      if (!(await healthIs(errand, 503))) report.faults.push("a full disk and a good health");
      report.red_ms = Math.max(report.red_ms, Math.round(performance.now() - filled));
      await Bun.sleep(FULL_MS);
      if ((await errand.api("GET", "/api/me")).status !== 200) report.faults.push("refused to read");
      const freed = performance.now();
      rmSync(full);
      await grows(acknowledged, report);
      if (!(await healthIs(errand, 200))) report.faults.push("room again, and no good health");
      report.well_ms = Math.max(report.well_ms, Math.round(performance.now() - freed));
    }
    over.abort();
    await Promise.all(clients);
    await ended(data);
    await errand.kill();
    count(data, acknowledged, report);
    return report;
  } finally {
    await errand.kill().catch(() => {});
    discard(folder);
  }
}

/** Starts one run after the other, whatever it is answered; notes what was acknowledged. */
async function insist(
  hook: string,
  acknowledged: Set<string>,
  report: Report,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const response = await fetch(hook, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: '{"input_data":{"n":1}}',
    });
    const body = (await response.json()) as { execution_id: string };
    if (response.status === 202) acknowledged.add(body.execution_id);
    else if (response.status === 503) {
      report.refused++;
      await Bun.sleep(5);
    } else report.faults.push(`answered ${response.status}: ${JSON.stringify(body)}`);
  }
}

async function grows(acknowledged: Set<string>, report: Report): Promise<void> {
  const enough = acknowledged.size + CLIENTS * 2;
  const last = performance.now() + PATIENCE_MS;
  while (acknowledged.size < enough) {
    if (performance.now() > last) return void report.faults.push("nothing is taken though there is room");
    await Bun.sleep(5);
  }
}

async function healthIs({ url }: Errand, status: number): Promise<boolean> {
  const last = performance.now() + PATIENCE_MS;
  while (performance.now() < last) {
    const health = await fetch(`${url}/health`);
    await health.text();
    if (health.status === status) return true;
    await Bun.sleep(5);
  }
  return false;
}

const openTo = (data: string) => new Database(join(data, "errand.db"), { readonly: true });

async function ended(data: string): Promise<void> {
  const db = openTo(data);
  const open = db.query<{ n: number }, []>("SELECT count(*) AS n FROM executions WHERE ended_at IS NULL");
  for (const last = performance.now() + PATIENCE_MS; open.get()!.n > 0 && performance.now() < last; )
    await Bun.sleep(20);
  db.close();
}

function count(data: string, acknowledged: Set<string>, report: Report): void {
  const db = openTo(data);
  const rows = db.query<{ id: string; state: string }, []>("SELECT id, state FROM executions").all();
  const states = new Map(rows.map(({ id, state }) => [id, state]));
  report.acknowledged = acknowledged.size;
  for (const id of acknowledged) {
    if (!states.has(id)) report.lost++;
    else if (states.get(id) !== "success") report.unfinished++;
  }
  const whole = db.query<{ integrity_check: string }, []>("PRAGMA integrity_check").get()!.integrity_check;
  if (whole !== "ok") report.faults.push(whole);
  db.close();
}

export const isClean = ({ lost, unfinished, refused, red_ms, faults }: Report): boolean =>
  lost + unfinished + faults.length === 0 && refused > 0 && red_ms < RED_WITHIN_MS;

if (import.meta.main) {
  await script({
    name: "full-disk",
    about:
      "Fills the disk under the running program and frees it again; nothing may be lost or need a restart.",
    numbers: { times: { help: "how often", usually: 10 } },
    missing: shimMissing,
    run: ({ number }) => fillDisk({ times: number("times") }),
    isClean,
  });
}
