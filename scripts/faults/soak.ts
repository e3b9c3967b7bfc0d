/**
 * Lets days pass in minutes (--time-scale) under a steady load of webhooks, waits, retries, rotations and
 * conversations that idle, and watches the program's memory and open files; at the end everything that was
 * begun must have come to its end and been told of, and nothing before its time.
 *
 * Memory is taken at rest: once a minute the load pauses for some seconds, and the least of the samples in them
 * counts, without the pages of the executable, which the system lends and takes back. Its slope is the median of
 * those between any two rests of the second half (Theil and Sen), which a collection now and then does not bend.
 */
import { Database } from "bun:sqlite";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createKey, discard, type Errand, scratch, startErrand } from "../lib/errand.ts";
import { generator } from "../lib/hook-load.ts";
import { script } from "./lib/script.ts";

export type Report = {
  minutes: number;
  speed: number;
  runs: number;
  attempts: number;
  rotations: number;
  conversations: number;
  /** Open files at the rests of the second half: fewest, most. */
  files: { least: number; most: number };
  /** Memory of its own at the rests of the second half, and its slope; `resident_mb` is all that is resident. */
  memory: {
    rests: number;
    first_mb: number;
    last_mb: number;
    most_mb: number;
    resident_mb: number;
    mb_per_hour: number;
  };
  unfinished: { runs: number; deliveries: number; conversations: number };
  /** Whose end the receiver was never told of. */
  untold: { runs: number; conversations: number };
  early: number;
  /** Requests whose connection ended before the answer: a kept one was given up the moment it was used. */
  cut: number;
  odd: string[];
};

type Sample = { at: number; mb: number; resident: number; files: number };

const SAMPLE_MS = 250;
// How often the load rests, in the times of a whole, and for how long.
const RESTS = 60;
const REST_MS = 5_000;
// After so many attempts the receiver takes whatever it is: nothing is given up.
const WORST_ATTEMPTS = 3;
// Connections that are kept for a while after their use.
const MOST_MORE_FILES = 40;
const SCHEDULE_MS = [60_000, 300_000, 900_000, 3_600_000, 21_600_000];

