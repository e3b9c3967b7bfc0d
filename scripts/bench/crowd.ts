/**
 * What a crowd at the door costs those who come in: the p99 of an incoming webhook, alone and while 10,000
 * idle and 500 slow connections are open. Alone and crowded take turns, and the medians are compared, because
 * the machine has other things to do as well.
 *
 *     bun scripts/bench/crowd.ts [rounds] [idle] [slow]
 */
import { createKey, discard, scratch, startErrand } from "../lib/errand.ts";
import { type LoadResult, load } from "./load.ts";

const SECONDS = 4;
const CONNECTIONS = 4;
const DRIP_MS = 1_000;

/** Holds the connections from a process of its own until it is ended; prints how many it has. */
async function hold(url: URL, target: string, idle: number, slow: number): Promise<never> {
  const connected = { idle: 0, slow: 0 };
  const nothing = { data() {}, error() {}, close() {} };
  const open = (socket: object) =>
    Bun.connect({ hostname: url.hostname, port: Number(url.port), socket: { ...nothing, ...socket } });
  const head = `POST ${target} HTTP/1.1\r\nHost: ${url.host}\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{`;
  const dripping = new Set<{ write(text: string): number }>();
  for (let n = 0; n < slow; n++) {
    const socket = await open({ close: () => connected.slow-- });
    socket.write(head);
    dripping.add(socket);
    connected.slow++;
  }
  setInterval(() => {
    for (const socket of dripping) socket.write(" ");
  }, DRIP_MS);
  // Side by side: one after the other, the first would be cut for idling before the last is there.
  const lane = async () => {
    while (connected.idle < idle) {
      connected.idle++;
      await open({ close: () => connected.idle-- });
    }
  };
  await Promise.all(Array.from({ length: 64 }, lane));
  console.log(JSON.stringify(connected));
  return new Promise(() => {});
}

async function crowd(url: string, target: string, idle: number, slow: number) {
  const args = [process.execPath, import.meta.path, "hold", url, target, String(idle), String(slow)];
  const holder = Bun.spawn(args, { stdout: "pipe", stderr: "inherit" });
  const reader = holder.stdout.getReader();
  const { value } = await reader.read();
  return {
    held: JSON.parse(new TextDecoder().decode(value)) as { idle: number; slow: number },
    async leave() {
      holder.kill();
      await holder.exited;
      await Bun.sleep(500);
    },
  };
}

const median = (values: number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;

async function compare(rounds: number, idle: number, slow: number): Promise<void> {
  const data = scratch();
  const key = await createKey(data);
  const errand = await startErrand({ data, key, args: ["--log-level", "error", "--access-log", "false"] });
  try {
    const workflow = await errand.api<{ id: string }>(
      "POST",
      `/api/workflows?workspace_id=${key.workspace_id}`,
      {
        name: "noop",
        nodes: [],
      },
    );
    const { id } = workflow.body;
    const made = await errand.api<{ token: string }>("POST", `/api/workflows/${id}/webhook-tokens`, {});
    const target = `/webhooks/workflows/${id}?token=${made.body.token}`;
    const plan = { url: `${errand.url}${target}`, connections: CONNECTIONS, body: "{}" };
    await load({ ...plan, seconds: 2 });
    const alone: LoadResult[] = [];
    const crowded: LoadResult[] = [];
    for (let round = 0; round < rounds; round++) {
      alone.push(await load({ ...plan, seconds: SECONDS }));
      const others = await crowd(errand.url, target, idle, slow);
      crowded.push(await load({ ...plan, seconds: SECONDS }));
      await others.leave();
      const [a, b] = [alone.at(-1)!, crowded.at(-1)!];
      console.log(
        `round ${round + 1}: alone p50 ${a.p50_ms} p99 ${a.p99_ms} ms, with ${others.held.idle} idle and ` +
          `${others.held.slow} slow p50 ${b.p50_ms} p99 ${b.p99_ms} ms; answers ${JSON.stringify(b.statuses)}`,
      );
    }
    const [before, after] = [alone, crowded].map((results) => median(results.map(({ p99_ms }) => p99_ms)));
    const raised = Math.round((after! / before! - 1) * 100);
    console.log(`median p99: ${before} ms alone, ${after} ms crowded, ${raised} % more (target: below 20 %)`);
  } finally {
    await errand.stop();
    discard(data);
  }
}

const [first = "5", ...rest] = process.argv.slice(2);
if (first === "hold") {
  const [url, target, idle, slow] = rest;
  await hold(new URL(url!), target!, Number(idle), Number(slow));
} else {
  const [idle = "10000", slow = "500"] = rest;
  await compare(Number(first), Number(idle), Number(slow));
}
