/**
 * Faults at the Nth write, sync or truncation, for every N, over the flows that matter: the program is killed
 * there, or the disk refuses there for a while. Afterwards it goes on, or starts again where it died; everything
 * acknowledged must be there and end, and the database must be whole.
 *
 * A start and a stop are gone through with a program of their own for every N. In the other flows one that did
 * not die goes on to the next N, and must have got over the fault by itself.
 */
import { Database } from "bun:sqlite";
import { cpSync } from "node:fs";
import { join } from "node:path";
import {
  createKey,
  discard,
  type Errand,
  freePort,
  type Key,
  run,
  scratch,
  startErrand,
} from "../lib/errand.ts";
import { callFaults, type Fault } from "./lib/call-shim.ts";
import { shimMissing } from "./lib/disk-shim.ts";
import { arrange, clear, FLOWS, type Promised, Refused } from "./lib/flows.ts";
import { script } from "./lib/script.ts";

type Tried = {
  flow: string;
  fault: string;
  /** How many met their fault before the flow was through. */
  points: number;
  acknowledged: number;
  lost: number;
  unfinished: number;
  doubled: number;
  corrupt: number;
  /** Answers other than good ones and 503, and starts that did not come up again. */
  odd: string[];
};
export type Report = { points: number; acknowledged: number; flows: Tried[] };

const FAULTS: Fault[] = [
  { name: "killed", kinds: ["write", "sync", "truncate"], in_a_row: 1 },
  // Three in a row: the probe and the retries meet it as well.
  { name: "EIO", refusal: "EIO", kinds: ["write", "sync"], in_a_row: 3 },
  { name: "ENOSPC", refusal: "ENOSPC", kinds: ["write"], in_a_row: 3 },
];

const LIVES = ["first start", "start after a kill", "stop"] as const;
type Life = (typeof LIVES)[number];
export const FLOW_NAMES: string[] = [...LIVES, ...FLOWS.map(({ name }) => name)];

const ENDED = ["success", "failed", "cancelled", "interrupted"];
const DEATH_MS = 1_000;
// In looks, not in time: a machine may stand still for a while.
const LOOKS = 3_000;

type Scene = {
  folder: string;
  port: number;
  receiver: string;
  calls: ReturnType<typeof callFaults>;
  progress: ((text: string) => void) | undefined;
};

/** Which calls: the first, and each so many after it. */
type Which = { from: number; every: number };

/** Every fault point of every flow; `every` thins them out. */
export async function faultCalls(options: {
  every: number;
  from?: number;
  flow?: string | undefined;
  progress?: ((text: string) => void) | undefined;
}): Promise<Report> {
  const { every, from = 1, flow: only, progress } = options;
  const which = { from, every };
  const folder = scratch();
  const receiver = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => new Response(null, { status: 204 }),
  });
  const scene: Scene = {
    folder,
    port: await freePort(),
    receiver: `http://127.0.0.1:${receiver.port}/`,
    calls: callFaults(folder),
    progress,
  };
  const flows: Tried[] = [];
  try {
    for (const fault of FAULTS) {
      for (const life of LIVES)
        if (!only || only === life) flows.push(await tryLife(scene, life, fault, which));
      const within = FLOWS.filter(({ name }) => !only || only === name);
      if (within.length > 0) flows.push(...(await tryFlows(scene, within, fault, which)));
    }
  } finally {
    receiver.stop(true);
    discard(folder);
  }
  const sum = (of: "points" | "acknowledged") => flows.reduce((all, each) => all + each[of], 0);
  return { points: sum("points"), acknowledged: sum("acknowledged"), flows };
}

const nothingTried = (flow: string, fault: Fault): Tried => ({
  ...{ flow, fault: fault.name, points: 0, acknowledged: 0 },
  ...{ lost: 0, unfinished: 0, doubled: 0, corrupt: 0, odd: [] },
});

const start = ({ port, calls }: Scene, data: string, key?: Key) =>
  startErrand({
    ...{ data, port, env: { ERRAND_ALLOW_TARGETS: "127.0.0.1", ...calls.env } },
    args: ["--log-level", "error", "--access-log", "false"],
    ...(key ? { key } : {}),
  });

