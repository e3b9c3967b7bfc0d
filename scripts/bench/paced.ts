/**
 * Asks at a given rate, whether answers come or not: what is due while all connections wait is late, and its
 * lateness counts. From a process of its own, over raw sockets, as load.ts.
 *
 *     bun scripts/bench/paced.ts '{"url":"...","rate":2000,"connections":64,"seconds":60,"every":60,"body":"{}"}'
 *
 * Prints a line of JSON for each `every` seconds: {seconds, requests, rate, p50_ms, p99_ms, max_ms, refused}.
 */
import { type Answering, answered, type LoadPlan, newAnswer, wireRequest } from "./load.ts";

export type PacedPlan = LoadPlan & { rate: number; every: number };
export type Stretch = {
  seconds: number;
  requests: number;
  rate: number;
  p50_ms: number;
  p99_ms: number;
  max_ms: number;
  refused: number;
};

type Caller = { askedAt: number; isFree: boolean; answer: Answering; ask(): void };

export async function paced(plan: PacedPlan, tell: (stretch: Stretch) => void): Promise<void> {
  const url = new URL(plan.url);
  const request = wireRequest(plan, url);
  const callers: Caller[] = [];
  let latencies: number[] = [];
  let refused = 0;
  let sent = 0;
  const began = performance.now();
  const dueAt = (n: number) => began + (n * 1_000) / plan.rate;

  /** Gives what is due to callers that are free. */
  function askOn(): void {
    const now = performance.now();
    if (now > began + plan.seconds * 1_000) return;
    for (const caller of callers) {
      if (dueAt(sent) > now) return;
      if (!caller.isFree) continue;
      caller.isFree = false;
      caller.askedAt = dueAt(sent);
      sent++;
      caller.ask();
    }
  }

  for (let n = 0; n < plan.connections; n++) {
    await Bun.connect<Caller>({
      hostname: url.hostname,
      port: Number(url.port),
      socket: {
        open(socket) {
          const caller: Caller = {
            askedAt: 0,
            isFree: true,
            answer: newAnswer(),
            ask: () => void socket.write(request),
          };
          socket.data = caller;
          callers.push(caller);
        },
        data({ data: caller }, chunk) {
          if (!answered(caller.answer, chunk)) return;
          latencies.push(performance.now() - caller.askedAt);
          if (!caller.answer.status.startsWith("2")) refused++;
          caller.answer = newAnswer();
          caller.isFree = true;
          askOn();
        },
        close({ data: caller }) {
          callers.splice(callers.indexOf(caller), 1);
        },
        error() {},
      },
    });
  }
  const pace = setInterval(askOn, 1);
  let toldAt = began;
  for (let left = plan.seconds; left > 0; left -= plan.every) {
    await Bun.sleep(toldAt + Math.min(left, plan.every) * 1_000 - performance.now());
    const sorted = Float64Array.from(latencies).sort();
    const at = (share: number) =>
      Math.round((sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0) * 1_000) /
      1_000;
    const seconds = (performance.now() - toldAt) / 1_000;
    toldAt = performance.now();
    tell({
      seconds: Math.round((toldAt - began) / 1_000),
      requests: sorted.length,
      rate: Math.round(sorted.length / seconds),
      p50_ms: at(0.5),
      p99_ms: at(0.99),
      max_ms: at(1),
      refused,
    });
    latencies = [];
    refused = 0;
  }
  clearInterval(pace);
}

if (import.meta.main) {
  await paced(JSON.parse(process.argv[2] ?? "{}"), (stretch) => console.log(JSON.stringify(stretch)));
  process.exit(0);
}
