import { afterEach, describe, expect, test } from "bun:test";
import net, { type AddressInfo, type Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { createEgress, EgressError, type EgressRequest } from "../../src/egress/egress.ts";

const open: { close(): void }[] = [];
afterEach(() => {
  for (const each of open.splice(0)) each.close();
});

/** A proxy that writes down what it is asked for; `answer` replies on the socket itself. */
async function proxyServer(answer: (head: string, socket: Socket) => void) {
  const heads: string[] = [];
  const sockets = new Set<Socket>();
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    let tunnelled = false;
    socket.on("data", (chunk) => {
      const head = chunk.toString("latin1");
      if (tunnelled)
        heads.push(`through the tunnel: ${chunk.length > 0}, ${head.includes("public.example")}`);
      else {
        heads.push(head);
        tunnelled = head.startsWith("CONNECT");
        answer(head, socket);
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  open.push({
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, heads };
}

const ok = (_: string, socket: Socket) => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");

function by(proxy: string, more: Parameters<typeof createEgress>[0] = {}) {
  const egress = createEgress({
    proxy,
    resolve: async () => [{ address: "93.184.216.34", family: 4 }],
    ...more,
  });
  open.push(egress);
  return (url: string, request: Partial<EgressRequest> = {}) =>
    egress
      .request({ method: "POST", url, body: "hello", timeoutMs: 2_000, maxBytes: 1_000, ...request })
      .then(
        ({ status, body }) => `${status} ${new TextDecoder().decode(body)}`,
        (error) => {
          if (error instanceof EgressError) return error.class;
          throw error;
        },
      );
}

describe("an egress proxy", () => {
  test("is asked for http targets by their whole address, with its own credentials", async () => {
    const { url, heads } = await proxyServer(ok);
    const send = by(url.replace("//", "//me:p%40ss@"));
    expect(await send("http://public.example/a?b=c", { headers: { "X-Mine": "1" } })).toBe("200 hi");
    expect(await send("http://public.example:8080/")).toBe("200 hi");
    const credentials = Buffer.from("me:p@ss").toString("base64");
    expect(heads[0]).toStartWith("POST http://public.example/a?b=c HTTP/1.1\r\nhost: public.example\r\n");
    expect(heads[0]).toContain("X-Mine: 1\r\n");
    expect(heads[0]).toContain(`\r\nProxy-Authorization: Basic ${credentials}\r\n`);
    expect(heads[1]).toStartWith("POST http://public.example:8080/ HTTP/1.1\r\n");
  });

  test("leads to https targets by a tunnel, in which it sees TLS alone", async () => {
    const { url, heads } = await proxyServer((_, socket) =>
      socket.write("HTTP/1.1 200 Connection established\r\n\r\n"),
    );
    const send = by(url);
    const sending = send("https://public.example/secret-path", {
      headers: { "X-Secret": "s" },
      timeoutMs: 300,
    });
    expect(await sending).toBe("timeout");
    expect(heads[0]).toBe("CONNECT public.example:443 HTTP/1.1\r\nHost: public.example:443\r\n\r\n");
    expect(heads[1]).toBe("through the tunnel: true, true"); // the name in the TLS greeting
    expect(heads.join("")).not.toMatch(/secret-path|X-Secret/);
  });

  test("carries nothing to local targets and to those that are allowed by name", async () => {
    const { url, heads } = await proxyServer(ok);
    const target = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("direct") });
    open.push({ close: () => void target.stop(true) });
    const send = by(url, {
      allow: ["loopback", `partner.example:${target.port}`],
      resolve: async () => [{ address: "127.0.0.1", family: 4 }],
    });
    for (const host of ["127.0.0.1", "localhost", "partner.example"])
      expect(await send(`http://${host}:${target.port}/`)).toBe("200 direct");
    expect(heads).toEqual([]);
  });

  test("gets names to resolve where this machine cannot, but none that lead here to a private address", async () => {
    const { url, heads } = await proxyServer(ok);
    const blind = by(url, { resolve: () => Promise.reject(new Error("ENOTFOUND")) });
    expect(await blind("http://public.example/")).toBe("200 hi");
    const private_ = by(url, { resolve: async () => [{ address: "10.0.0.1", family: 4 }] });
    expect(await private_("http://inside.example/")).toBe("blocked");
    expect(heads).toHaveLength(1);
  });

  const refusals: [string, string][] = [
    ["a refusal", "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"],
    ["another protocol", "SSH-2.0-OpenSSH\r\n\r\n"],
    ["words of its own in the tunnel", "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"],
    ["a head without end", `HTTP/1.1 200 OK\r\nX: ${"x".repeat(20_000)}`],
  ];
  test.each(refusals)("that answers a tunnel with %s is a fault of the proxy", async (_, answer) => {
    const { url } = await proxyServer((_, socket) => socket.write(answer));
    expect(await by(url)("https://public.example/")).toBe("proxy_error");
  });

  test("that hangs up, or is not there, is one as well", async () => {
    const { url } = await proxyServer((_, socket) => socket.destroy());
    expect(await by(url)("https://public.example/")).toBe("proxy_error");
    expect(await by("http://127.0.0.1:1")("http://public.example/")).toBe("proxy_error");
  });

  test("that says nothing costs no more than the request's own time", async () => {
    const { url } = await proxyServer(() => {});
    expect(await by(url)("https://public.example/", { timeoutMs: 50 })).toBe("timeout");
  });
});

test("deliveries come from the first of the configured addresses that this machine has", async () => {
  const own = Object.values(networkInterfaces())
    .flatMap((list) => list ?? [])
    .find(({ family, internal }) => family === "IPv4" && !internal)?.address;
  if (own === undefined) return; // a machine with nothing but loopback
  let from: string | undefined;
  const target = net.createServer((socket) => {
    from = socket.remoteAddress;
    socket.end("HTTP/1.1 204 No Content\r\n\r\n");
  });
  await new Promise<void>((resolve) => target.listen(0, "127.0.0.1", resolve));
  open.push({ close: () => void target.close() });
  const egress = createEgress({ allow: ["loopback"], egress_ips: ["192.0.2.1", own] });
  const { port } = target.address() as AddressInfo;
  await egress.request({ method: "GET", url: `http://127.0.0.1:${port}/`, timeoutMs: 2_000, maxBytes: 10 });
  expect(from).toBe(own);
});