/** A start or a stop: each point has a program and a folder of its own. */
async function tryLife(scene: Scene, life: Life, fault: Fault, { from, every }: Which): Promise<Tried> {
  const { folder, calls, progress } = scene;
  const tried = nothingTried(life, fault);
  const base = join(folder, "base");
  const promised: Promised[] = [];
  let key: Key | undefined;
  if (life !== "first start") {
    key = await createKey(base);
    const before = await start(scene, base, key);
    const ids = await arrange(before, key, scene.receiver);
    const say = (each: Promised) => promised.push(each);
    for (const flow of FLOWS.slice(0, 2)) await flow.act({ errand: before, ids, say });
    await before.kill();
  }
  for (let at = from; ; at += every) {
    const data = join(folder, "life");
    if (key) cpSync(base, data, { recursive: true });
    try {
      if (life !== "stop") calls.arm(fault, at);
      const errand = await start(scene, data, key).catch(() => undefined);
      if (life === "stop") {
        calls.arm(fault, at);
        await errand?.stop();
      } else await errand?.kill();
      calls.disarm();
      const again = await start(scene, data, key);
      if (!(await isQuiet(data, promised, again))) tried.odd.push(`${at}: it never came to rest`);
      await again.stop();
      check(data, promised, tried);
      if (life === "first start") {
        // What the first start was to leave: a folder in which everything works.
        const made = await run(["keys", "create", "--name", "after", "--json", "--data", data]);
        if (made.code !== 0) tried.odd.push(`${at}: ${made.stderr}`);
      }
    } catch (error) {
      tried.odd.push(`${at}: ${error}`);
    }
    discard(data);
    if (!calls.wasMet()) break;
    tried.points++;
    progress?.(`${life}, ${fault.name}: call ${at}`);
  }
  discard(base);
  return tried;
}

/** What happens within a life; it goes on as long as the faults allow. */
async function tryFlows(
  scene: Scene,
  flows: typeof FLOWS,
  fault: Fault,
  { from, every }: Which,
): Promise<Tried[]> {
  const { folder, calls, progress, receiver } = scene;
  const data = join(folder, "data");
  const key = await createKey(data);
  let errand = await start(scene, data, key);
  const all: { tried: Tried; promised: Promised[] }[] = [];
  for (const flow of flows) {
    const tried = nothingTried(flow.name, fault);
    const ever: Promised[] = [];
    for (let at = from; ; at += every) {
      const ids = await arrange(errand, key, receiver);
      await isQuiet(data, [], errand);
      const promised: Promised[] = [];
      calls.arm(fault, at);
      const fate = await act(flow, { errand, ids, say: (each) => promised.push(each) });
      if (fate !== "died" && !(await isQuiet(data, promised, errand)) && !calls.wasMet())
        tried.odd.push(`${at}: it never came to rest`);
      calls.disarm();
      const died = calls.wasMet() && fault.refusal === undefined;
      if (fate === "cut off" && !died) tried.odd.push(`${at}: a request without an answer`);
      if (typeof fate === "number" && (fate !== 503 || !calls.wasMet()))
        tried.odd.push(`${at}: answered ${fate}`);
      if (died) {
        await errand.ended;
        errand = await start(scene, data, key);
      } else if (!(await isWell(errand))) {
        tried.odd.push(`${at}: it did not get over it`);
        await errand.kill();
        errand = await start(scene, data, key);
      }
      if (!(await isQuiet(data, promised, errand))) tried.odd.push(`${at}: it never came to rest again`);
      check(data, promised, tried);
      // A rotation and an edit hold until the next.
      ever.push(...promised.filter(({ kind }) => kind !== "other"));
      await clear(errand, ids);
      if (!calls.wasMet()) break;
      tried.points++;
      progress?.(`${flow.name}, ${fault.name}: call ${at}`);
    }
    all.push({ tried, promised: ever });
  }
  // What got over its faults by itself has them on disk as well.
  await errand.stop();
  for (const { tried, promised } of all) check(data, promised, tried, { again: true });
  discard(data);
  return all.map(({ tried }) => tried);
}

