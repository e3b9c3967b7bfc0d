import { afterAll, describe, expect, test } from "bun:test";
import net, { type AddressInfo } from "node:net";
import { createEgress, EgressError } from "../../src/egress/egress.ts";
import { corpus, REBINDING_NAMES, resolved } from "./corpus.ts";

/** Listens on loopback and counts what nobody should send. */
async function canary(host: string, onPort = 0) {
  let connections = 0;
  const server = net.createServer((socket) => {
    connections++;
    socket.on("error", () => {});
    socket.on("data", () => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(onPort, host, resolve);
  });
  afterAll(() => server.close());
  return { port: (server.address() as AddressInfo).port, connections: () => connections };
}

const v4 = await canary("127.0.0.1");
// The same port, so that one corpus asks for both; some machines have no IPv6 loopback.
const v6 = await canary("::1", v4.port).catch(() => undefined);
const proxy = await canary("127.0.0.1");
const silent = () => [v4.connections(), v6?.connections() ?? 0, proxy.connections()];

const urls = corpus(v4.port);
const REFUSED = ["blocked", "bad_url"];

const outcome = (egress: ReturnType<typeof createEgress>, url: string, redirects = 0) =>
  egress.request({ method: "POST", url, body: "secret", timeoutMs: 2_000, maxBytes: 100, redirects }).then(
    ({ status }) => `answered ${status}`,
    (error) => (error instanceof EgressError ? error.class : String(error)),
  );

/** Whatever is asked for, the resolver means harm. */
const toLoopback = async () => [{ address: "127.0.0.1", family: 4 }];

describe(`${urls.length} ways to ask for what is not public`, () => {
  test("are two thousand at least, each another", () => {
    expect(urls.length).toBeGreaterThanOrEqual(2_000);
    expect(new Set(urls).size).toBe(urls.length);
  });

  test("are refused when they are to be connected to, and no canary hears a byte", async () => {
    const egress = createEgress({ resolve: toLoopback });
    const passed = [];
    for (const url of urls) {
      const result = await outcome(egress, url);
      if (!REFUSED.includes(result)) passed.push([url, result]);
    }
    expect(passed).toEqual([]);
    expect(silent()).toEqual([0, 0, 0]);
  });

  test("are refused when they are stored, but for names that only a resolver can judge", async () => {
    const egress = createEgress();
    const stored = urls.filter((url) => egress.check(url) === undefined);
    // What is left has a host that is none of the addresses: "www.example.com" or a name with odd characters.
    for (const url of stored)
      expect([url, net.isIP(new URL(url).hostname.replace(/[[\]]/g, ""))]).toEqual([url, 0]);
    expect(stored.length).toBeLessThan(urls.length / 10);
  });

  test("are refused as well when the operator allows another port of this machine", async () => {
    const egress = createEgress({ allow: ["127.0.0.1:1", "localhost:1", "[::1]:1"], resolve: toLoopback });
    for (const url of urls) expect([url, REFUSED.includes(await outcome(egress, url))]).toEqual([url, true]);
    expect(silent()).toEqual([0, 0, 0]);
  });

  test("never reach the egress proxy either", async () => {
    const egress = createEgress({ proxy: `http://127.0.0.1:${proxy.port}`, resolve: toLoopback });
    for (const url of urls) expect([url, REFUSED.includes(await outcome(egress, url))]).toEqual([url, true]);
    expect(silent()).toEqual([0, 0, 0]);
  });

  test("are refused behind a redirect of a target that is allowed", async () => {
    let location = "";
    const redirecting = net.createServer((socket) => {
      socket.on("error", () => {});
      socket.on("data", () =>
        socket.write(`HTTP/1.1 307 Moved\r\nLocation: ${location}\r\nContent-Length: 0\r\n\r\n`),
      );
    });
    await new Promise<void>((resolve) => redirecting.listen(0, "127.0.0.1", resolve));
    const { port } = redirecting.address() as AddressInfo;
    const egress = createEgress({ allow: [`127.0.0.1:${port}`], resolve: toLoopback });
    // A line break cannot stand in a header, and a relative form would lead back to the redirecting server.
    const absolute = urls.filter((url) => /^https?:\/\//i.test(url) && /^[\x20-\x7e]*$/.test(url));
    for (const url of absolute.filter((_, index) => index % 5 === 0)) {
      location = url.trim();
      const result = await outcome(egress, `http://127.0.0.1:${port}/`, 3);
      expect([url, REFUSED.includes(result) || result]).toEqual([url, true]);
    }
    redirecting.close();
    expect(silent()).toEqual([0, 0, 0]);
  });
});

describe("a public name", () => {
  test("that leads to any such address is refused, alone and among public ones", async () => {
    const addresses = resolved();
    expect(addresses.length).toBeGreaterThan(50);
    const open = { address: "93.184.216.34", family: 4 };
    for (const [index, address] of addresses.entries()) {
      const name = REBINDING_NAMES[index % REBINDING_NAMES.length]!;
      for (const answers of [[address], [open, address], [address, open]]) {
        const egress = createEgress({ resolve: async () => answers });
        expect([address, await outcome(egress, `http://${name}:${v4.port}/`)]).toEqual([address, "blocked"]);
      }
    }
    expect(silent()).toEqual([0, 0, 0]);
  });

  test("is resolved once for a connection: a second answer has no part in it", async () => {
    let asked = 0;
    const egress = createEgress({
      allow: [`receiver.example:${v4.port}`],
      resolve: async () => {
        asked++;
        return [{ address: "127.0.0.1", family: 4 }];
      },
    });
    const before = v4.connections();
    expect(await outcome(egress, `http://receiver.example:${v4.port}/`)).toBe("answered 200");
    expect([asked, v4.connections() - before]).toEqual([1, 1]);
  });
});

test("the canaries hear what is allowed: silence above means something", async () => {
  const before = v4.connections();
  const egress = createEgress({ allow: ["loopback"] });
  expect(await outcome(egress, `http://127.0.0.1:${v4.port}/`)).toBe("answered 200");
  expect(v4.connections()).toBe(before + 1);
  if (v6) {
    expect(await outcome(egress, `http://[::1]:${v4.port}/`)).toBe("answered 200");
    expect(v6.connections()).toBe(1);
  }
});

test("no range is broad enough to allow the metadata of a cloud", async () => {
  const egress = createEgress({
    allow: [
      "0.0.0.0/0",
      "::/0",
      "loopback",
      "169.254.169.254",
      "metadata.google.internal",
      "internal.example",
    ],
    resolve: async () => [{ address: "169.254.169.254", family: 4 }],
  });
  const hosts = ["169.254.169.254", "[fd00:ec2::254]", "[::ffff:a9fe:a9fe]", "0xa9fea9fe", "100.100.100.200"];
  for (const host of [...hosts, "metadata.google.internal", "internal.example"])
    expect([host, await outcome(egress, `http://${host}/latest/meta-data/`)]).toEqual([host, "blocked"]);
});
