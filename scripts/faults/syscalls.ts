/**
 * Faults at the Nth write or sync, for every N, over the flows that matter: the program is killed there, or
 * the disk refuses there for a while. Afterwards it starts again, everything acknowledged must be there and
 * end, and the database must be whole.
 *
 *     scripts/faults/syscalls [--every 1] [--flow NAME] [--json]
 *
 * `--every 5` takes each fifth N. Exit code 0 when nothing was lost, 1 when something was, 77 without strace.
 */
import { Database } from "bun:sqlite";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { createKey, discard, type Errand, type Key, run, scratch, startErrand } from "../lib/errand.ts";

export type Report = {
  flow: string;
  fault: string;
  /** How many starts met their fault before the flow was through. */
  points: number;
  acknowledged: number;
  lost: number;
  unfinished: number;
  doubled: number;
  corrupt: number;
  /** Answers other than 2xx and 503, and starts that did not come up again. */
  odd: string[];
};

type Ids = { workflow: string; agent: string; hook: string; agentHook: string; webhook: string };
type World = { errand: Errand; ids: Ids; receiver: string; say(answer: Acknowledged): void };
type Acknowledged = { kind: "execution" | "turn"; id: string };
type Flow = { name: string; fresh?: boolean; act(world: World): Promise<void> };

const CALLS = "pwrite64,fdatasync,fsync,ftruncate";
const ENDED = ["success", "failed", "cancelled", "interrupted"];

export const straceMissing = (): string | undefined =>
  process.platform === "linux" && Bun.which("strace") ? undefined : "needs strace";

const FLOWS: Flow[] = [
  { name: "first start", fresh: true, act: async () => {} },
  { name: "webhook", act: (world) => times(4, () => hook(world, world.ids.hook, { input_data: { n: 1 } })) },
  {
    name: "webhook with an outside effect",
    act: (world) => times(2, () => hook(world, world.ids.hook, { input_data: { call: true } })),
  },
  {
    name: "agent webhook",
    act: (world) => times(2, () => hook(world, world.ids.agentHook, { message: "Hello" })),
  },
  {
    name: "agent stream",
    async act({ errand, ids }) {
      const body = { id: crypto.randomUUID(), messages: [{ role: "user", content: "Hello" }] };
      const { status } = await errand.api("POST", `/api/agents/${ids.agent}/stream`, body).catch(endOfStream);
      if (status !== 200) throw new Refused(status);
    },
  },
  {
    name: "edits",
    async act({ errand, ids }) {
      const path = `/api/workflows/${ids.workflow}`;
      await good(errand.api("PUT", path, { description: "edited" }));
      await good(errand.api("POST", `${path}/webhook-tokens`, {}));
      await good(errand.api("PUT", `/api/agents/${ids.agent}`, { description: "edited" }));
    },
  },
  {
    name: "rotation of a secret",
    act: async ({ errand, ids }) =>
      good(errand.api("POST", `/api/v1/webhooks/${ids.webhook}/secret/rotate`, {})).then(() => {}),
  },
  {
    name: "removals",
    async act({ errand, ids }) {
      await good(errand.api("DELETE", `/api/v1/webhooks/${ids.webhook}`));
      await good(errand.api("DELETE", `/api/workflows/${ids.workflow}`));
      await good(errand.api("DELETE", `/api/agents/${ids.agent}`));
    },
  },
];

class Refused extends Error {
  constructor(readonly status: number) {
    super(`answered ${status}`);
  }
}

const endOfStream = (error: unknown) => {
  if (error instanceof SyntaxError) return { status: 200 }; // lines of a stream are no JSON
  throw error;
};

async function times(count: number, act: () => Promise<void>): Promise<void> {
  for (let n = 0; n < count; n++) await act();
}

async function good<T extends { status: number }>(asked: Promise<T>): Promise<T> {
  const answer = await asked;
  if (answer.status >= 300) throw new Refused(answer.status);
  return answer;
}

async function hook({ say, ids }: World, url: string, body: object): Promise<void> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const answer = (await response.json()) as { execution_id: string };
  if (response.status !== 202) throw new Refused(response.status);
  say({ kind: url === ids.agentHook ? "turn" : "execution", id: answer.execution_id });
}

