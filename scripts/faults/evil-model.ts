/**
 * An agent with tools, moved by a model that abuses all that it can: it fetches private addresses, calls what
 * it was not given, reaches for what belongs to others, goes round for ever, sends arguments and events that
 * are none, and never stops talking. Nothing of it may come about, every stream must end in good order, and
 * all others must be served meanwhile.
 */
import { Database } from "bun:sqlite";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createKey, discard, type Errand, scratch, startErrand } from "../lib/errand.ts";
import { type Abuse, abusesOf } from "./lib/abuses.ts";
import { askWith, newScope } from "./lib/project.ts";
import { difference, rowsByProject } from "./lib/rows.ts";
import { script } from "./lib/script.ts";

export type Report = {
  abuses: number;
  /** Calls of tools that were right, and ran: without any, no refusal would mean much. */
  ran: number;
  /** What came about and should not have. */
  successes: string[];
  /** Streams that broke off, answers with 5xx, lines that are none. */
  odd: string[];
  health_ms: { p50: number; p99: number; max: number };
  memory_mb: { before: number; after: number };
  slowest: { abuse: string; ms: number };
  worst: { abuse: string; health_ms: number };
};

const LONGEST_TURN_MS = 30_000;
const PAUSE_MS = 20;

export async function runAbuses(options: {
  /** Each how manieth. */
  every: number;
  progress?: ((text: string) => void) | undefined;
}): Promise<Report> {
  const data = scratch();
  const report: Report = {
    abuses: 0,
    ran: 0,
    successes: [],
    odd: [],
    health_ms: { p50: 0, p99: 0, max: 0 },
    memory_mb: { before: 0, after: 0 },
    slowest: { abuse: "", ms: 0 },
    worst: { abuse: "", health_ms: 0 },
  };
  const hits: string[] = [];
  const canary = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch(request) {
      hits.push(request.url);
      return new Response("you should not be here");
    },
  });
  const asked = new Map<string, number>();
  let abuses: Abuse[] = [];
  const model = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 60,
    async fetch(request) {
      // The agent's model says which abuse it is, the helper's that it is the helper.
      const body = (await request.json()) as { model: string; messages: { role: string }[] };
      const n = asked.get(body.model) ?? 0;
      asked.set(body.model, n + 1);
      return abuses[Number(body.model.slice(5))]!.script(n, body);
    },
  });
  const key = await createKey(data);
  const stranger = await newScope(data, "Stranger");
  const args = ["--log-level", "error", "--access-log", "false"];
  const env = { OPENAI_BASE_URL: `http://127.0.0.1:${model.port}/v1` };
  const errand = await startErrand({ data, key, args, env });
  try {
    const mark = `foreign${Math.random().toString(36).slice(2)}`;
    const theirs = await foreignThings(errand, stranger.key, stranger.workspace_id, mark);
    const mine = await toolsAndAgent(errand, key.workspace_id);
    const all = abusesOf({ canaryPort: canary.port!, foreign: { ...theirs, mark }, own: mine });
    abuses = all;
    const projects = [key.project_id, stranger.project_id];
    const before = rowsByProject(data, projects);
    report.memory_mb.before = memoryOf(errand);
    const health = watchHealth(errand.url);
    for (let n = 0; n < all.length; n += options.every) {
      const { name } = all[n]!;
      options.progress?.(`${n}/${all.length}: ${name}`);
      const began = performance.now();
      await suffer({ errand, key: key.key, agent: mine.agent, mark, report }, n, name);
      const ms = Math.round(performance.now() - began);
      const stall = Math.round(health.longest());
      if (stall > report.worst.health_ms) report.worst = { abuse: name, health_ms: stall };
      if (ms > report.slowest.ms) report.slowest = { abuse: name, ms };
      if (hits.length > 0) report.successes.push(`${name}: reached ${hits.splice(0).join()}`);
      report.abuses++;
      if (report.odd.at(-1)?.startsWith(`${name}: `) && (await hasEnded(errand))) {
        report.odd.push(`${name}: ended the program: ${errand.output().slice(-2_000)}`);
        return report;
      }
    }
    report.health_ms = await health.stop();
    report.memory_mb.after = memoryOf(errand);
    for (const row of difference(
      before.get(stranger.project_id)!,
      rowsByProject(data, projects).get(stranger.project_id)!,
    ))
      report.successes.push(`changed what belongs to others: ${row.slice(0, 200)}`);
    const code = await errand.stop();
    if (code !== 0) report.odd.push(`the program ended with ${code}: ${errand.output().slice(-1_000)}`);
    lookThroughRuns(data, mine, report);
    return report;
  } finally {
    await errand.kill().catch(() => {});
    model.stop(true);
    canary.stop(true);
    discard(data);
  }
}