export async function soak(options: {
  minutes: number;
  speed: number;
  perSecond: number;
  seed: number;
  progress?: ((text: string) => void) | undefined;
}): Promise<Report> {
  const { minutes, speed, perSecond } = options;
  const data = scratch();
  const random = generator(options.seed);
  // One in five attempts meets a receiver that is not well, until all has to end.
  let isWell = false;
  let attempts = 0;
  const told = { runs: new Set<string>(), conversations: new Set<string>() };
  const receiver = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const { data } = (await request.json()) as {
        data: { execution_id?: string; conversation_id?: string };
      };
      attempts++;
      if (!isWell && random() < 0.2 && Number(request.headers.get("x-service-attempt")) <= WORST_ATTEMPTS)
        return new Response(null, { status: 503 });
      if (data.execution_id) told.runs.add(data.execution_id);
      else if (data.conversation_id) told.conversations.add(data.conversation_id);
      return new Response(null, { status: 204 });
    },
  });
  const key = await createKey(data);
  const args = [
    "--log-level",
    "error",
    "--access-log",
    "false",
    "--rate-limit",
    "0",
    "--time-scale",
    String(speed),
  ];
  const env = {
    ERRAND_ALLOW_TARGETS: "127.0.0.1",
    ERRAND_DEPLOYMENT: "development",
    ERRAND_FIRST_KEY: "never",
  };
  const errand = await startErrand({ data, key, args, env });
  const rests: Sample[] = [];
  const early = new Set<string>();
  const report: Report = {
    minutes,
    speed,
    runs: 0,
    attempts: 0,
    rotations: 0,
    conversations: 0,
    files: { least: 0, most: 0 },
    memory: { rests: 0, first_mb: 0, last_mb: 0, most_mb: 0, resident_mb: 0, mb_per_hour: 0 },
    unfinished: { runs: 0, deliveries: 0, conversations: 0 },
    untold: { runs: 0, conversations: 0 },
    early: 0,
    cut: 0,
    odd: [],
  };
  const started = new Set<string>();
  const talked = new Set<string>();
  let isRunning = true;
  void errand.ended.then(() => {
    isRunning = false;
  });
  try {
    const world = await arrange(errand, key.workspace_id, `http://127.0.0.1:${receiver.port}/`);
    const note = (what: string, status: number) => {
      if (status >= 400 && report.odd.length < 20) report.odd.push(`${what}: ${status}`);
    };
    const began = performance.now();
    const end = began + minutes * 60_000;
    const every = (minutes * 60_000) / RESTS;
    const rest = Math.min(REST_MS, every / 4);
    const load = async () => {
      for (let n = 0, stretch = 0; performance.now() < end; stretch++) {
        const until = Math.min(end, began + (stretch + 1) * every - rest);
        for (const from = performance.now(), first = n; performance.now() < until; n++) {
          const due = from + ((n - first) * 1_000) / perSecond;
          if (due > performance.now()) await Bun.sleep(due - performance.now());
          await ask(n);
        }
        rests.push(
          await leastOf(errand.pid, began, began + (stretch + 1) * every).catch((error) => {
            throw new Error(`it has ended: ${errand.output().slice(-2_000)}`, { cause: error });
          }),
        );
        for (const each of earlyIn(data)) early.add(each);
        const { mb, files } = rests.at(-1)!;
        options.progress?.(
          `${Math.round((performance.now() - began) / 1_000)} s: ${mb.toFixed(1)} MB, ${files} files, ${started.size} runs`,
        );
      }
    };
    const ask = async (n: number) => {
      try {
        await start(world.hooks[n % world.hooks.length]!);
        if (n % (perSecond * 2) === 0) await talk(`soak-${n}`);
        if (n % (perSecond * 5) === 0) {
          const path = `/api/v1/webhooks/${world.webhook}/secret/rotate?overlap_seconds=3600`;
          note("rotation", (await errand.api("POST", path)).status);
          report.rotations++;
        }
      } catch (error) {
        if (!isRunning) throw new Error(`it has ended: ${errand.output().slice(-2_000)}`, { cause: error });
        report.cut++;
      }
    };
    const start = async (hook: string) => {
      const response = await fetch(hook, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: '{"input_data":{"n":1}}',
      });
      const { execution_id } = (await response.json()) as { execution_id: string };
      note("webhook", response.status);
      started.add(execution_id);
    };
    const talk = async (id: string) => {
      const said = await fetch(`${errand.url}/api/agents/${world.agent}/stream`, {
        method: "POST",
        headers: { authorization: `Bearer ${key.key}`, "content-type": "application/json" },
        body: JSON.stringify({ id, messages: [{ role: "user", content: "Hello" }] }),
      });
      await said.text();
      note("stream", said.status);
      talked.add(id);
    };
    await load();
    isWell = true;
    await settle(data, report);
    for (const each of earlyIn(data)) early.add(each);
    report.early = early.size;
    report.attempts = attempts;
    report.runs = started.size;
    report.conversations = talked.size;
    report.untold = {
      runs: started.difference(told.runs).size,
      // They are told by ids of their own.
      conversations: Math.max(0, talked.size - told.conversations.size),
    };
    measure(rests.slice(Math.floor(rests.length / 2)), report);
    if ((await errand.stop()) !== 0) report.odd.push(`did not end well: ${errand.output().slice(-500)}`);
    if (errand.output().includes('"level":"error"')) report.odd.push(errand.output().slice(-500));
    return report;
  } finally {
    await errand.kill().catch(() => {});
    receiver.stop(true);
    discard(data);
  }
}

async function arrange(errand: Errand, workspace: string, receiver: string) {
  const post = async <T extends object = { id: string }>(path: string, body: object) => {
    const made = await errand.api<T>("POST", path, body);
    if (made.status >= 300) throw new Error(JSON.stringify(made.body));
    return made.body;
  };
  const scope = `workspace_id=${workspace}`;
  const say = {
    name: "say",
    node_type_name: "set_variables",
    input_config: { variables: { text: "Hello {{ inputs.n }}" } },
  };
  const wait = (seconds: number) => ({ name: "pause", node_type_name: "wait", input_config: { seconds } });
  const hooks: string[] = [];
  for (const nodes of [[say], [say, wait(60)], [wait(600), say]]) {
    const { id } = await post(`/api/workflows?${scope}`, { name: "soak", nodes });
    hooks.push((await post<{ url: string }>(`/api/workflows/${id}/webhook-tokens`, {})).url);
  }
  const agent = await post(`/api/agents?${scope}`, {
    name: "soak",
    auto_generate_title: false,
    conversation_idle_hours: 1,
  });
  const webhook = await post("/api/v1/webhooks", {
    url: receiver,
    events: ["workflow.execution.completed", "agent.conversation.completed"],
  });
  return { hooks, agent: agent.id, webhook: webhook.id };
}

function sampleOf(pid: number, at: number): Sample {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const mb = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1]) / 1_024;
  const files = readdirSync(`/proc/${pid}/fd`).length;
  return { at, mb: mb("RssAnon"), resident: mb("VmRSS"), files };
}