async function arrange(errand: Errand, key: Key, receiver: string): Promise<Ids> {
  const scope = `workspace_id=${key.workspace_id}`;
  const call = {
    node_type_name: "api_call",
    name: "tell",
    input_config: { method: "POST", url: receiver, _options: { run_if: "{{ inputs.call }}" } },
  };
  const text = {
    node_type_name: "set_variables",
    name: "greet",
    input_config: { variables: { text: "Hello" } },
  };
  const input_schema = { properties: { call: { title: "Call", type: "boolean", default: false } } };
  const workflow = await good(
    errand.api<{ id: string }>("POST", `/api/workflows?${scope}`, {
      name: "w",
      input_schema,
      nodes: [text, call],
    }),
  );
  const agent = await good(errand.api<{ id: string }>("POST", `/api/agents?${scope}`, { name: "a" }));
  const token = async (path: string) =>
    (await good(errand.api<{ url: string }>("POST", `${path}/webhook-tokens`, {}))).body.url;
  const events = ["workflow.execution.completed", "agent.message.sent"];
  const webhook = await good(
    errand.api<{ id: string }>("POST", "/api/v1/webhooks", { name: "s", url: receiver, events }),
  );
  return {
    workflow: workflow.body.id,
    agent: agent.body.id,
    hook: await token(`/api/workflows/${workflow.body.id}`),
    agentHook: await token(`/api/agents/${agent.body.id}`),
    webhook: webhook.body.id,
  };
}

/** Every fault point of every flow; `every` thins them out. */
export async function faultCalls(options: {
  every: number;
  flow?: string;
  progress?: (text: string) => void;
}): Promise<Report[]> {
  const folder = scratch();
  const receiver = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => new Response(null, { status: 204 }),
  });
  const target = `http://127.0.0.1:${receiver.port}/`;
  try {
    const base = join(folder, "base");
    const key = await createKey(base);
    const before = await startErrand({ data: base, key, env: ENV });
    const ids = await arrange(before, key, target);
    const port = Number(new URL(before.url).port);
    await before.stop();

    const reports: Report[] = [];
    for (const flow of FLOWS.filter(({ name }) => !options.flow || name === options.flow)) {
      for (const fault of FAULTS) {
        const report: Report = {
          flow: flow.name,
          fault: fault.name,
          points: 0,
          acknowledged: 0,
          lost: 0,
          unfinished: 0,
          doubled: 0,
          corrupt: 0,
          odd: [],
        };
        for (let at = 1; ; at += options.every) {
          const data = join(folder, "run");
          if (!flow.fresh) cpSync(base, data, { recursive: true });
          const met = await onePoint({ data, port, key, ids, flow, fault, at, report, receiver: target });
          discard(data);
          if (!met) break;
          report.points++;
          options.progress?.(`${flow.name}, ${fault.name}: point ${at}`);
        }
        reports.push(report);
      }
    }
    return reports;
  } finally {
    receiver.stop(true);
    discard(folder);
  }
}

const DEATH_MS = 1_000;
const ENV = { ERRAND_ALLOW_TARGETS: "127.0.0.1" };

type Fault = { name: string; inject(at: number): string };

const FAULTS: Fault[] = [
  { name: "killed", inject: (at) => `${CALLS}:signal=SIGKILL:when=${at}` },
  // Three in a row: the probe and the retries meet it as well.
  { name: "EIO", inject: (at) => `pwrite64,fdatasync,fsync:error=EIO:when=${at}..${at + 2}` },
  { name: "ENOSPC", inject: (at) => `pwrite64:error=ENOSPC:when=${at}..${at + 2}` },
];

type Point = {
  data: string;
  port: number;
  key: Key;
  ids: Ids;
  flow: Flow;
  fault: Fault;
  at: number;
  report: Report;
  receiver: string;
};

