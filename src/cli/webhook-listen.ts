import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { iso } from "../lib/clock.ts";
import { printable } from "../lib/terminal.ts";
import { verifyDelivery } from "../webhooks/signature.ts";
import { type Call, text } from "./command.ts";
import { EXIT, ExitError, usageError } from "./exit.ts";
import { selfName } from "./self.ts";

const DEFAULT_PORT = 9_000;
const LONGEST_BODY = 16 * 1_024 * 1_024;

type Plan = {
  port: number;
  secret: string | undefined;
  /** The status that delivery number n (from 1) is answered with. */
  statusOf(n: number): number;
  slowMs: number;
  /** Deliveries after which it ends. */
  count: number;
};

/**
 * A receiver in the terminal: prints what arrives and checks its signature, and fails or dawdles on request,
 * to rehearse retries. Ends at Ctrl-C, or after --count deliveries; exit code 5 when one was not genuine.
 */
export async function listenForWebhooks(call: Call): Promise<number> {
  const { output } = call;
  const plan = planOf(call);
  let seen = 0;
  let forged = 0;
  let end: () => void = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });

  const server = createServer(async (request, answer) => {
    const body = await bodyOf(request);
    const n = ++seen;
    const status = plan.statusOf(n);
    const verdict = verdictOf(plan.secret, request, body);
    if (verdict === "not genuine") forged++;
    tell(call, { n, request, body, status, verdict });
    if (plan.slowMs > 0) await new Promise((resolve) => setTimeout(resolve, plan.slowMs));
    answer.writeHead(status, { "content-type": "text/plain" });
    answer.end(status < 300 ? "thanks\n" : "as asked for by --fail\n", () => {
      if (n >= plan.count) end();
    });
  });
  const url = await open(server, plan.port);
  output.words(greeting(url, plan.secret !== undefined));
  process.once("SIGINT", end);
  process.once("SIGTERM", end);
  try {
    await ended;
  } finally {
    process.off("SIGINT", end);
    process.off("SIGTERM", end);
    server.close();
    server.closeAllConnections();
  }
  return forged > 0 ? EXIT.refused : EXIT.ok;
}

function planOf({ flags }: Call): Plan {
  const secret = text(flags, "secret");
  if (secret !== undefined && !/^whsec_[A-Za-z0-9+/]+=*$/.test(secret))
    throw usageError("--secret: expected whsec_ and base64", "errand webhooks secret ID prints it");
  const fail = numberOf(flags, "fail", 1, 599) ?? 0;
  return {
    port: numberOf(flags, "port", 0, 65_535) ?? DEFAULT_PORT,
    secret,
    statusOf: (n) => (fail >= 300 ? fail : n <= fail ? 500 : 200),
    slowMs: (numberOf(flags, "slow", 0, 3_600) ?? 0) * 1_000,
    count: numberOf(flags, "count", 1, 1_000_000) ?? Number.POSITIVE_INFINITY,
  };
}

function numberOf(flags: Call["flags"], name: string, least: number, most: number): number | undefined {
  const given = text(flags, name);
  if (given === undefined) return undefined;
  const value = /^\d{1,7}(\.\d{1,3})?$/.test(given) ? Number(given) : Number.NaN;
  if (value >= least && value <= most && (name === "slow" || Number.isInteger(value))) return value;
  throw usageError(`--${name} ${given}: expected a number from ${least} to ${most}`);
}

function open(server: Server, port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      const taken = error.code === "EADDRINUSE";
      reject(
        taken
          ? new ExitError(EXIT.busy, `port ${port} is taken`, "name another with --port, or 0 for a free one")
          : error,
      );
    });
    server.listen(port, "127.0.0.1", () =>
      resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`),
    );
  });
}

function greeting(url: string, verifies: boolean): string {
  const self = selfName();
  const target = new URL(url).host;
  return [
    `listening at ${url}`,
    "a loopback target is refused unless it is allowed; give both the same setting:",
    `  ERRAND_ALLOW_TARGETS=${target} ${self} serve        (${self} dev allows it by itself)`,
    `  ERRAND_ALLOW_TARGETS=${target} ${self} webhooks create --url ${url} --events '*'`,
    verifies ? "signatures are checked" : "signatures are not checked: give --secret whsec_...",
    "",
  ].join("\n");
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    size += (chunk as Buffer).length;
    if (size <= LONGEST_BODY) chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks);
}

type Verdict = "verified" | "not genuine" | "not checked";

function verdictOf(secret: string | undefined, { headers }: IncomingMessage, body: Buffer): Verdict {
  if (secret === undefined) return "not checked";
  const single = headers as Record<string, string | undefined>;
  return verifyDelivery(secret, single, body, Date.now()) ? "verified" : "not genuine";
}

type Arrival = { n: number; request: IncomingMessage; body: Buffer; status: number; verdict: Verdict };

function tell({ output, flags }: Call, { n, request, body, status, verdict }: Arrival): void {
  const { headers, method, url } = request;
  const payload = body.toString("utf8");
  const attempt = Number(headers["x-service-attempt"] ?? 1);
  if (flags["json"]) {
    const line = {
      n,
      time: iso(Date.now()),
      method,
      path: url,
      verdict,
      attempt,
      status,
      headers,
      body: payload,
    };
    output.data(`${JSON.stringify(line)}\n`);
    return;
  }
  const id = headers["webhook-id"] ?? "no webhook-id";
  const time = iso(Date.now()).slice(11, 23);
  const line = `${time}  ${eventOf(payload)}  attempt ${attempt}  ${verdict}  answered ${status}  ${id}`;
  output.data(`${printable(line)}\n  ${printable(payload)}\n`);
}

function eventOf(payload: string): string {
  try {
    return String(JSON.parse(payload).event);
  } catch {
    return "no JSON";
  }
}
