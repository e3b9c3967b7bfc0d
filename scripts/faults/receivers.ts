/**
 * Sends to receivers that hang, reset, drip, flood, bomb, redirect, refuse and put off, beside healthy ones, and
 * then counts: what hostile receivers cost a healthy one's time, whether anything was lost, and the memory it took.
 *
 *     bun scripts/faults/receivers.ts [--hanging 400] [--seconds 25] [--webhooks 100] [--events 1000]
 *         [--kinds hang,reset,drip,flood,bomb,redirect,error,gone,later,garbage] [--json]
 *
 * Exit code 0 when a healthy receiver's p99 stayed below twice its baseline, nothing was lost, and memory grew
 * by less than 100 MB; else 1.
 */
import { Database } from "bun:sqlite";
import { readFileSync } from "node:fs";
import net, { type Server, type Socket } from "node:net";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";
import { createKey, discard, type Errand, freePort, type Key, scratch, startErrand } from "../lib/errand.ts";

export type Report = {
  /** Milliseconds from the event to the healthy receiver. */
  alone_ms: { p50: number; p99: number; count: number };
  beside_hanging_ms: { p50: number; p99: number; count: number };
  deliveries: number;
  lost: number;
  /** To healthy receivers, and not arrived or not on record as such. */
  unfinished: number;
  healthy_seconds: number;
  rss_before_mb: number;
  rss_most_mb: number;
  integrity: string;
};

const PACE_MS = 25;
const CLIENTS = 16;

const REPLY = (head: string, body = "") =>
  `HTTP/1.1 ${head}\r\ncontent-length: ${body.length}\r\n\r\n${body}`;

// Small on the wire, 50 MB once it is unpacked.
const BOMB = gzipSync(Buffer.alloc(50_000_000));

/** What each sort of receiver does with a request it has got. */
const HOSTILE: Record<string, (socket: Socket) => void> = {
  hang: () => {},
  reset: (socket) => void socket.resetAndDestroy(),
  drip(socket) {
    socket.write("HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n");
    const timer = setInterval(() => socket.write("x"), 500);
    socket.once("close", () => clearInterval(timer));
  },
  flood(socket) {
    socket.write("HTTP/1.1 200 OK\r\n\r\n");
    const chunk = Buffer.alloc(65_536, "x");
    const pour = () => {
      while (!socket.destroyed && socket.write(chunk));
    };
    socket.on("drain", pour);
    pour();
  },
  bomb(socket) {
    socket.write(`HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: ${BOMB.length}\r\n\r\n`);
    socket.write(BOMB);
  },
  redirect: (socket) =>
    void socket.write(REPLY("307 Temporary Redirect\r\nlocation: http://169.254.169.254/latest/meta-data/")),
  error: (socket) => void socket.write(REPLY("500 Internal Server Error", "no")),
  gone: (socket) => void socket.write(REPLY("410 Gone")),
  later: (socket) => void socket.write(REPLY("429 Too Many Requests\r\nretry-after: 99999999")),
  garbage: (socket) => void socket.write("220 mail.example ESMTP\r\n"),
};

