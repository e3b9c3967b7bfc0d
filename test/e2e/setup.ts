import { afterAll } from "bun:test";
import { existsSync } from "node:fs";
import {
  BINARY,
  createKey,
  discard,
  type Errand,
  type Key,
  scratch,
  startErrand,
} from "../../scripts/lib/errand.ts";
import { describedBy } from "./described.ts";

if (!existsSync(BINARY)) throw new Error("dist/errand is missing: run `npm run build` first");

export type World = { errand: Errand; key: Key; workspace: string };

/**
 * One program with one key for a whole file; ended and removed after its last test. What `api` is answered is
 * held to the program's own description.
 */
export async function world(
  options: { command?: "serve" | "dev"; env?: Record<string, string>; args?: string[] } = {},
): Promise<World> {
  const data = scratch();
  const key = await createKey(data);
  const errand = await startErrand({
    data,
    key,
    command: options.command,
    args: ["--log-level", "warn", ...(options.args ?? [])],
    env: { ERRAND_ALLOW_TARGETS: "127.0.0.1", ...options.env },
  });
  afterAll(async () => {
    await errand.stop();
    discard(data);
  });
  const asDescribed = describedBy((await errand.api<never>("GET", "/api/openapi.json")).body);
  const api: Errand["api"] = async (method, path, body) => {
    const answer = await errand.api<never>(method, path, body);
    asDescribed(method, path, answer.status, answer.body);
    return answer;
  };
  return { errand: { ...errand, api }, key, workspace: `workspace_id=${key.workspace_id}` };
}

export type Delivered = { headers: Record<string, string>; body: string };

/** A receiver on loopback; `next` waits for the next delivery. */
export function receiver(
  answer: (delivered: Delivered) => Response = () => new Response(null, { status: 204 }),
) {
  const arrived: Delivered[] = [];
  const waiting: ((delivered: Delivered) => void)[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const delivered = { headers: Object.fromEntries(request.headers), body: await request.text() };
      const waiter = waiting.shift();
      if (waiter) waiter(delivered);
      else arrived.push(delivered);
      return answer(delivered);
    },
  });
  afterAll(() => server.stop(true));
  return {
    url: `http://127.0.0.1:${server.port}/hook`,
    next: (): Promise<Delivered> => {
      const delivered = arrived.shift();
      return delivered ? Promise.resolve(delivered) : new Promise((resolve) => waiting.push(resolve));
    },
  };
}

/** Asks until `done`, for what happens a moment after an answer; fails after `patience_ms`. */
export async function eventually<T>(
  ask: () => Promise<T>,
  done: (value: T) => boolean,
  patience_ms = 2_000,
): Promise<T> {
  const until = performance.now() + patience_ms;
  for (;;) {
    const value = await ask();
    if (done(value)) return value;
    if (performance.now() > until) throw new Error(`still ${JSON.stringify(value)}`);
    await Bun.sleep(5);
  }
}
