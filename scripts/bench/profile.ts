/**
 * Where the time goes: a CPU profile of the compiled program under a load, the most expensive functions by what they
 * used themselves, the same by whose code it is, and the CPU of each thread. `idle` tells memory instead.
 *
 *     scripts/bench/profile start|accept|deliver|streams|lists|idle [--seconds 5] [--top 25] [--json] [--out FILE]
 *
 * `--out` keeps the profile for Chrome's or VS Code's viewer. The profile is of the thread that answers; the one that
 * writes is seen among the threads.
 */
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { BINARY, type Errand, type Key } from "../lib/errand.ts";
import { type Cost, type CpuProfile, costs } from "./cpu-profile.ts";
import {
  arrived,
  BODY,
  hookOf,
  loadOnce,
  say,
  startOn,
  subscribe,
  withFolder,
  withRunning,
  yardstick,
} from "./measure.ts";
import { residentOf, type ThreadCost, threads } from "./resident.ts";
import { burst, read, type Server, speakingBy, through, withModelServer } from "./voices.ts";

const CONNECTIONS = 64;
const STREAMS = 500;
const TOKENS_A_SECOND = 50;
const WARM_SECONDS = 4;
const SETTLED_MS = 1_500;

type Place = { errand: Errand; key: Key; model: Server; receiver: string; seconds: number };
/** Makes ready and warms up; what it answers is the load, which tells how many it has asked for. */
type Load = (place: Place) => Promise<() => Promise<number>>;

const requests = (url: string, seconds: number) => async () =>
  (await loadOnce({ url, connections: CONNECTIONS, seconds, body: BODY })).requests;

const LOADS: Record<string, Load> = {
  async accept({ errand, key, seconds }) {
    const url = await hookOf(errand, key);
    await requests(url, WARM_SECONDS)();
    return requests(url, seconds);
  },
  async deliver({ errand, key, receiver, seconds }) {
    const url = await hookOf(errand, key);
    await subscribe(errand, receiver);
    const warm = await requests(url, WARM_SECONDS)();
    await arrived(receiver, warm);
    return async () => {
      const sent = await requests(url, seconds)();
      await arrived(receiver, warm + sent);
      return sent;
    };
  },
  async streams({ errand, key, seconds }) {
    await read(await through(errand, key, burst(200)), 20, 10);
    const paced = `paced:${1_000 / TOKENS_A_SECOND}:${TOKENS_A_SECOND * seconds}`;
    const way = await through(errand, key, paced);
    return async () => (await read(way, STREAMS, 1)).tokens;
  },
  async lists({ errand, key, seconds }) {
    const url = await hookOf(errand, key);
    await requests(url, WARM_SECONDS)();
    const list = `/api${new URL(url).pathname.replace("/webhooks", "")}/executions`;
    const pages = async (forSeconds: number) => {
      let asked = 0;
      for (const until = performance.now() + forSeconds * 1_000; performance.now() < until; asked++)
        await errand.api("GET", list);
      return asked;
    };
    await pages(WARM_SECONDS);
    return () => pages(seconds);
  },
};

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: "string", default: "5" },
    top: { type: "string", default: "25" },
    json: { type: "boolean", default: false },
    out: { type: "string" },
    help: { type: "boolean", default: false },
  },
});
const [asked = ""] = positionals;
const [SECONDS, TOP] = [Number(flags.seconds), Number(flags.top)];
const names = ["start", "idle", ...Object.keys(LOADS)];
if (flags.help || !names.includes(asked) || !(SECONDS > 0) || !(TOP > 0)) {
  say(`usage: scripts/bench/profile ${names.join("|")} [--seconds 5] [--top 25] [--json] [--out FILE]`);
  process.exit(flags.help ? 0 : 2);
}

const STARTS = 10;
const now = () => performance.timeOrigin + performance.now();

const recording = (folder: string) => ({ BUN_OPTIONS: `--cpu-prof --cpu-prof-dir=${folder}` });

/** Of the programs that have ended, the oldest first; a worker's, where the runtime writes one, is not among them. */
function recorded(folder: string): CpuProfile[] {
  return readdirSync(folder)
    .map((file) => join(folder, file))
    .map((file) => {
      if (flags.out) copyFileSync(file, flags.out);
      return JSON.parse(readFileSync(file, "utf8")) as CpuProfile;
    })
    .toSorted((a, b) => a.startTime - b.startTime);
}

const percent = (share: number) => `${(share * 100).toFixed(1)} %`.padStart(8);
const tell = (line: string) => console.log(line);

/** `count` things were done: what each cost. */
function tellCosts(sums: ReturnType<typeof costs>, count: number, of: string): void {
  const each = (us: number) => `${(us / count).toFixed(2)} us`.padStart(12);
  const rows = (title: string, list: Cost[]) => {
    tell(`\n${title.padEnd(40)} ${"share".padStart(8)} ${`a ${of}`.padStart(12)}`);
    for (const { what, where, us, share } of list)
      tell(`${what.padEnd(40).slice(0, 40)} ${percent(share)} ${each(us)}  ${where}`.trimEnd());
  };
  rows("by whose code it is", sums.owners.slice(0, TOP));
  rows("by function, itself alone", sums.functions.slice(0, TOP));
}

