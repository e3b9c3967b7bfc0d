import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { discardAfterEach, scratchFolder } from "../helpers/folder.ts";

// Each starts the program from source, which takes its time on a busy machine.
setDefaultTimeout(30_000);

const MAIN = join(import.meta.dir, "../../src/main.ts");
const children: { kill(signal?: NodeJS.Signals): void }[] = [];

afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
});
discardAfterEach();

/** The program from source, in a process of its own and an environment without anything of ours. */
function start(args: string[], env: Record<string, string> = {}) {
  const child = Bun.spawn([process.execPath, MAIN, ...args], {
    cwd: scratchFolder(),
    env: { PATH: process.env["PATH"] ?? "", HOME: scratchFolder(), ...env },
    stdout: "pipe",
    stderr: "pipe",
  });
  children.push(child);
  let stderr = "";
  const waiting = new Set<() => void>();
  const read = (async () => {
    const decoder = new TextDecoder();
    for await (const chunk of child.stderr) {
      stderr += decoder.decode(chunk);
      for (const look of waiting) look();
    }
  })();
  const stdout = new Response(child.stdout).text();

  /** Resolves with the match as soon as it is printed. */
  const says = (pattern: RegExp) =>
    new Promise<RegExpExecArray>((resolve, reject) => {
      const look = () => {
        const match = pattern.exec(stderr);
        if (!match) return;
        waiting.delete(look);
        resolve(match);
      };
      waiting.add(look);
      look();
      void read.then(() => reject(new Error(`never said ${pattern}:\n${stderr}`)));
    });
  const ended = async () => {
    const code = await child.exited;
    await read;
    return { code, stdout: await stdout, stderr };
  };
  return { says, ended, signal: (name: NodeJS.Signals) => child.kill(name) };
}

const serve = (data: string, ...args: string[]) => start(["serve", "--data", data, "--port", "0", ...args]);
const urlOf = async (server: ReturnType<typeof start>) => (await server.says(/URL +(\S+)/))[1]!;

test("the first start prints a line that streams a reply, and a signal ends it in order", async () => {
  const server = serve(scratchFolder(), "--first-key", "always");
  const url = await urlOf(server);
  const [, address, key, body] = await server.says(
    /^curl -N (\S+) -H 'Authorization: (Bearer \S+)' .* -d '(.*)'$/m,
  );
  const reply = await fetch(address!, {
    method: "POST",
    headers: { authorization: key!, "content-type": "application/json" },
    body: body!,
  });
  const stream = await reply.text();
  const spoken = stream
    .split("\n")
    .flatMap((line) => (line.startsWith("0:") ? [JSON.parse(line.slice(2))] : []));
  expect(spoken.join("")).toContain("What can you do?");
  expect(stream.trimEnd().split("\n").at(-1)).toStartWith("d:");
  expect(address).toStartWith(`${url}/api/agents/`);

  server.signal("SIGHUP");
  expect((await fetch(`${url}/health`)).status).toBe(200);
  server.signal("SIGTERM");
  const { code, stdout, stderr } = await server.ended();
  expect([code, stdout]).toEqual([0, ""]);
  expect(stderr).toContain("stopping: ");
  expect(stderr).toContain("stopped after ");
});

test("without a terminal no key is made, and none is printed", async () => {
  const server = serve(scratchFolder());
  await server.says(/none yet; make one: errand keys create --data \S/);
  server.signal("SIGTERM");
  expect((await server.ended()).stderr).not.toContain("erk_");
});

test("a second signal ends it at once", async () => {
  const server = serve(scratchFolder());
  const { hostname, port } = new URL(await urlOf(server));
  // Until there are routes a request waits for them, and is refused where the program is told to end meanwhile.
  await fetch(`http://${hostname}:${port}/api/me`);
  // A request whose body never comes: the drain waits for it.
  const socket = await new Promise<Socket>((resolve) => {
    const open = connect(Number(port), hostname, () => resolve(open));
    open.on("error", () => {});
  });
  socket.write(
    "POST /webhooks/agents/7 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n",
  );
  await fetch(`http://${hostname}:${port}/health`);
  server.signal("SIGTERM");
  await server.says(/stopping: /);
  const pressing = setInterval(() => server.signal("SIGTERM"), 20);
  const { code, stderr } = await server.ended();
  clearInterval(pressing);
  socket.destroy();
  expect(code).toBe(130);
  expect(stderr).toContain("quitting at once");
});

test("a taken port and a taken folder are told before anything is made: exit code 3", async () => {
  const data = scratchFolder();
  const first = serve(data);
  const { port } = new URL(await urlOf(first));
  const second = await start(["serve", "--data", join(data, "other"), "--port", port]).ended();
  expect(second).toMatchObject({ code: 3, stdout: "" });
  expect(second.stderr).toMatch(
    /^error: cannot listen on 127.0.0.1:\d+: the port is in use\nhint: .*--port 0\n$/,
  );
  expect(await Bun.file(join(data, "other", "errand.db")).exists()).toBe(false);
  const third = await serve(data).ended();
  expect(third.code).toBe(3);
  expect(third.stderr).toContain(`error: ${data} is in use by errand with process id`);
});

test("development shows a key, limits requests and can be asked for its health", async () => {
  const data = scratchFolder();
  const server = start(["dev", "--data", data, "--port", "0"]);
  const url = await urlOf(server);
  await server.says(/Mode +development/);
  await server.says(/Key +erk_/);
  const { headers } = await fetch(`${url}/api/me`);
  expect(headers.get("ratelimit-policy")).toContain("q=100");
  expect((await start(["healthcheck", "--data", data, "--port", "0"]).ended()).code).toBe(0);
});

test("the demo runs the whole loop and leaves nothing behind", async () => {
  const { code, stdout } = await start(["demo"], { TMPDIR: scratchFolder() }).ended();
  expect(code).toBe(0);
  expect(stdout).toContain("both signatures verified");
  const [, folder] = /data in (\S+)/.exec(stdout)!;
  expect(await Bun.file(join(folder!, "errand.db")).exists()).toBe(false);
});

test("a mode that is not private is not given to any file it makes", async () => {
  const data = join(scratchFolder(), "new");
  const server = serve(data);
  await urlOf(server);
  const { stdout } = Bun.spawnSync(["find", data, "-perm", "/077"]);
  expect(stdout.toString()).toBe("");
});

test("a caller who knows the server by another name is noticed once, in the log and by doctor", async () => {
  const data = scratchFolder();
  const server = serve(data, "--first-key", "always", "--log-format", "json");
  const [, key] = await server.says(/first key, shown only now: (\S+)/);
  const [, url] = await server.says(/"message":"ready","url":"([^"]+)"/);
  for (const host of ["errand.example", "errand.example", "other.example"]) {
    const { status } = await fetch(`${url}/api/me`, { headers: { host, authorization: `Bearer ${key}` } });
    expect(status).toBe(200);
  }
  const doctor = await start(["doctor", "--data", data]).ended();
  expect(doctor.stdout).toContain(`requests come for errand.example, and webhook addresses say ${url}`);
  server.signal("SIGTERM");
  const { stderr } = await server.ended();
  expect(stderr.match(/requests come for another host/g)).toHaveLength(1);
});
