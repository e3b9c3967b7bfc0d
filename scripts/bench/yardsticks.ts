/**
 * What the machine gives at most, measured in the same run as Errand: the least code that does the same
 * kind of work. Started as a process: `bun scripts/bench/yardsticks.ts bare|sqlite|receiver [file]`;
 * prints its port. `bun scripts/bench/yardsticks.ts poster URL COUNT` prints how many a second it sent.
 *
 * - bare: Bun.serve that parses a JSON body and answers 202.
 * - sqlite: the same, and answers after a group commit at synchronous=FULL of one run row and one job row.
 * - receiver: counts POSTs; GET tells the count.
 * - poster: signs a body and POSTs it, 64 at a time: what a delivery is without anything stored.
 */
import { Database } from "bun:sqlite";
import { createHmac } from "node:crypto";

const [kind = "bare", file = ":memory:"] = process.argv.slice(2);

function groupCommit() {
  const db = new Database(file, { strict: true });
  db.run("PRAGMA journal_mode = WAL");
  db.run("PRAGMA synchronous = FULL");
  db.run("CREATE TABLE runs (id TEXT PRIMARY KEY, input TEXT, at INTEGER) STRICT");
  db.run("CREATE TABLE jobs (id TEXT PRIMARY KEY, ref TEXT, at INTEGER) STRICT, WITHOUT ROWID");
  const insertRun = db.prepare("INSERT INTO runs VALUES (?, ?, ?)");
  const insertJob = db.prepare("INSERT INTO jobs VALUES (?, ?, ?)");
  const begin = db.prepare("BEGIN IMMEDIATE");
  const commit = db.prepare("COMMIT");
  let waiting: { id: string; input: string; resolve: () => void }[] = [];
  function flush() {
    const batch = waiting;
    waiting = [];
    begin.run();
    for (const { id, input } of batch) {
      insertRun.run(id, input, Date.now());
      insertJob.run(Bun.randomUUIDv7(), id, Date.now());
    }
    commit.run();
    for (const { resolve } of batch) resolve();
  }
  return (id: string, input: string) =>
    new Promise<void>((resolve) => {
      if (waiting.length === 0) setImmediate(flush);
      waiting.push({ id, input, resolve });
    });
}

async function post(url: string, count: number): Promise<number> {
  const body = JSON.stringify({ event: "workflow.execution.completed", data: { text: "x".repeat(600) } });
  const send = async (n: number) => {
    for (let left = n; left > 0; left--) {
      const signature = createHmac("sha256", "secret").update(body).digest("hex");
      const headers = { "content-type": "application/json", "x-service-signature": `sha256=${signature}` };
      await (await fetch(url, { method: "POST", headers, body })).arrayBuffer();
    }
  };
  const all = (n: number) => Promise.all(Array.from({ length: 64 }, () => send(Math.ceil(n / 64))));
  await all(count / 4);
  const began = performance.now();
  await all(count);
  return count / ((performance.now() - began) / 1_000);
}

if (kind === "poster") {
  console.log(Math.round(await post(file, Number(process.argv[4]))));
  process.exit(0);
}

const store = kind === "sqlite" ? groupCommit() : undefined;
let received = 0;

const server = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  async fetch(request) {
    if (kind === "receiver") {
      if (request.method === "GET") return Response.json({ received });
      await request.text();
      received++;
      return new Response(null, { status: 204 });
    }
    const body = (await request.json()) as { input_data: unknown };
    const id = Bun.randomUUIDv7();
    await store?.(id, JSON.stringify(body.input_data));
    return Response.json({ success: true, execution_id: id }, { status: 202 });
  },
});
console.log(server.port);