const hasEnded = ({ ended }: Errand): Promise<boolean> =>
  Promise.race([ended.then(() => true), Bun.sleep(100).then(() => false)]);

type Made = { id: string };

async function foreignThings(errand: Errand, key: string, workspace: string, mark: string) {
  const ask = askWith(errand.url, key);
  const make = async (kind: string, body: object) =>
    ((await ask("POST", `/api/${kind}?workspace_id=${workspace}`, body)).json as Made).id;
  const nodes = [node("say", "set_variables", { variables: { said: mark } })];
  return {
    workflow: await make("workflows", { name: "Foreign", nodes, output_mapping: { said: "{{ say.said }}" } }),
    agent: await make("agents", { name: "Foreign", system_prompt: mark }),
  };
}

const node = (name: string, node_type_name: string, input_config: object) => ({
  name,
  node_type_name,
  input_config,
});

/** What the model is given, each so that it could be abused. */
async function toolsAndAgent(errand: Errand, workspace: string) {
  const make = async (kind: string, body: object) => {
    const { status, body: made } = await errand.api<Made>(
      "POST",
      `/api/${kind}?workspace_id=${workspace}`,
      body,
    );
    if (status !== 201) throw new Error(JSON.stringify(made));
    return made.id;
  };
  const flow = (name: string, inputs: string[], given: ReturnType<typeof node>, closed = false) =>
    make("workflows", {
      name,
      input_schema: {
        properties: Object.fromEntries(inputs.map((each) => [each, { title: each, type: "string" }])),
        required: inputs,
        ...(closed ? { additionalProperties: false } : {}),
      },
      nodes: [given],
      output_mapping: { out: `{{ ${given.name} }}` },
    });
  const once = { _options: { retry: { max_attempts: 1 } } };
  await make("connections", {
    name: "key",
    type: "bearer",
    config: { token: "credential", hosts: ["api.example.org"] },
  });
  const pay = await flow("pay", [], node("pay", "set_variables", { variables: { paid: true } }));
  const tools = [
    { workflow_id: pay, run_behavior: "request_confirmation" },
    {
      workflow_id: await flow(
        "reach",
        ["url"],
        node("call", "api_call", {
          url: "{{ inputs.url }}",
          follow_redirects: true,
          timeout_seconds: 3,
          ...once,
        }),
      ),
    },
    {
      workflow_id: await flow(
        "use",
        ["url"],
        node("call", "api_call", { url: "{{ inputs.url }}", connection: "key", timeout_seconds: 3, ...once }),
      ),
    },
    {
      workflow_id: await flow(
        "start",
        ["id"],
        node("start", "call_other_workflow", { workflow_id: "{{ inputs.id }}" }),
      ),
    },
    {
      workflow_id: await flow(
        "ask",
        ["id", "message"],
        node("ask", "run_agent", { agent_id: "{{ inputs.id }}", message: "{{ inputs.message }}" }),
      ),
    },
    {
      workflow_id: await flow(
        "echo",
        ["text"],
        node("say", "set_variables", { variables: { said: "{{ inputs.text }}" } }),
        true,
      ),
    },
    {
      workflow_id: await flow(
        "lookup",
        ["account"],
        node("say", "set_variables", { variables: { account: "{{ inputs.account }}" } }),
      ),
      input_config: { account: "mine" },
    },
  ].map((tool) => ({ ...tool, timeout_seconds: 5 }));
  const helper = await make("agents", { name: "Helper", model: "offline/errand" });
  const agent = await make("agents", {
    name: "Clerk",
    model: "openai/evil-0",
    auto_generate_title: false,
    recursion_limit: 6,
    model_config: {
      time_limits: {
        connect_seconds: 2,
        first_token_seconds: 1,
        between_tokens_seconds: 1,
        total_seconds: 4,
      },
    },
    tools,
    sub_agents: [{ agent_id: helper }],
  });
  return { agent, pay };
}