type Threads = ReturnType<typeof threads>;

function spent(before: Threads, after: Threads): ThreadCost[] {
  return [...after.values()]
    .map(({ name, user_us, system_us }) => {
      const { user_us: user = 0, system_us: system = 0 } = before.get(name) ?? {};
      return { name, user_us: user_us - user, system_us: system_us - system };
    })
    .filter(({ user_us, system_us }) => user_us + system_us > 0)
    .toSorted((a, b) => b.user_us + b.system_us - a.user_us - a.system_us);
}

async function underLoad(load: Load): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "errand-profile-"));
  const receiver = await yardstick("receiver");
  try {
    const seen = await withModelServer((model) =>
      withFolder((data, key) =>
        withRunning(
          data,
          key,
          async (errand) => {
            const place = { errand, key, model, receiver: receiver.url, seconds: SECONDS };
            const act = await load(place);
            const [from, before] = [now(), threads(errand.pid)];
            const count = await act();
            return { count, from, to: now(), cpu: spent(before, threads(errand.pid)) };
          },
          { ...speakingBy(model), ...recording(folder) },
        ),
      ),
    );
    const [profile] = recorded(folder);
    if (!profile) throw new Error("the program left no profile");
    const { count, from, to, cpu } = seen;
    const main = cpu.find(({ name }) => name === "main")!;
    const sums = costs([{ profile, from, to }], main.user_us + main.system_us);
    const of = asked === "streams" ? "token" : asked === "lists" ? "page" : "webhook";
    if (flags.json) return tell(JSON.stringify({ load: asked, count, of, threads: cpu, ...sums }));
    tell(`${count} ${of}s in ${((to - from) / 1_000).toFixed(1)} s`);
    tell(`\n${"by thread, as the system counts".padEnd(40)} ${"user".padStart(12)} ${"system".padStart(12)}`);
    for (const { name, user_us, system_us } of cpu) {
      const each = (us: number) => `${(us / count).toFixed(2)} us`.padStart(12);
      tell(`${name.padEnd(40)} ${each(user_us)} ${each(system_us)}`);
    }
    tellCosts(sums, count, of);
  } finally {
    receiver.end();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function starting(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "errand-profile-"));
  try {
    const times = await withFolder(async (data, key) => {
      await (await startOn(data, key)).stop();
      const seen: { from: number; to: number; used: number }[] = [];
      for (let n = 0; n < STARTS; n++) {
        const from = now();
        const errand = await startOn(data, key, recording(folder));
        const { user_us, system_us } = threads(errand.pid).get("main")!;
        seen.push({ from, to: from + errand.startedInMs, used: user_us + system_us });
        await errand.stop();
      }
      return seen;
    });
    const windows = recorded(folder).map((profile, n) => ({ profile, ...times[n]! }));
    const sum = (of: (window: (typeof windows)[number]) => number) =>
      windows.reduce((all, window) => all + of(window), 0);
    const mean = (of: (window: (typeof windows)[number]) => number) => sum(of) / windows.length;
    const used = sum((window) => window.used);
    const sums = costs(windows, used);
    const whole = mean(({ from, to }) => to - from);
    const before = mean(({ profile, from }) => profile.startTime / 1_000 - from);
    if (flags.json)
      return tell(JSON.stringify({ load: asked, starts: STARTS, whole, before, used, ...sums }));
    tell(`${whole.toFixed(0)} ms to the first answer while it is recorded, the mean of ${STARTS}`);
    tell(
      `${before.toFixed(0)} ms of them before the runtime records; the main thread used ${(used / STARTS / 1_000).toFixed(0)} ms of CPU`,
    );
    tellCosts(sums, STARTS, "start");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Memory of the idle program, and of Bun.serve alone. */
async function idle(): Promise<void> {
  const smaps = (pid: number) => readFileSync(`/proc/${pid}/smaps`, "utf8");
  const bare = await yardstick("bare");
  try {
    const [own, alone] = await withFolder((data, key) =>
      withRunning(data, key, async (errand) => {
        await fetch(bare.url, { method: "POST", body: BODY });
        await Bun.sleep(SETTLED_MS);
        return [residentOf(smaps(errand.pid), BINARY), residentOf(smaps(bare.pid), process.execPath)];
      }),
    );
    const sum = (of: Record<string, number>) => Object.values(of).reduce((all, one) => all + one, 0);
    if (flags.json) return tell(JSON.stringify({ load: asked, errand: own, bare: alone }));
    const row = (name: string, mb: number, beside: number) =>
      tell(
        `${name.padEnd(40)} ${`${mb.toFixed(1)} MB`.padStart(10)} ${`${beside.toFixed(1)} MB`.padStart(16)}`,
      );
    tell(`${"in memory, idle".padEnd(40)} ${"errand".padStart(10)} ${"bare Bun.serve".padStart(16)}`);
    row("all", sum(own!), sum(alone!));
    for (const kind of new Set([...Object.keys(own!), ...Object.keys(alone!)]))
      row(kind, own![kind] ?? 0, alone![kind] ?? 0);
  } finally {
    bare.end();
  }
}

if (asked === "start") await starting();
else if (asked === "idle") await idle();
else await underLoad(LOADS[asked]!);
