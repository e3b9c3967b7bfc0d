import { mkdtempSync, realpathSync, rmSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { BINARY, discard, type Key, scratch, startErrand } from "../../lib/errand.ts";
import { compile, HOST_TARGET } from "../../lib/executable.ts";
import type { Figures } from "../figures.ts";
import { writeHistory } from "../history.ts";
import {
  arrived,
  BODY,
  hookOf,
  median,
  memory,
  say,
  startOn,
  subscribe,
  withFolder,
  withRunning,
  yardstick,
} from "../measure.ts";
import type { Suite } from "../suite.ts";

const STARTS = 9;
const GIGABYTE = 1e9;
const MIB = 1_048_576;
const SAMPLE = 5_000;
const ROOT = resolve(import.meta.dir, "../../..");

const database = (data: string): string => join(data, "errand.db");

/** Lets the system forget what it has of a file in memory, so that the next read comes from the disk. */
function forget(file: string): void {
  Bun.spawnSync(["dd", `if=${file}`, "iflag=nocache", "count=0", "status=none"]);
}

type Started = { ms: number; rss: number };

async function starts(data: string, key: Key, isCold: boolean): Promise<Started> {
  const times: number[] = [];
  const rss: number[] = [];
  for (let n = 0; n < STARTS; n++) {
    if (isCold) for (const file of [BINARY, database(data)]) forget(file);
    const errand = await startOn(data, key);
    times.push(errand.startedInMs);
    rss.push(memory(errand.pid));
    await errand.stop();
  }
  return { ms: median(times), rss: median(rss) };
}

/** The very first one: makes the folder, the key file and the schema. */
async function firstStarts(): Promise<number> {
  const times: number[] = [];
  for (let n = 0; n < STARTS; n++) {
    const data = scratch();
    const errand = await startErrand({ data, args: ["--log-level", "error"] });
    times.push(errand.startedInMs);
    await errand.stop();
    discard(data);
  }
  return median(times);
}

/** A gigabyte of runs that were told to a webhook each. */
async function fill(data: string, key: Key): Promise<void> {
  const receiver = await yardstick("receiver");
  try {
    await withRunning(data, key, async (errand) => {
      const hook = await hookOf(errand, key);
      await subscribe(errand, receiver.url);
      await fetch(hook, { method: "POST", body: BODY, headers: { "content-type": "application/json" } });
      await arrived(receiver.url, 1);
    });
  } finally {
    receiver.end();
  }
  const empty = statSync(database(data)).size;
  writeHistory(data, SAMPLE);
  const each = (statSync(database(data)).size - empty) / SAMPLE;
  writeHistory(data, Math.ceil(GIGABYTE / each));
}

/** What the executable is made of: built with less and less in it, and what is left is Bun. */
async function parts(figures: Figures): Promise<void> {
  const folder = mkdtempSync(join(dirname(BINARY), ".parts-"));
  const size = async (name: string, less: { hasBytecode?: boolean; hasSourceMap?: boolean }) => {
    const outfile = join(folder, name);
    await compile({ outfile, target: HOST_TARGET, ...less });
    return statSync(outfile).size;
  };
  const before = process.cwd();
  process.chdir(ROOT);
  try {
    const whole = await size("whole", {});
    const mapped = await size("mapped", { hasBytecode: false });
    const bare = await size("bare", { hasBytecode: false, hasSourceMap: false });
    const bun = statSync(realpathSync(process.execPath)).size;
    const name = "the executable";
    const sizes = {
      executable: whole,
      "of it Bun: its engine, SQLite, HTTP, TLS": bun,
      "of it the program and its packages": bare - bun,
      "of it the source map": mapped - bare,
      "of it what is parsed ahead": whole - mapped,
    };
    for (const [metric, bytes] of Object.entries(sizes)) {
      const yardstick = bytes === whole ? {} : { yardstick: { name, value: whole / MIB } };
      figures.record({ metric, value: bytes / MIB, unit: "MiB", ...yardstick });
    }
  } finally {
    process.chdir(before);
    rmSync(folder, { recursive: true, force: true });
  }
}

export const cold: Suite = {
  name: "cold",
  async run({ figures }) {
    say("cold, starts ...");
    figures.record({ metric: "start in an empty folder", value: await firstStarts(), unit: "ms" });
    const empty = await withFolder(async (data, key) => ({
      warm: await starts(data, key, false),
      cold: await starts(data, key, true),
    }));
    const full = await withFolder(async (data, key) => {
      await fill(data, key);
      say(`  ${(statSync(database(data)).size / 1e9).toFixed(2)} GB written`);
      return { warm: await starts(data, key, false), cold: await starts(data, key, true) };
    });
    const name = "an empty one";
    const tell = (metric: string, value: number, unit: string, against?: number) =>
      figures.record({
        metric,
        value,
        unit,
        ...(against === undefined ? {} : { yardstick: { name, value: against } }),
      });
    tell("start, empty database", empty.warm.ms, "ms");
    tell("start, 1 GB database", full.warm.ms, "ms", empty.warm.ms);
    tell("start from the disk, empty database", empty.cold.ms, "ms");
    tell("start from the disk, 1 GB database", full.cold.ms, "ms", empty.cold.ms);
    tell("RSS after the start, 1 GB database", full.warm.rss, "MB", empty.warm.rss);
    await parts(figures);
  },
};
