/**
 * Loads one address over keep-alive connections from a process of its own: the next request of a
 * connection is sent when the answer to the last has come whole. Raw sockets, because on two cores an
 * HTTP client of its own weight would be the thing measured.
 *
 *     bun scripts/bench/load.ts '{"url":"...","connections":64,"seconds":5,"headers":{},"body":"{}"}'
 *
 * Prints one line of JSON: {requests, seconds, rate, p50_ms, p99_ms, max_ms, statuses}.
 */
export type LoadPlan = {
  url: string;
  method?: string;
  connections: number;
  seconds: number;
  headers?: Record<string, string>;
  body?: string;
};

export type LoadResult = {
  requests: number;
  seconds: number;
  rate: number;
  p50_ms: number;
  p99_ms: number;
  max_ms: number;
  statuses: Record<string, number>;
};

/** An answer as it comes in; `needed`: bytes of head and body, -1 until the head is whole. */
export type Answering = { buffer: Buffer; needed: number; status: string };
export const newAnswer = (): Answering => ({ buffer: Buffer.alloc(0), needed: -1, status: "" });

type Connection = { sentAt: number; answer: Answering };

const HEADER_END = Buffer.from("\r\n\r\n");

export async function load(plan: LoadPlan): Promise<LoadResult> {
  const url = new URL(plan.url);
  const request = wireRequest(plan, url);
  const latencies: number[] = [];
  const statuses: Record<string, number> = {};
  let ending = false;
  let open = 0;
  let finish: () => void = () => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });

  const started = performance.now();
  for (let index = 0; index < plan.connections; index++) {
    open++;
    await Bun.connect<Connection>({
      hostname: url.hostname,
      port: Number(url.port),
      data: { sentAt: 0, answer: newAnswer() },
      socket: {
        open(socket) {
          socket.data = { sentAt: performance.now(), answer: newAnswer() };
          socket.write(request);
        },
        data(socket, chunk) {
          const state = socket.data;
          if (!answered(state.answer, chunk)) return;
          latencies.push(performance.now() - state.sentAt);
          const { status } = state.answer;
          statuses[status] = (statuses[status] ?? 0) + 1;
          state.answer = newAnswer();
          if (ending) return void socket.end();
          state.sentAt = performance.now();
          socket.write(request);
        },
        close() {
          open--;
          if (open === 0) finish();
        },
        error() {},
      },
    });
  }
  await Bun.sleep(plan.seconds * 1_000);
  ending = true;
  const elapsed = (performance.now() - started) / 1_000;
  const counted = latencies.length;
  await Promise.race([finished, Bun.sleep(3_000)]);
  const sorted = Float64Array.from(latencies).sort();
  const at = (share: number) =>
    round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0);
  return {
    requests: counted,
    seconds: round(elapsed),
    rate: Math.round(counted / elapsed),
    p50_ms: at(0.5),
    p99_ms: at(0.99),
    max_ms: at(1),
    statuses,
  };
}

const round = (value: number) => Math.round(value * 1_000) / 1_000;

export function wireRequest(plan: LoadPlan, url: URL): Buffer {
  const body = Buffer.from(plan.body ?? "");
  const headers = Object.entries({
    host: url.host,
    ...(plan.body === undefined
      ? {}
      : { "content-type": "application/json", "content-length": String(body.length) }),
    ...plan.headers,
  });
  const method = plan.method ?? (plan.body === undefined ? "GET" : "POST");
  const head = `${method} ${url.pathname}${url.search} HTTP/1.1\r\n${headers.map(([n, v]) => `${n}: ${v}\r\n`).join("")}\r\n`;
  return Buffer.concat([Buffer.from(head), body]);
}

/** Takes a piece of an answer; true once it is whole. */
export function answered(answer: Answering, chunk: Buffer): boolean {
  answer.buffer = answer.buffer.length === 0 ? Buffer.from(chunk) : Buffer.concat([answer.buffer, chunk]);
  if (answer.needed < 0 && !readHead(answer)) return false;
  return answer.buffer.length >= answer.needed;
}

function readHead(answer: Answering): boolean {
  const end = answer.buffer.indexOf(HEADER_END);
  if (end < 0) return false;
  const head = answer.buffer.subarray(0, end).toString("latin1");
  answer.status = head.slice(9, 12);
  const length = /\r\ncontent-length: *(\d+)/i.exec(head);
  answer.needed = end + 4 + (length ? Number(length[1]) : 0);
  return true;
}

if (import.meta.main) {
  console.log(JSON.stringify(await load(JSON.parse(process.argv[2] ?? "{}"))));
}
