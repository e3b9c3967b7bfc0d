/**
 * Cuts the power, in thought, at every moment of a run under load. A preloaded library writes down each write,
 * sync and answer of the program; afterwards, for every chosen moment, the files are put together as a disk
 * could have held them then: all that was synced, and of what was not nothing, some, or some torn in
 * sectors. Each such image must open, be whole, and hold every webhook that had been answered.
 *
 *     scripts/faults/powercut [--images 300] [--acknowledged 400] [--seed 1] [--lying-disk] [--json]
 *
 * `--lying-disk` is the counter-proof: a disk that only says it synced must lose something here.
 * Exit code 0 when nothing was lost, 1 when something was, 77 where the library cannot be made.
 */
import { Database } from "bun:sqlite";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";
import { createKey, discard, scratch, startErrand } from "../lib/errand.ts";
import { fire, generator, greetingHook, subscribe } from "../lib/hook-load.ts";
import { buildShim, type DiskRecord, readRecords, shimMissing } from "./lib/disk-shim.ts";

export type Report = {
  images: number;
  acknowledged: number;
  writes: number;
  syncs: number;
  /** Images that lacked something acknowledged, could not be opened, or were not whole. */
  lost: number;
  unreadable: number;
  corrupt: number;
};

type Options = {
  images: number;
  acknowledged: number;
  seed: number;
  lyingDisk?: boolean;
  progress?: (text: string) => void;
};

const CLIENTS = 16;
// Images are looked at and thrown away: a disk would be busy with nothing else.
const MEMORY = "/dev/shm";

export async function cutPower(options: Options): Promise<Report> {
  const folder = scratch();
  const images = mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), "errand-"));
  try {
    const { before, records } = await recordRun(folder, options);
    return replay(images, before, records, options);
  } finally {
    discard(folder);
    discard(images);
  }
}

/** A run under load, killed at its end: the data folder as it was before, and what reached the disk since. */
async function recordRun(folder: string, { acknowledged: wanted }: Options) {
  const data = join(folder, "data");
  const before = join(folder, "before");
  const log = join(folder, "disk.log");
  const receiver = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => new Response(null, { status: 204 }),
  });
  const args = ["--log-level", "error", "--access-log", "false"];
  try {
    const key = await createKey(data);
    const env = { ERRAND_ALLOW_TARGETS: "127.0.0.1" };
    let errand = await startErrand({ data, args, env, key });
    let hook = await greetingHook(errand, key.workspace_id);
    await subscribe(errand, `http://127.0.0.1:${receiver.port}/`);
    const { url } = errand;
    await errand.stop();
    cpSync(data, before, { recursive: true });

    const shim = { LD_PRELOAD: buildShim(folder), DISK_LOG: log, DISK_MATCH: "errand.db" };
    errand = await startErrand({ data, args, key, env: { ...env, ...shim } });
    hook = hook.replace(url, errand.url);
    const acknowledged = new Set<string>();
    const enough = new AbortController();
    const clients = Array.from({ length: CLIENTS }, () => fire(hook, acknowledged, enough.signal));
    while (acknowledged.size < wanted) await Bun.sleep(2);
    await errand.kill();
    enough.abort();
    await Promise.all(clients);
    return { before, records: readRecords(readFileSync(log)) };
  } finally {
    receiver.stop(true);
  }
}

type Change = Extract<DiskRecord, { op: "write" | "truncate" }>;

/** A file on a disk that keeps what was synced and may or may not keep the rest. */
class DiskFile {
  #bytes: Buffer;
  #length: number;
  unsynced: Change[] = [];

  constructor(bytes: Buffer) {
    this.#bytes = Buffer.from(bytes);
    this.#length = bytes.length;
  }

  sync(): void {
    for (const change of this.unsynced) this.#apply(change);
    this.unsynced = [];
  }

