/**
 * Lets days pass in minutes (--time-scale) under a steady load of webhooks, waits, retries, rotations and
 * conversations that idle, and watches the program's memory and open files; at the end everything that was
 * begun must have come to its end, and nothing before its time.
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
  /** Open files after the warm-up: fewest, most. */
  files: { least: number; most: number };
  /** Resident memory after the warm-up, and its slope through all samples. */
  memory: { first_mb: number; last_mb: number; mb_per_hour: number };
  unfinished: { runs: number; deliveries: number; conversations: number };
  early: number;
  odd: string[];
};

type Sample = { at: number; mb: number; files: number };

const SAMPLE_MS = 1_000;
// Idle conversations are looked for every five minutes on the wall, however fast time passes.
const CHORE_MINUTES = 5;
// Compiled code, caches and the heap find their size in this share of the time.
const WARM_UP = 0.4;
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
  const receiver = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => new Response(null, { status: isWell || random() < 0.8 ? 204 : 503 }),
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
    "--retention-days",
    "1",
  ];
  const env = {
    ERRAND_ALLOW_TARGETS: "127.0.0.1",
    ERRAND_DEPLOYMENT: "development",
    ERRAND_FIRST_KEY: "never",
  };
  const errand = await startErrand({ data, key, args, env });
  const samples: Sample[] = [];
  const report: Report = {
    minutes,
    speed,
    runs: 0,
    attempts: 0,
    rotations: 0,
    conversations: 0,
    files: { least: 0, most: 0 },
    memory: { first_mb: 0, last_mb: 0, mb_per_hour: 0 },
    unfinished: { runs: 0, deliveries: 0, conversations: 0 },
    early: 0,
    odd: [],
  };
  try {
    const world = await arrange(errand, key.workspace_id, `http://127.0.0.1:${receiver.port}/`);
    const note = (what: string, status: number) => {
      if (status >= 400 && report.odd.length < 20) report.odd.push(`${what}: ${status}`);
    };
    const began = performance.now();
    const end = began + minutes * 60_000;
    const load = async () => {
      for (let n = 0; performance.now() < end; n++) {
        const due = began + (n * 1_000) / perSecond;
        if (due > performance.now()) await Bun.sleep(due - performance.now());
        const started = await fetch(world.hooks[n % world.hooks.length]!, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: '{"input_data":{"n":1}}',
        });
        await started.text();
        note("webhook", started.status);
        report.runs++;
        if (n % (perSecond * 2) === 0) {
          const body = { id: `soak-${n}`, messages: [{ role: "user", content: "Hello" }] };
          const said = await fetch(`${errand.url}/api/agents/${world.agent}/stream`, {
            method: "POST",
            headers: { authorization: `Bearer ${key.key}`, "content-type": "application/json" },
            body: JSON.stringify(body),
          });
          await said.text();
          note("stream", said.status);
          report.conversations++;
        }
        if (n % (perSecond * 5) === 0) {
          note(
            "rotation",
            (await errand.api("POST", `/api/v1/webhooks/${world.webhook}/secret/rotate?overlap_seconds=3600`))
              .status,
          );
          report.rotations++;
        }
      }
    };
    const watch = async () => {
      while (performance.now() < end) {
        samples.push(sampleOf(errand.pid, performance.now() - began));
        options.progress?.(
          `${Math.round((performance.now() - began) / 1_000)} s: ${samples.at(-1)!.mb.toFixed(1)} MB, ${samples.at(-1)!.files} files, ${report.runs} runs`,
        );
        await Bun.sleep(SAMPLE_MS);
      }
    };
    await Promise.all([load(), watch()]);
    isWell = true;
    await settle(data, report, minutes < CHORE_MINUTES ? 30_000 : 400_000);
    report.early = earlyIn(data);
    measure(samples, report);
    if ((await errand.stop()) !== 0) report.odd.push(`did not end well: ${errand.output().slice(-500)}`);
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
  const kb = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
  return { at, mb: kb / 1_024, files: readdirSync(`/proc/${pid}/fd`).length };
}

const COUNTS = {
  runs: "SELECT count(*) AS n FROM executions WHERE ended_at IS NULL",
  deliveries: "SELECT count(*) AS n FROM deliveries WHERE ended_at IS NULL",
  conversations: "SELECT count(*) AS n FROM conversations WHERE status = 'active'",
};

/** Waits until nothing is under way any more; a receiver that was not well is asked again in its own time. */
async function settle(data: string, report: Report, patience: number): Promise<void> {
  const last = performance.now() + patience;
  for (;;) {
    const db = new Database(join(data, "errand.db"), { readonly: true });
    for (const [name, sql] of Object.entries(COUNTS))
      report.unfinished[name as keyof typeof COUNTS] = db.query<{ n: number }, []>(sql).get()!.n;
    report.attempts = db.query<{ n: number }, []>("SELECT count(*) AS n FROM attempts").get()!.n;
    db.close();
    const { runs, deliveries, conversations } = report.unfinished;
    const rest = runs + deliveries + (report.minutes < CHORE_MINUTES ? 0 : conversations);
    if (rest === 0 || performance.now() > last) return;
    await Bun.sleep(200);
  }
}

/** Waits and retries that came before their time. */
function earlyIn(data: string): number {
  const db = new Database(join(data, "errand.db"), { readonly: true });
  const waits = db
    .query<{ n: number }, []>(
      "SELECT count(*) AS n FROM steps WHERE node_type_name = 'wait' AND state = 'success' AND ended_at < wake_at",
    )
    .get()!.n;
  const gaps = db
    .query<{ number: number; gap: number | null }, []>(
      "SELECT number, started_at - lag(started_at) OVER (PARTITION BY delivery_id ORDER BY number) AS gap FROM attempts",
    )
    .all();
  db.close();
  return waits + gaps.filter(({ number, gap }) => gap !== null && gap < SCHEDULE_MS[number - 2]!).length;
}

function measure(samples: Sample[], report: Report): void {
  const warm = samples.slice(Math.floor(samples.length * WARM_UP));
  const [first, last] = [warm[0]!, warm.at(-1)!];
  const files = warm.map((one) => one.files);
  report.files = { least: Math.min(...files), most: Math.max(...files) };
  // The line through all samples: one sample says more of the collector than of a leak.
  const mean = (of: (one: Sample) => number) => warm.reduce((sum, one) => sum + of(one), 0) / warm.length;
  const [at, mb] = [mean((one) => one.at), mean((one) => one.mb)];
  const slope =
    warm.reduce((sum, one) => sum + (one.at - at) * (one.mb - mb), 0) /
    warm.reduce((sum, one) => sum + (one.at - at) ** 2, 0);
  const tenths = (value: number) => Math.round(value * 10) / 10;
  report.memory = {
    first_mb: tenths(first.mb),
    last_mb: tenths(last.mb),
    mb_per_hour: tenths(slope * 3_600_000),
  };
}

/** Memory counts from half an hour on: before that its slope is that of the warm-up. */
export const isClean = ({ minutes, memory, files, unfinished, early, odd }: Report): boolean =>
  odd.length === 0 &&
  early === 0 &&
  unfinished.runs + unfinished.deliveries === 0 &&
  (minutes < CHORE_MINUTES || unfinished.conversations === 0) &&
  files.most - files.least < 40 &&
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
