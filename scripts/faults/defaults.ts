/**
 * Starts the program as somebody does who has read nothing: a fresh folder, no option but a port, and a working
 * folder full of files that other programs would obey. Looks at where it listens, what it leaves on the disk,
 * what it answers to those without a key, to other origins and to other names.
 */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { BINARY, discard, freePort, scratch } from "../lib/errand.ts";
import { operationsOf } from "./lib/openapi.ts";
import { until } from "./lib/project.ts";
import { sendRaw } from "./lib/raw-http.ts";
import { difference, rowsByProject } from "./lib/rows.ts";
import { script } from "./lib/script.ts";

export type Report = { checks: number; listens: string[]; operations: number; faults: string[] };

export async function lookAtDefaults(): Promise<Report> {
  const folder = scratch();
  const data = join(folder, "data");
  const cwd = join(folder, "cwd");
  const port = await freePort();
  const traces = setTraps(cwd, port);
  const url = `http://127.0.0.1:${port}`;
  const report: Report = { checks: 0, listens: [], operations: 0, faults: [] };
  const check = (what: string, isGood: boolean, told: unknown = "") => {
    report.checks++;
    if (!isGood)
      report.faults.push(`${what} ${typeof told === "string" ? told : JSON.stringify(told)}`.trim());
  };
  // What a careless shell would give it: files for everybody.
  const child = Bun.spawn(
    ["/bin/sh", "-c", 'umask 0; exec "$@"', "sh", BINARY, "serve", "--data", data, "--port", String(port)],
    {
      cwd,
      env: { PATH: process.env["PATH"] ?? "", HOME: cwd },
      stdout: "pipe",
      stderr: "pipe",
    },
  );
  const output = Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  const ask = (path: string, init: RequestInit = {}) => fetch(url + path, init);
  try {
    await until(async () => ((await ask("/health").catch(() => undefined))?.ok ? true : undefined));

    report.listens = listensOf(child.pid);
    check(
      "listens on loopback alone",
      report.listens.length === 1 && report.listens[0] === `127.0.0.1:${port}`,
      report.listens,
    );
    check(
      "no file of the working folder was obeyed",
      traces.every((path) => !existsSync(path)),
      traces,
    );
    check("nothing new lies in the working folder", readdirSync(cwd).length === TRAPS, readdirSync(cwd));
    await run(["backup", "create", "--data", data], cwd);
    for (const { path, mode } of modesOf(data))
      check(`${path} is its owner's alone`, (mode & 0o077) === 0, mode.toString(8));

    const operations = await operationsOf({
      api: async (_, path) => ({
        status: 200,
        headers: new Headers(),
        body: (await (await ask(path)).json()) as never,
      }),
    });
    report.operations = operations.length;
    const before = rowsByProject(data, []).get("")!;
    for (const { method, path, policy } of operations) {
      const filled = path.replace(/\{\w+\}/g, () => crypto.randomUUID());
      const hasBody = method !== "GET" && method !== "DELETE";
      const response = await ask(filled, {
        method,
        headers: {
          origin: "https://evil.example",
          ...(hasBody ? { "content-type": "application/json" } : {}),
        },
        ...(hasBody ? { body: "{}" } : {}),
      });
      const text = await response.text();
      const { headers, status } = response;
      const name = `${method} ${path}`;
      const expected = policy === "key" ? [401] : policy === "public" ? [200] : [400, 401, 404];
      check(`${name} is closed to those without a key`, expected.includes(status), status);
      check(
        `${name} opens to no other origin`,
        ![...headers.keys()].some((each) => each.startsWith("access-control-")),
      );
      check(`${name} is not to be guessed at`, headers.get("x-content-type-options") === "nosniff");
      check(`${name} tells no other site where one was`, headers.get("referrer-policy") === "no-referrer");
      check(
        `${name} names no product`,
        headers.get("server") === null && headers.get("x-powered-by") === null,
      );
      check(`${name} shows no stack`, !/\bat .*\.[tj]s:\d+|__bun/i.test(text), text.slice(0, 200));
      if (headers.get("content-type")?.startsWith("text/html")) {
        const policy = headers.get("content-security-policy") ?? "";
        check(`${name} lets its page load nothing`, policy.includes("default-src 'none'"), policy);
        check(`${name} is in nobody's frame`, policy.includes("frame-ancestors 'none'"), policy);
      }
    }
    const changed = difference(before, rowsByProject(data, []).get("")!);
    check("nothing was changed without a key", changed.length === 0, changed.join("\n").slice(0, 500));

    for (const path of ["/api/agents", "/webhooks/agents/x", "/"]) {
      const preflight = await ask(path, {
        method: "OPTIONS",
        headers: { origin: "https://evil.example", "access-control-request-method": "POST" },
      });
      const given = [...preflight.headers.keys()].filter((name) => name.startsWith("access-control-"));
      check(`a preflight of ${path} is given nothing`, given.length === 0, given);
    }
    const raw = async (head: string) =>
      (await sendRaw("127.0.0.1", port, Buffer.from(`${head}\r\n\r\n`), 1_000)).status;
    for (const host of ["", "x", "a b", "a/b", "a,b", "a@b.example", "exa\u0000mple", "é.example"])
      check(
        `Host ${JSON.stringify(host)} is refused`,
        (await raw(`GET /metrics HTTP/1.1\r\nHost: ${host}`)) === 400,
      );
    const two = `GET /metrics HTTP/1.1\r\nHost: a.example\r\nHost: b.example`;
    check("two Hosts are refused", (await raw(two)) === 400);
    check("no Host is refused", (await raw("GET /metrics HTTP/1.1")) === 400);
    for (const target of ["/..%2fapi/me", "//api/me", "/api/%2e%2e/api/me", "/api\\me", "/api/me%00"]) {
      const status = await raw(`GET ${target} HTTP/1.1\r\nHost: localhost:${port}`);
      check(`the target ${target} is refused`, [400, 401, 404].includes(status ?? 0), status);
    }
    for (const method of ["TRACE", "CONNECT", "PURGE", "PROPFIND"]) {
      const status = await raw(`${method} /api/me HTTP/1.1\r\nHost: localhost:${port}`);
      check(`${method} is refused`, status === undefined || status >= 400, status);
    }

    const second = await run(["serve", "--data", data, "--port", String(await freePort())], cwd);
    check("a second server on the folder is refused", second.code === 3, second.code);
    child.kill("SIGTERM");
    check("ends when asked", (await child.exited) === 0, child.exitCode);
    const said = (await output).join("\n");
    check("prints no key where nobody reads", !/erk_\w{12}_\w{20}/.test(said));
    check(
      "did not take its options from the working folder",
      !said.includes("0.0.0.0") && !said.includes("evil"),
      said.slice(0, 500),
    );
    const shown = await run(["config", "show", "--json", "--data", data], cwd);
    check(
      "config shows nothing from there either",
      shown.code === 0 && !/evil|0\.0\.0\.0/.test(shown.stdout),
      shown.stdout,
    );
    return report;
  } finally {
    child.kill("SIGKILL");
    await child.exited;
    discard(folder);
  }
}

