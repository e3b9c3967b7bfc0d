/**
 * What the machine gives at most, measured in the same run as Errand: the least code that does the same
 * kind of work. Started as a process: `bun scripts/bench/yardsticks.ts bare|sqlite|receiver [file]`;
 * prints its port.
 *
 * - bare: Bun.serve that parses a JSON body and answers 202.
 * - sqlite: the same, and answers after a group commit at synchronous=FULL of one run row and one job row.
 * - receiver: counts POSTs; GET tells the count.
 */
import { Database } from "bun:sqlite";

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