/** The least of what is seen until then. */
async function leastOf(pid: number, began: number, until: number): Promise<Sample> {
  let least = sampleOf(pid, performance.now() - began);
  while (performance.now() < until) {
    await Bun.sleep(SAMPLE_MS);
    const { at, mb, resident, files } = sampleOf(pid, performance.now() - began);
    least = {
      at,
      mb: Math.min(mb, least.mb),
      resident: Math.min(resident, least.resident),
      files: Math.min(files, least.files),
    };
  }
  return least;
}

const COUNTS = {
  runs: "SELECT count(*) AS n FROM executions WHERE ended_at IS NULL",
  deliveries: "SELECT count(*) AS n FROM deliveries WHERE ended_at IS NULL",
  conversations: "SELECT count(*) AS n FROM conversations WHERE status = 'active'",
};

const openTo = (data: string) => new Database(join(data, "errand.db"), { readonly: true });

/**
 * Waits until nothing is under way any more: the longest that is left is a wait of a retry, which the receiver
 * takes now, and the hour after which a conversation is over.
 */
async function settle(data: string, report: Report): Promise<void> {
  const last = performance.now() + 30_000 + (Math.max(...SCHEDULE_MS) * 1.2) / report.speed;
  for (;;) {
    const db = openTo(data);
    for (const [name, sql] of Object.entries(COUNTS))
      report.unfinished[name as keyof typeof COUNTS] = db.query<{ n: number }, []>(sql).get()!.n;
    db.close();
    const { runs, deliveries, conversations } = report.unfinished;
    if (runs + deliveries + conversations === 0 || performance.now() > last) return;
    await Bun.sleep(200);
  }
}

/** Waits and retries that came before their time. */
function earlyIn(data: string): string[] {
  const db = openTo(data);
  const waits = db
    .query<{ id: string }, []>(
      `SELECT execution_id || ' ' || position AS id FROM steps
       WHERE node_type_name = 'wait' AND state = 'success' AND ended_at < wake_at`,
    )
    .all();
  const gaps = db
    .query<{ id: string; number: number; gap: number | null }, []>(
      `SELECT delivery_id AS id, number,
         started_at - lag(started_at) OVER (PARTITION BY delivery_id ORDER BY number) AS gap
       FROM attempts WHERE delivery_id IN (SELECT delivery_id FROM attempts WHERE number > 1)`,
    )
    .all()
    .filter(({ number, gap }) => gap !== null && gap < SCHEDULE_MS[number - 2]!);
  db.close();
  return [...waits.map(({ id }) => id), ...gaps.map(({ id, number }) => `${id} ${number}`)];
}

function measure(rests: Sample[], report: Report): void {
  const files = rests.map((one) => one.files);
  report.files = { least: Math.min(...files), most: Math.max(...files) };
  const slopes = rests.flatMap((one, n) =>
    rests.slice(n + 1).map((other) => (other.mb - one.mb) / (other.at - one.at)),
  );
  slopes.sort((a, b) => a - b);
  const tenths = (value: number) => Math.round(value * 10) / 10;
  report.memory = {
    rests: rests.length,
    first_mb: tenths(rests[0]!.mb),
    last_mb: tenths(rests.at(-1)!.mb),
    most_mb: tenths(Math.max(...rests.map(({ mb }) => mb))),
    resident_mb: tenths(rests.at(-1)!.resident),
    mb_per_hour: tenths((slopes[Math.floor(slopes.length / 2)] ?? 0) * 3_600_000),
  };
}

/** Memory counts from half an hour on: before that its slope is that of the warm-up. */
export const isClean = ({ minutes, memory, files, unfinished, untold, early, odd }: Report): boolean =>
  odd.length + early + untold.runs + untold.conversations === 0 &&
  unfinished.runs + unfinished.deliveries + unfinished.conversations === 0 &&
  files.most - files.least < MOST_MORE_FILES &&
  (minutes < 30 || memory.mb_per_hour < 1);

if (import.meta.main) {
  await script({
    name: "soak",
    about:
      "Lets days pass in minutes under a steady load, and watches memory, open files and what comes early or never.",
    numbers: {
      minutes: { help: "how long", usually: 10 },
      speed: { help: "how many times as fast", usually: 50 },
      "per-second": { help: "webhooks a second", usually: 20 },
    },
    missing: () => (process.platform === "linux" ? undefined : "reads memory from /proc"),
    run: ({ number }, progress) =>
      soak({
        minutes: number("minutes"),
        speed: number("speed"),
        perSecond: number("per-second"),
        seed: number("seed"),
        progress,
      }),
    isClean,
  });
}