type Fate = "through" | "died" | "cut off" | number;

async function act(flow: (typeof FLOWS)[number], world: Parameters<typeof flow.act>[0]): Promise<Fate> {
  const died = world.errand.ended.then((): Fate => "died");
  const acted = flow.act(world).then(
    (): Fate => "through",
    (error: unknown) => (error instanceof Refused ? error.status : "cut off"),
  );
  const fate = await Promise.race([acted, died]);
  // A death is known a little later than its client knows of it.
  return fate === "cut off" ? Promise.race([died, Bun.sleep(DEATH_MS).then(() => fate)]) : fate;
}

async function isWell({ url, ended }: Errand): Promise<boolean> {
  let isOver = false;
  void ended.then(() => {
    isOver = true;
  });
  for (let look = 0; look < LOOKS; look++) {
    await Bun.sleep(Math.min(look, 10));
    const health = await fetch(`${url}/health`).catch(() => undefined);
    if (health?.status === 200) return true;
    if (isOver) return false;
  }
  return false;
}

const rowOf = (db: Database, { sql, values }: Promised) =>
  db.query<{ state?: string }, string[]>(sql).get(...values);

/** Waits until everything acknowledged has ended and nothing is left to do, or the program has ended. */
async function isQuiet(data: string, promised: Promised[], { ended }: Errand): Promise<boolean> {
  let isOver = false;
  void ended.then(() => {
    isOver = true;
  });
  const db = new Database(join(data, "errand.db"), { readonly: true });
  try {
    for (let look = 0; look < LOOKS; look++) {
      await Bun.sleep(Math.min(look, 10));
      if (isOver) return true;
      const due = db
        .query("SELECT 1 FROM jobs WHERE lane != 'timers' AND (state = 'running' OR run_at <= ?) LIMIT 1")
        .get(Date.now());
      const open = promised.some((each) => !ENDED.includes(rowOf(db, each)?.state ?? "success"));
      if (!due && !open) return true;
    }
    return false;
  } finally {
    db.close();
  }
}

function check(data: string, promised: Promised[], tried: Tried, { again = false } = {}): void {
  const db = new Database(join(data, "errand.db"), { readonly: true });
  for (const each of promised) {
    if (!again) tried.acknowledged++;
    const row = rowOf(db, each);
    if (!row) tried.lost++;
    if (!row || each.kind === "other") continue;
    if (!ENDED.includes(row.state ?? "")) tried.unfinished++;
    const told = db
      .query<{ count: number }, string[]>(
        `SELECT count(*) AS count FROM events WHERE subject_id = ?
         AND kind IN ('workflow.execution.completed', 'workflow.execution.failed')`,
      )
      .get(...each.values);
    if ((told?.count ?? 0) > 1) tried.doubled++;
  }
  const whole = db.query<{ integrity_check: string }, []>("PRAGMA integrity_check").get();
  if (whole?.integrity_check !== "ok") tried.corrupt++;
  db.close();
}

export const isClean = ({ flows }: Report): boolean =>
  flows.every(
    ({ lost, unfinished, doubled, corrupt, odd }) => lost + unfinished + doubled + corrupt + odd.length === 0,
  );

if (import.meta.main) {
  await script({
    name: "syscalls",
    about:
      "Kills the program at its Nth write, sync or truncation, or has it refused (EIO, ENOSPC), for every N\n" +
      `of these flows: ${FLOW_NAMES.join(", ")}.`,
    numbers: {
      every: { help: "takes each Nth call", usually: 1 },
      from: { help: "the first of them", usually: 1 },
    },
    texts: { flow: "this flow alone" },
    missing: shimMissing,
    run: ({ number, text }, progress) =>
      faultCalls({
        every: Math.max(1, number("every")),
        from: Math.max(1, number("from")),
        flow: text("flow"),
        progress,
      }),
    isClean,
  });
}