async function hostile(behave: (socket: Socket) => void): Promise<Server & { url: string }> {
  const server = net.createServer((socket) => {
    socket.on("error", () => {});
    // One request a connection is all that matters here; a body comes with its head or soon after.
    socket.once("data", () => behave(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", 4_096, resolve));
  return Object.assign(server, { url: `http://127.0.0.1:${(server.address() as net.AddressInfo).port}/` });
}

type Sent = { timestamp: string; data: { execution_id: string } };

/** A receiver that answers at once; `latencies` by path since they were last taken, `got` distinct by path. */
function healthy() {
  const got = new Map<string, Set<string>>();
  let latencies: number[] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      const { timestamp, data } = (await request.json()) as Sent;
      latencies.push(Date.now() - Date.parse(timestamp));
      const path = new URL(request.url).pathname;
      const ids = got.get(path) ?? new Set();
      got.set(path, ids.add(data.execution_id));
      return new Response(null, { status: 204 });
    },
  });
  return {
    url: (path: string) => `http://127.0.0.1:${server.port}/${path}`,
    got,
    takeLatencies() {
      const taken = latencies.sort((a, b) => a - b);
      latencies = [];
      const at = (share: number) => taken[Math.max(0, Math.ceil(taken.length * share) - 1)] ?? 0;
      return { p50: at(0.5), p99: at(0.99), count: taken.length };
    },
    close: () => server.stop(true),
  };
}

type Tenant = { key: Key; workflow: string };

async function tenant(errand: Errand, name: string): Promise<Tenant> {
  const made = await errand.command("workspaces", "create", name, "--json");
  const { id } = JSON.parse(made.stdout) as { id: string };
  const { stdout } = await errand.command("keys", "create", "--workspace", id, "--name", name, "--json");
  const key = JSON.parse(stdout) as Key;
  const { body } = await ask<{ id: string }>(
    errand,
    key,
    "POST",
    `/api/workflows?workspace_id=${key.workspace_id}`,
    {
      name,
      nodes: [{ node_type_name: "set_variables", name: "done", input_config: { variables: { ok: "yes" } } }],
    },
  );
  return { key, workflow: body.id };
}

async function ask<T>(errand: Errand, { key }: Key, method: string, path: string, body: object) {
  const response = await fetch(errand.url + path, {
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return { status: response.status, body: (await response.json()) as T };
}

const subscribe = async (errand: Errand, { key }: Tenant, url: string) =>
  (
    await ask<{ id: string }>(errand, key, "POST", "/api/v1/webhooks", {
      url,
      events: ["workflow.execution.completed"],
    })
  ).body.id;

const start = ({ key, workflow }: Tenant, errand: Errand) =>
  ask(errand, key, "POST", `/api/workflows/${workflow}/executions`, {});

/** Starts runs at a steady pace, whatever the answers take. */
async function atPace(errand: Errand, who: Tenant, seconds: number): Promise<void> {
  const asked: Promise<unknown>[] = [];
  const begun = performance.now();
  for (let n = 0; n * PACE_MS < seconds * 1_000; n++) {
    await Bun.sleep(Math.max(0, begun + n * PACE_MS - performance.now()));
    asked.push(start(who, errand));
  }
  await Promise.all(asked);
  await Bun.sleep(300);
}

const rssMb = (pid: number): number =>
  Math.round(Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1_024);

export async function measure(options: {
  hanging: number;
  seconds: number;
  webhooks: number;
  events: number;
  /** Sorts of hostile receivers; all unless given. */
  kinds?: string[];
  progress?: (text: string) => void;
}): Promise<Report> {
  const { hanging, seconds, webhooks, events, progress = () => {} } = options;
  const data = scratch();
  const env = { ERRAND_ALLOW_TARGETS: "127.0.0.1" };
  const good = healthy();
  const servers = new Map<string, Awaited<ReturnType<typeof hostile>>>();
  for (const [name, behave] of Object.entries(HOSTILE)) servers.set(name, await hostile(behave));
  const port = await freePort();
  let errand = await startErrand({
    data,
    port,
    env,
    args: ["--log-level", "error", "--access-log", "false"],
  });
  await createKey(data);
  try {
    const calm = await tenant(errand, "calm");
    await subscribe(errand, calm, good.url("calm"));
    progress("a healthy receiver by itself");
    await atPace(errand, calm, 1);
    good.takeLatencies(); // the first second warms up
    await atPace(errand, calm, seconds);
    const alone_ms = good.takeLatencies();

    progress(`beside ${hanging} that hang`);
    const stuck = await tenant(errand, "stuck");
    for (let n = 0; n < hanging; n++) await subscribe(errand, stuck, `${servers.get("hang")!.url}${n}`);
    for (let n = 0; n < 8; n++) await start(stuck, errand);
    // Opening thousands of connections takes the machine a moment; what counts is the half minute they hang.
    await Bun.sleep(2_000);
    good.takeLatencies();
    await atPace(errand, calm, seconds);
    const beside_hanging_ms = good.takeLatencies();

    progress(`${events} events for ${webhooks} receivers, half of them hostile`);
    const crowd = await tenant(errand, "crowd");
    const kinds = options.kinds ?? [...servers.keys()];
    const ours = new Map<string, string>();
    const add = async (path: string, url: string) => ours.set(await subscribe(errand, crowd, url), path);
    for (let n = 0; n < webhooks; n += 2) await add(`/crowd${n}`, good.url(`crowd${n}`));
    const fire = async (count: number) => {
      let left = count;
      const client = async () => {
        while (left-- > 0) await start(crowd, errand);
      };
      await Promise.all(Array.from({ length: CLIENTS }, client));
    };
    const missing = (count: number) =>
      [...ours.values()].reduce(
        (sum, path) => sum + (path === "" ? 0 : count - (good.got.get(path)?.size ?? 0)),
        0,
      );
    const arrived = async (count: number) => {
      const until = performance.now() + 300_000;
      while (missing(count) > 0 && performance.now() < until) await Bun.sleep(50);
    };
    // The healthy half by itself first: what a program takes once it works is not what hostile receivers cost.
    const warmUp = Math.ceil(events / 5);
    await fire(warmUp);
    await arrived(warmUp);
    for (let n = 1; n < webhooks; n += 2) {
      await add("", `${servers.get(kinds[(n >> 1) % kinds.length]!)!.url}c${n}`);
    }
    const rss_before_mb = rssMb(errand.pid);
    let rss_most_mb = rss_before_mb;
    const sampler = setInterval(() => {
      rss_most_mb = Math.max(rss_most_mb, rssMb(errand.pid));
    }, 250);
    const begun = performance.now();
    await fire(events);
    await arrived(warmUp + events);
    const healthy_seconds = Math.round((performance.now() - begun) / 100) / 10;
    const absent = missing(warmUp + events);
    clearInterval(sampler);
    progress("stopping");
    await errand.kill(); // in the middle of its attempts; the next start takes them up
    errand = await startErrand({ data, port, env, args: ["--log-level", "error"] });
    await Bun.sleep(500);
    await errand.kill();
    const counted = count(data, ours, { hostile: events, healthy: warmUp + events });
    return {
      ...{ alone_ms, beside_hanging_ms },
      ...counted,
      unfinished: counted.unfinished + absent,
      ...{ healthy_seconds, rss_before_mb, rss_most_mb },
    };
  } finally {
    await errand.kill();
    good.close();
    for (const server of servers.values()) server.close();
    discard(data);
  }
}

/** Every event has one delivery for every webhook; what has not ended goes on, by one job where it waits. */
function count(data: string, ours: Map<string, string>, events: { hostile: number; healthy: number }) {
  const db = new Database(join(data, "errand.db"), { readonly: true });
  const result = { deliveries: 0, lost: 0, unfinished: 0, integrity: "" };
  const of = db.query<{ state: string; jobs: number; count: number }, [string]>(
    `SELECT state, jobs, count(*) AS count FROM (
       SELECT d.state, (SELECT count(*) FROM jobs j WHERE j.ref = d.id) AS jobs
       FROM deliveries d WHERE d.subscription_id = ?) GROUP BY state, jobs`,
  );
  for (const [id, path] of ours) {
    let kept = 0;
    for (const { state, jobs, count } of of.all(id)) {
      result.deliveries += count;
      // One on its first attempt says by itself that it goes on.
      if (jobs === (state === "retrying" ? 1 : 0) || (state === "pending" && jobs === 1)) kept += count;
      // One that arrived just before the kill may have its answer still to be recorded, and comes once more.
      if (path !== "" && state !== "success" && jobs === 0) result.unfinished += count;
    }
    result.lost += (path === "" ? events.hostile : events.healthy) - kept;
  }
  result.integrity = db
    .query<{ integrity_check: string }, []>("PRAGMA integrity_check")
    .get()!.integrity_check;
  db.close();
  return result;
}

const MOST_GROWTH_MB = 100;

export const isWhole = ({ lost, unfinished, integrity }: Report): boolean =>
  lost + unfinished === 0 && integrity === "ok";

export const isGood = (report: Report): boolean =>
  isWhole(report) &&
  report.beside_hanging_ms.p99 < 2 * Math.max(report.alone_ms.p99, 2) &&
  report.rss_most_mb - report.rss_before_mb < MOST_GROWTH_MB;

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      hanging: { type: "string", default: "400" },
      seconds: { type: "string", default: "25" },
      webhooks: { type: "string", default: "100" },
      events: { type: "string", default: "1000" },
      kinds: { type: "string" },
      json: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) {
    console.log(
      "usage: scripts/faults/receivers [--hanging 400] [--seconds 25] [--webhooks 100] [--events 1000] [--json]",
    );
    process.exit(0);
  }
  const report = await measure({
    hanging: Number(values.hanging),
    seconds: Number(values.seconds),
    webhooks: Number(values.webhooks),
    events: Number(values.events),
    kinds: values.kinds?.split(","),
    progress: values.json ? undefined : (text) => console.error(text),
  });
  if (values.json) console.log(JSON.stringify(report));
  else {
    for (const [name, value] of Object.entries(report)) {
      console.log(`${name.padEnd(18)} ${typeof value === "object" ? JSON.stringify(value) : value}`);
    }
  }
  process.exit(isGood(report) ? 0 : 1);
}