/** False when the flow was through before the fault came. */
async function onePoint({
  data,
  port,
  key,
  ids,
  flow,
  fault,
  at,
  report,
  receiver,
}: Point): Promise<boolean> {
  const acknowledged: Acknowledged[] = [];
  const log = `${data}.strace`;
  const under = [
    "strace",
    "-f",
    "-qq",
    "-o",
    log,
    "-e",
    `trace=${CALLS}`,
    "-e",
    `inject=${fault.inject(at)}`,
  ];
  const say = (answer: Acknowledged) => acknowledged.push(answer);
  let errand: Errand | undefined;
  let died = false;
  let cutOff = false;
  try {
    errand = await startErrand({ data, port, key, env: ENV, under });
    const end = errand.ended.then(() => {
      died = true;
    });
    await Promise.race([flow.act({ errand, ids, receiver, say }), end]);
  } catch (error) {
    // Refused for lack of a disk, or cut off by the kill: both are what the fault is for.
    if (error instanceof Refused && error.status !== 503)
      report.odd.push(`${fault.name} ${at}: ${error.message}`);
    cutOff = !(error instanceof Refused);
    if (!errand) died = true;
  }
  // A death is known a little later than its client knows of it.
  if (errand) await Promise.race([errand.ended, Bun.sleep(cutOff ? DEATH_MS : 0)]);
  const killed = died;
  await errand?.kill();
  const met = fault.name === "killed" ? killed : (await Bun.file(log).text()).includes("(INJECTED)");
  discard(log);

  try {
    const again = await startErrand({ data, port, key, env: ENV });
    await ended(data, acknowledged);
    await again.stop();
    count(data, acknowledged, report);
  } catch (error) {
    report.odd.push(`${fault.name} ${at}: did not start again: ${error}`);
  }
  if (flow.fresh) {
    // What the first start was to leave: a folder in which everything works.
    const made = await run(["keys", "create", "--name", "after", "--json", "--data", data]);
    if (made.code !== 0) report.odd.push(`${fault.name} ${at}: ${made.stderr}`);
  }
  return met;
}

const rowOf = (db: Database, { kind, id }: Acknowledged) =>
  db
    .query<{ state: string }, [string]>(
      `SELECT state FROM ${kind === "execution" ? "executions" : "turns"} WHERE id = ?`,
    )
    .get(id);

/** Waits until everything acknowledged has ended, at most 10 s. */
async function ended(data: string, acknowledged: Acknowledged[]): Promise<void> {
  const db = new Database(join(data, "errand.db"), { readonly: true });
  try {
    for (const until = performance.now() + 10_000; performance.now() < until; await Bun.sleep(5)) {
      if (acknowledged.every((each) => ENDED.includes(rowOf(db, each)?.state ?? "success"))) return;
    }
  } finally {
    db.close();
  }
}

function count(data: string, acknowledged: Acknowledged[], report: Report): void {
  const db = new Database(join(data, "errand.db"), { readonly: true });
  for (const each of acknowledged) {
    report.acknowledged++;
    const row = rowOf(db, each);
    if (!row) report.lost++;
    else if (!ENDED.includes(row.state)) report.unfinished++;
    const told = db
      .query<{ count: number }, [string]>(
        "SELECT count(*) AS count FROM events WHERE subject_id = ? AND kind LIKE 'workflow.execution.%ed' AND kind != 'workflow.execution.started'",
      )
      .get(each.id);
    if ((told?.count ?? 0) > 1) report.doubled++;
  }
  const whole = db.query<{ integrity_check: string }, []>("PRAGMA integrity_check").get();
  if (whole?.integrity_check !== "ok") report.corrupt++;
  db.close();
}

export const isClean = ({ lost, unfinished, doubled, corrupt, odd }: Report): boolean =>
  lost + unfinished + doubled + corrupt + odd.length === 0;

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      every: { type: "string", default: "1" },
      flow: { type: "string" },
      json: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) {
    console.log(`usage: scripts/faults/syscalls [--every 1] [--flow NAME] [--json]
flows: ${FLOWS.map(({ name }) => name).join(", ")}`);
    process.exit(0);
  }
  const missing = straceMissing();
  if (missing) {
    console.error(`skipped: ${missing}`);
    process.exit(77);
  }
  const reports = await faultCalls({
    every: Number(values.every),
    flow: values.flow,
    progress: values.json ? undefined : (text) => process.stderr.write(`\r\u001b[K${text}`),
  });
  if (!values.json) process.stderr.write("\n");
  for (const report of reports) console.log(JSON.stringify(report));
  process.exit(reports.every(isClean) ? 0 : 1);
}
