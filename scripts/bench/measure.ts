/** What every suite measures with: loads, yardsticks, the program under test, and what a process costs. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createKey, discard, type Errand, type Key, scratch, startErrand } from "../lib/errand.ts";
import type { LoadPlan, LoadResult } from "./load.ts";
import { hasWrk, wrkLoad } from "./wrk.ts";

const here = (file: string) => join(import.meta.dir, file);

export const say = (line: string) => process.stderr.write(`${line}\n`);

export const median = (values: number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

/**
 * By how much the values rise from the first to the last, as a share of their middle: by the middle of the slopes
 * between every two of them, which a few bad moments do not turn.
 */
export function grown(values: number[]): number {
  const slopes = values.flatMap((value, n) =>
    values.slice(n + 1).map((later, ahead) => (later - value) / (ahead + 1)),
  );
  return slopes.length === 0 ? 0 : (median(slopes) * (values.length - 1)) / median(values);
}

export type Spread = { p50: number; p99: number; max: number };

export function spread(times: number[]): Spread {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!;
  return { p50: at(0.5), p99: at(0.99), max: at(1) };
}

/** Milliseconds of one after the other; twenty before them are not counted. */
export async function timed(count: number, act: (n: number) => Promise<unknown>): Promise<Spread> {
  const times: number[] = [];
  for (let n = -20; n < count; n++) {
    const begun = performance.now();
    await act(n);
    if (n >= 0) times.push(performance.now() - begun);
  }
  return spread(times);
}

/** Half as long again goes before and is not counted: a program is measured as it runs, not as it compiles. */
export async function load(plan: LoadPlan): Promise<LoadResult> {
  await loadOnce({ ...plan, seconds: Math.max(1, plan.seconds / 2) });
  return loadOnce(plan);
}

export async function loadOnce(plan: LoadPlan): Promise<LoadResult> {
  const result = hasWrk() ? await wrkLoad(plan) : await ownLoad(plan);
  const bad = Object.keys(result.statuses).filter((status) => !status.startsWith("2"));
  if (bad.length > 0) throw new Error(`load on ${plan.url} met ${JSON.stringify(result.statuses)}`);
  return result;
}

async function ownLoad(plan: LoadPlan): Promise<LoadResult> {
  const child = Bun.spawn([process.execPath, here("load.ts"), JSON.stringify(plan)], {
    stdout: "pipe",
    stderr: "inherit",
  });
  return JSON.parse(await new Response(child.stdout).text()) as LoadResult;
}

export type Yardstick = { url: string; port: number; pid: number; end(): void };

/** A bare program in a process of its own: see yardsticks.ts. */
export async function yardstick(kind: string, file = ""): Promise<Yardstick> {
  const child = Bun.spawn([process.execPath, here("yardsticks.ts"), kind, file], {
    stdout: "pipe",
    stderr: "inherit",
  });
  const reader = child.stdout.getReader();
  const port = Number(new TextDecoder().decode((await reader.read()).value));
  return { url: `http://127.0.0.1:${port}/`, port, pid: child.pid, end: () => child.kill() };
}

/** Signed POSTs one after the other, 64 at a time, by the least code: how many a second reach a receiver. */
export async function bareSignedPosts(receiver: string, count: number): Promise<number> {
  const child = Bun.spawn([process.execPath, here("yardsticks.ts"), "poster", receiver, String(count)], {
    stdout: "pipe",
    stderr: "inherit",
  });
  return Number(await new Response(child.stdout).text());
}

type Environment = Record<string, string>;

/** The program on a folder, quiet, and keeping what is old. */
export const startOn = (data: string, key: Key, env: Environment = {}): Promise<Errand> =>
  startErrand({
    data,
    key,
    args: ["--log-level", "error", "--access-log", "false", "--retention-days", "0"],
    env: { ERRAND_ALLOW_TARGETS: "127.0.0.1", ...env },
  });

export async function withFolder<T>(work: (data: string, key: Key) => Promise<T>): Promise<T> {
  const data = scratch();
  try {
    return await work(data, await createKey(data));
  } finally {
    discard(data);
  }
}

export async function withRunning<T>(
  data: string,
  key: Key,
  work: (errand: Errand) => Promise<T>,
  env?: Environment,
): Promise<T> {
  const errand = await startOn(data, key, env);
  try {
    return await work(errand);
  } finally {
    await errand.stop();
  }
}

export const withErrand = <T>(
  work: (errand: Errand, key: Key) => Promise<T>,
  env?: Environment,
): Promise<T> => withFolder((data, key) => withRunning(data, key, (errand) => work(errand, key), env));

export const BODY = JSON.stringify({ input_data: { name: "Ada", amount: 12 }, trigger_source: "bench" });

const setting = (name: string, text: string) => ({
  node_type_name: "set_variables",
  name,
  input_config: { variables: { text } },
});

/** A workflow of so many effect-free nodes; the address that starts it. */
export async function hookOf(errand: Errand, key: Key, nodes = 1): Promise<string> {
  const workflow = await errand.api<{ id: string }>(
    "POST",
    `/api/workflows?workspace_id=${key.workspace_id}`,
    {
      name: "bench",
      input_schema: { properties: { name: { title: "Name", type: "string" } }, required: ["name"] },
      nodes: Array.from({ length: nodes }, (_, n) =>
        n === 0 ? setting("greet", "Hello {{ name }}") : setting(`n${n}`, "{{ greet.text }} again"),
      ),
    },
  );
  const token = await errand.api<{ token: string }>(
    "POST",
    `/api/workflows/${workflow.body.id}/webhook-tokens`,
    {},
  );
  return `${errand.url}/webhooks/workflows/${workflow.body.id}?token=${token.body.token}`;
}

export const COMPLETED = "workflow.execution.completed";
/** An event that no load brings about. */
export const NEVER = "workflow.execution.failed";

export async function subscribe(errand: Errand, url: string, event = COMPLETED): Promise<string> {
  const made = await errand.api<{ id: string }>("POST", "/api/v1/webhooks", {
    name: "bench",
    url,
    events: [event],
  });
  if (made.status !== 201) throw new Error(JSON.stringify(made.body));
  return made.body.id;
}

/** Resident memory in MB. */
export function memory(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? Number.NaN) / 1_024;
}

const TICK_US = 10_000;

/** CPU time of a process so far, in microseconds: all of it, and of its first thread alone. */
export function cpu(pid: number): { all: number; main: number } {
  let all = 0;
  let main = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const used = (Number(fields[11]) + Number(fields[12])) * TICK_US;
    all += used;
    if (Number(thread) === pid) main = used;
  }
  return { all, main };
}

/** Waits until a counting receiver has seen so many. */
export async function arrived(receiver: string, count: number): Promise<void> {
  const until = performance.now() + 120_000;
  for (;;) {
    const { received } = (await (await fetch(receiver)).json()) as { received: number };
    if (received >= count) return;
    if (performance.now() > until) throw new Error(`${count - received} of ${count} were not delivered`);
    await Bun.sleep(5);
  }
}