/** One message to the agent, and all that may be said about the answer. */
type Victim = { errand: Errand; key: string; agent: string; mark: string; report: Report };

async function suffer({ errand, key, agent, mark, report }: Victim, n: number, name: string): Promise<void> {
  const body = { id: `abuse-${n}`, messages: [{ role: "user", content: "Go on" }] };
  let text: string;
  try {
    await errand.api("PUT", `/api/agents/${agent}`, { model: `openai/evil-${n}` });
    const response = await fetch(`${errand.url}/api/agents/${agent}/stream`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(LONGEST_TURN_MS),
    });
    text = await response.text();
    if (response.status !== 200) report.odd.push(`${name}: ${response.status} ${text.slice(0, 200)}`);
  } catch (error) {
    report.odd.push(`${name}: ${(error as Error).message}`);
    return;
  }
  // A template that came with the arguments may name the mark's length, never the mark.
  if (text.includes(mark)) report.successes.push(`${name}: was told what belongs to others`);
  const lines = text.split("\n").filter((line) => line !== "");
  for (const line of lines) {
    if (!isLine(line)) report.odd.push(`${name}: a line that is none: ${line.slice(0, 100)}`);
  }
  if (!/^[d3]:/.test(lines.at(-1) ?? ""))
    report.odd.push(`${name}: ends with ${lines.at(-1)?.slice(0, 100)}`);
  if (/^a:.*"(49|x{9,})"/m.test(text)) report.successes.push(`${name}: had its template worked`);
}

function isLine(line: string): boolean {
  if (!/^[0-9a-z]:/.test(line)) return false;
  try {
    JSON.parse(line.slice(2));
    return true;
  } catch {
    return false;
  }
}

/** What ran although it must not have, and what ran as it should. */
function lookThroughRuns(data: string, { pay }: { pay: string }, report: Report): void {
  const db = new Database(join(data, "errand.db"), { readonly: true });
  const runs = db
    .query<{ workflow_id: string; input: string; source: string; state: string }, []>(
      "SELECT workflow_id, input, source, state FROM executions",
    )
    .all();
  db.close();
  report.ran = runs.filter(({ state }) => state === "success").length;
  // Started as a workflow by a workflow of the owner's own, it is the owner's doing.
  const paid = runs.filter(({ workflow_id, source }) => workflow_id === pay && source === "agent");
  if (paid.length > 0) report.successes.push(`paid ${paid.length} times without approval`);
  if (runs.some(({ input }) => input.includes('"theirs"'))) report.successes.push("took another account");
}

const memoryOf = ({ pid }: Errand): number => {
  const pages = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Math.round(Number(pages) / 1_024);
};

/** Asks for the health of the server again and again. */
function watchHealth(url: string) {
  const took: number[] = [];
  let isOver = false;
  const asking = (async () => {
    while (!isOver) {
      const began = performance.now();
      const asked = await fetch(`${url}/health`).then(
        (response) => response.text(),
        () => undefined,
      );
      if (asked === undefined) return;
      took.push(performance.now() - began);
      await Bun.sleep(PAUSE_MS);
    }
  })();
  let from = 0;
  return {
    /** The longest since it was last asked. */
    longest() {
      const longest = Math.max(0, ...took.slice(from));
      from = took.length;
      return longest;
    },
    async stop() {
      isOver = true;
      await asking;
      const sorted = took.toSorted((a, b) => a - b);
      const at = (share: number) =>
        Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!);
      return { p50: at(0.5), p99: at(0.99), max: at(1) };
    },
  };
}

export const isClean = ({ successes, odd, ran }: Report): boolean =>
  successes.length + odd.length === 0 && ran > 0;

if (import.meta.main) {
  await script({
    name: "evil-model",
    about: "Lets an agent be moved by a model that abuses all that it can.",
    numbers: { every: { help: "take each how manieth abuse", usually: 1 } },
    missing: () => (process.platform === "linux" ? undefined : "reads memory from /proc"),
    run: ({ number }, progress) => runAbuses({ every: number("every"), progress }),
    isClean,
  });
}