const TRAPS = 8;

/** Files that Bun, Node, npm, TypeScript or a careless program would take orders from; answers what they would leave. */
function setTraps(cwd: string, port: number): string[] {
  const trace = join(cwd, "..", "pwned");
  const pwn = `require("node:fs").writeFileSync(${JSON.stringify(trace)}, "x")`;
  mkdirSync(cwd);
  const env = [
    "ERRAND_HOST=0.0.0.0",
    `ERRAND_PORT=${port + 1}`,
    "ERRAND_DATA=evil-data",
    "ERRAND_PUBLIC_URL=http://evil.example",
    "OPENAI_BASE_URL=http://evil.example",
    "NODE_TLS_REJECT_UNAUTHORIZED=0",
    "BUN_CONFIG_PRELOAD=./evil.js",
  ].join("\n");
  writeFileSync(join(cwd, ".env"), env);
  writeFileSync(join(cwd, ".env.production"), env);
  writeFileSync(join(cwd, "bunfig.toml"), 'preload = ["./evil.js"]\n[run]\nsilent = true\n');
  writeFileSync(join(cwd, "evil.js"), pwn);
  writeFileSync(
    join(cwd, "package.json"),
    '{"name":"evil","type":"module","imports":{"#x":"./evil.js"},"bun":{"preload":"./evil.js"}}',
  );
  writeFileSync(
    join(cwd, "tsconfig.json"),
    '{"compilerOptions":{"paths":{"*":["./evil.js"]},"jsxImportSource":"./evil.js"}}',
  );
  writeFileSync(join(cwd, "errand.toml"), 'host = "0.0.0.0"\npublic_url = "http://evil.example"\n');
  for (const name of ["elysia", "drizzle-orm", "typebox", "commander"]) {
    const folder = join(cwd, "node_modules", name);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "package.json"), `{"name":"${name}","main":"index.js"}`);
    writeFileSync(join(folder, "index.js"), pwn);
  }
  return [trace, join(cwd, "evil-data")];
}

async function run(args: string[], cwd: string): Promise<{ code: number; stdout: string }> {
  const child = Bun.spawn([BINARY, ...args], {
    cwd,
    env: { PATH: process.env["PATH"] ?? "", HOME: cwd },
    stdout: "pipe",
    stderr: "pipe",
  });
  const stdout = await new Response(child.stdout).text();
  return { code: await child.exited, stdout };
}

/** Where a process listens, out of the kernel's own tables. */
function listensOf(pid: number): string[] {
  const inodes = new Set(
    readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      try {
        return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1] ?? [];
      } catch {
        return [];
      }
    }),
  );
  return ["tcp", "tcp6"].flatMap((table) =>
    readFileSync(`/proc/${pid}/net/${table}`, "utf8")
      .split("\n")
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter((columns) => columns[3] === "0A" && inodes.has(columns[9]!))
      .map((columns) => {
        const [address, port] = columns[1]!.split(":") as [string, string];
        const bytes =
          address.length === 8
            ? address
                .match(/../g)!
                .toReversed()
                .map((hex) => Number.parseInt(hex, 16))
            : undefined;
        return `${bytes?.join(".") ?? `[${address}]`}:${Number.parseInt(port, 16)}`;
      }),
  );
}

function modesOf(folder: string): { path: string; mode: number }[] {
  const inside = readdirSync(folder, { recursive: true, withFileTypes: true }).map((entry) =>
    join(entry.parentPath, entry.name),
  );
  return [folder, ...inside].map((path) => ({
    path: path.slice(folder.length) || "the folder",
    mode: statSync(path).mode & 0o777,
  }));
}

export const isClean = ({ faults }: Report): boolean => faults.length === 0;

if (import.meta.main) {
  await script({
    name: "defaults",
    about:
      "Starts the program without any option in a fresh folder, amid files that others would obey, and looks at what is open.",
    missing: () => (process.platform === "linux" ? undefined : "reads sockets from /proc"),
    run: () => lookAtDefaults(),
    isClean,
  });
}
