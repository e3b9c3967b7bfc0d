import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

/** The compiled program, started for a test, a bench or a fault script; always on loopback. */
export type Errand = {
  url: string;
  data: string;
  pid: number;
  /** What it has printed so far, standard output and error together. */
  output(): string;
  /** Of a request with the key and a JSON body. */
  headers: Record<string, string>;
  /** Milliseconds from the start of the process to the first answered request. */
  startedInMs: number;
  api<T = Record<string, unknown>>(method: string, path: string, body?: unknown): Promise<Answer<T>>;
  /** Runs a command of the same binary on the same data folder. */
  command(...args: string[]): Promise<CommandResult>;
  /** Ends it as an operator would; answers the exit code. */
  stop(): Promise<number>;
  /** Ends it as a power button would. */
  kill(): Promise<void>;
  /** Resolves when it has ended, however. */
  ended: Promise<number>;
};

export type Answer<T> = { status: number; headers: Headers; body: T };
export type CommandResult = { code: number; stdout: string; stderr: string };
export type Key = { key: string; workspace_id: string; project_id: string };

export const BINARY = resolve(import.meta.dir, "../../dist/errand");

// A machine that is busy with other things may leave it waiting for long.
const LONGEST_START_MS = 120_000;

export const scratch = (): string => mkdtempSync(join(tmpdir(), "errand-"));
export const discard = (folder: string): void => rmSync(folder, { recursive: true, force: true });

export function freePort(): Promise<number> {
  return new Promise((done, fail) => {
    const server = createServer();
    server.once("error", fail);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => done(port));
    });
  });
}

export async function run(
  args: string[],
  options: { cwd?: string; env?: Record<string, string> } = {},
): Promise<CommandResult> {
  const child = Bun.spawn([BINARY, ...args], {
    cwd: options.cwd ?? tmpdir(),
    env: { PATH: process.env["PATH"] ?? "", HOME: tmpdir(), ...options.env },
    stdout: "pipe",
    stderr: "pipe",
  });
  const [stdout, stderr] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code: await child.exited, stdout, stderr };
}

export async function createKey(data: string, env: Record<string, string> = {}): Promise<Key> {
  const made = await run(["keys", "create", "--name", "script", "--json", "--data", data], { env });
  if (made.code !== 0) throw new Error(`keys create: ${made.stderr}`);
  return JSON.parse(made.stdout) as Key;
}

export async function startErrand(options: {
  data: string;
  key?: Key;
  port?: number;
  args?: string[];
  env?: Record<string, string>;
  command?: "serve" | "dev";
  /** A program that runs it, with its arguments. */
  under?: string[];
}): Promise<Errand> {
  const { data, key, args = [], env = {}, command = "serve", under = [] } = options;
  const port = options.port ?? (await freePort());
  const url = `http://127.0.0.1:${port}`;
  const authorization: Record<string, string> = key ? { authorization: `Bearer ${key.key}` } : {};
  const began = performance.now();
  const child = Bun.spawn([...under, BINARY, command, "--data", data, "--port", String(port), ...args], {
    cwd: tmpdir(),
    env: { PATH: process.env["PATH"] ?? "", HOME: data, ...env },
    stdout: "pipe",
    stderr: "pipe",
  });
  let output = "";
  const collect = async (stream: ReadableStream<Uint8Array>) => {
    const decoder = new TextDecoder();
    for await (const chunk of stream) output = (output + decoder.decode(chunk)).slice(-200_000);
  };
  const collected = Promise.all([collect(child.stdout), collect(child.stderr)]);

  for (;;) {
    try {
      const health = await fetch(`${url}/health`);
      await health.text();
      if (health.status === 200) break;
    } catch {
      // not listening yet
    }
    if (child.exitCode !== null || child.signalCode !== null) {
      await collected;
      throw new Error(`errand ended with ${child.exitCode ?? child.signalCode}:\n${output}`);
    }
    if (performance.now() - began > LONGEST_START_MS) {
      child.kill("SIGKILL");
      throw new Error(`errand did not answer within ${LONGEST_START_MS / 1_000} s:\n${output}`);
    }
    await Bun.sleep(2);
  }

  return {
    url,
    data,
    pid: child.pid,
    output: () => output,
    headers: { ...authorization, "content-type": "application/json" },
    startedInMs: performance.now() - began,
    async api(method, path, body) {
      const response = await fetch(url + path, {
        method,
        headers: {
          ...authorization,
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      return {
        status: response.status,
        headers: response.headers,
        body: text ? JSON.parse(text) : undefined,
      };
    },
    command: (...commandArgs) => run([...commandArgs, "--data", data], { env }),
    async stop() {
      child.kill("SIGTERM");
      const code = await child.exited;
      await collected;
      return code;
    },
    async kill() {
      // What runs it would let go of it otherwise, and it would run on.
      if (under.length > 0) for (const pid of childrenOf(child.pid)) process.kill(pid, "SIGKILL");
      else child.kill("SIGKILL");
      await child.exited;
    },
    ended: child.exited,
  };
}

function childrenOf(pid: number): number[] {
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
    return (text.match(/\d+/g) ?? []).map(Number);
  } catch {
    return [];
  }
}