  /** What a disk could hold: each change after the last sync whole, torn or not at all, as `keep` says. */
  image(keep: (change: Change) => Change[]): Buffer {
    const copy = new DiskFile(this.#bytes.subarray(0, this.#length));
    for (const change of this.unsynced) for (const kept of keep(change)) copy.#apply(kept);
    return copy.#bytes.subarray(0, copy.#length);
  }

  #apply(change: Change): void {
    if (change.op === "truncate") {
      this.#grow(change.length);
      if (change.length < this.#length) this.#bytes.fill(0, change.length, this.#length);
      this.#length = change.length;
      return;
    }
    const end = change.offset + change.data.length;
    this.#grow(end);
    change.data.copy(this.#bytes, change.offset);
    this.#length = Math.max(this.#length, end);
  }

  #grow(length: number): void {
    if (length <= this.#bytes.length) return;
    const larger = Buffer.alloc(Math.max(length, this.#bytes.length * 2));
    this.#bytes.copy(larger);
    this.#bytes = larger;
  }
}

const SECTOR = 512;

const keepers = (random: () => number): ((change: Change) => Change[])[] => [
  () => [],
  (change) => (random() < 0.5 ? [change] : []),
  (change) => {
    if (change.op === "truncate") return random() < 0.5 ? [change] : [];
    const kept: Change[] = [];
    for (let at = 0; at < change.data.length; at += SECTOR) {
      if (random() < 0.5) continue;
      kept.push({ ...change, offset: change.offset + at, data: change.data.subarray(at, at + SECTOR) });
    }
    return kept;
  },
];

function replay(place: string, before: string, records: DiskRecord[], options: Options): Report {
  const random = generator(options.seed);
  const ways = keepers(random);
  const files = new Map<string, DiskFile>();
  const fileOf = (path: string): DiskFile => {
    const name = basename(path);
    let file = files.get(name);
    if (!file) {
      const old = join(before, name);
      file = new DiskFile(existsSync(old) ? readFileSync(old) : Buffer.alloc(0));
      files.set(name, file);
    }
    return file;
  };
  fileOf("errand.db");
  const acknowledged = new Set<string>();
  const report: Report = {
    images: 0,
    acknowledged: 0,
    writes: 0,
    syncs: 0,
    lost: 0,
    unreadable: 0,
    corrupt: 0,
  };
  records.forEach((record, index) => {
    if (record.op === "write" || record.op === "truncate") {
      fileOf(record.path).unsynced.push(record);
      report.writes++;
    } else if (record.op === "sync") {
      if (!options.lyingDisk) fileOf(record.path).sync();
      report.syncs++;
    } else {
      acknowledged.add(record.id); // by an answer, and once more by the delivery that tells of the run
    }
    // Spread evenly over the moments, and over the ways a disk can forget.
    const due = Math.floor(((index + 1) * options.images) / records.length);
    for (; report.images < due; report.images++) {
      const keep = ways[report.images % ways.length]!;
      for (const suffix of ["", "-wal", "-journal", "-shm"])
        rmSync(join(place, `errand.db${suffix}`), { force: true });
      for (const [name, file] of files) writeFileSync(join(place, name), file.image(keep));
      const fault = faultOf(join(place, "errand.db"), acknowledged);
      if (fault) report[fault]++;
      if (report.images % 100 === 0) options.progress?.(`image ${report.images} of ${options.images}`);
    }
  });
  report.acknowledged = acknowledged.size;
  return report;
}

function faultOf(path: string, acknowledged: Set<string>): "lost" | "unreadable" | "corrupt" | undefined {
  let db: Database | undefined;
  try {
    db = new Database(path);
    db.run("PRAGMA synchronous = OFF");
    const whole = db.query<{ integrity_check: string }, []>("PRAGMA integrity_check").get();
    if (whole?.integrity_check !== "ok") return "corrupt";
    const ids = new Set(
      db
        .query<{ id: string }, []>("SELECT id FROM executions")
        .all()
        .map(({ id }) => id),
    );
    return acknowledged.isSubsetOf(ids) ? undefined : "lost";
  } catch {
    return "unreadable";
  } finally {
    db?.close();
  }
}

export const isClean = ({ lost, unreadable, corrupt }: Report): boolean => lost + unreadable + corrupt === 0;

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      images: { type: "string", default: "300" },
      acknowledged: { type: "string", default: "400" },
      seed: { type: "string", default: "1" },
      "lying-disk": { type: "boolean", default: false },
      json: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) {
    console.log(
      "usage: scripts/faults/powercut [--images 300] [--acknowledged 400] [--seed 1] [--lying-disk] [--json]",
    );
    process.exit(0);
  }
  const missing = shimMissing();
  if (missing) {
    console.error(`skipped: ${missing}`);
    process.exit(77);
  }
  const report = await cutPower({
    images: Number(values.images),
    acknowledged: Number(values.acknowledged),
    seed: Number(values.seed),
    lyingDisk: values["lying-disk"],
    progress: values.json ? undefined : (text) => process.stderr.write(`\r${text}`),
  });
  if (values.json) console.log(JSON.stringify(report));
  else {
    process.stderr.write("\n");
    for (const [name, value] of Object.entries(report)) console.log(`${name.padEnd(14)} ${value}`);
  }
  process.exit(isClean(report) ? 0 : 1);
}
