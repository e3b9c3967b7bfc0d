import { afterEach, describe, expect, test } from "bun:test";
import net, { type AddressInfo, type Socket } from "node:net";
import { gzipSync } from "node:zlib";
import { createEgress, type Egress, EgressError, type EgressRequest } from "../../src/egress/egress.ts";
import { BEAT_MS, Beat } from "../../src/lib/beat.ts";
import { settled, TestClock } from "../helpers/clock.ts";

const open: { close(): void }[] = [];
afterEach(() => {
  for (const each of open.splice(0)) each.close();
});

function egress(options: Parameters<typeof createEgress>[0] = { allow: ["loopback"] }): Egress {
  const made = createEgress(options);
  open.push(made);
  return made;
}

/** A receiver on loopback that answers by code; `seen` holds what reached it. */
function receiver(answer: (request: Request) => Response | Promise<Response>) {
  const seen: { method: string; path: string; headers: Headers; body: string }[] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      const { pathname, search } = new URL(request.url);
      const body = await request.text();
      seen.push({ method: request.method, path: pathname + search, headers: request.headers, body });
      return answer(request);
    },
  });
  open.push({ close: () => void server.stop(true) });
  return { url: `http://127.0.0.1:${server.port}`, port: server.port, seen };
}

/** A receiver below HTTP: `talk` is called with every connection. */
async function rawReceiver(talk: (socket: Socket, connection: number) => void) {
  const sockets = new Set<Socket>();
  let connections = 0;
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    talk(socket, ++connections);
  });
  server.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.on("listening", resolve));
  open.push({
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, port, connections: () => connections };
}

const post = (url: string, more: Partial<EgressRequest> = {}): EgressRequest => ({
  method: "POST",
  url,
  body: "hello",
  timeoutMs: 2_000,
  maxBytes: 1_000,
  ...more,
});

async function failure(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof EgressError) return error.class;
    throw error;
  }
  return "no failure";
}

/** A connection is back in its pool a turn or two after its answer. */
async function pooled(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
}

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

describe("a request", () => {
  test("carries method, path, headers and body, and brings status, headers and body back", async () => {
    const { url, seen } = receiver(
      () => new Response("fine", { status: 201, headers: { "x-answer": "yes" } }),
    );
    const answer = await egress().request(post(`${url}/a/b?c=d`, { headers: { "X-Mine": "1" } }));
    expect(answer).toMatchObject({ status: 201, truncated: false, headers: { "x-answer": "yes" } });
    expect(text(answer.body)).toBe("fine");
    expect(answer.durationMs).toBeGreaterThan(0);
    expect(seen[0]).toMatchObject({ method: "POST", path: "/a/b?c=d", body: "hello" });
    expect(seen[0]?.headers.get("x-mine")).toBe("1");
  });

  test("frames itself: given framing headers are dropped", async () => {
    const { url, seen } = receiver(() => new Response());
    const headers = {
      Host: "other",
      "Content-Length": "1",
      "Transfer-Encoding": "chunked",
      Connection: "close",
    };
    await egress().request(post(url, { headers }));
    expect(seen[0]?.body).toBe("hello");
    expect(seen[0]?.headers.get("host")).toBe(new URL(url).host);
  });

  test("refuses line breaks in header values", async () => {
    const { url, seen } = receiver(() => new Response());
    expect(await failure(egress().request(post(url, { headers: { "x-a": "b\r\nx-c: d" } })))).toBe("other");
    expect(seen).toEqual([]);
  });

  test("asks no proxy that the environment names", async () => {
    const { url, seen } = receiver(() => new Response("direct"));
    process.env["HTTP_PROXY"] = "http://127.0.0.1:1";
    try {
      expect(text((await egress().request(post(url))).body)).toBe("direct");
    } finally {
      delete process.env["HTTP_PROXY"];
    }
    expect(seen).toHaveLength(1);
  });

  test("reuses its connection", async () => {
    const { url, connections } = await rawReceiver((socket) =>
      socket.on("data", () => socket.write("HTTP/1.1 204 No Content\r\n\r\n")),
    );
    const out = egress();
    for (let n = 0; n < 3; n++) await out.request(post(url)).then(pooled);
    expect(connections()).toBe(1);
  });

  test("sends text of any length and any letters whole, however many go out at once", async () => {
    const { url, seen } = receiver(() => new Response("ok"));
    const door = egress();
    const bodies = Array.from({ length: 100 }, (_, n) => `${n} grüße 🙂 `.repeat(n * 40));
    await Promise.all(
      bodies.map((body, n) => door.request(post(`${url}/${n}`, { body, timeoutMs: 10_000 }))),
    );
    expect(seen.map(({ body }) => body).sort()).toEqual(bodies.toSorted());
    await door.request(post(url, { body: "ä", headers: { "x-latin": "caf\u00e9" } }));
    expect([seen.at(-1)!.body, seen.at(-1)!.headers.get("x-latin")]).toEqual(["ä", "caf\u00e9"]);
  });

  test("takes no answer that came before its request was sent", async () => {
    const early = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
    const { url, connections } = await rawReceiver((socket, connection) => {
      socket.on("data", () => {
        socket.write(`${early}right`);
        if (connection === 1) setImmediate(() => socket.write(`${early}wrong`));
      });
    });
    const door = egress();
    for (let n = 0; n < 3; n++) {
      const { body } = await door.request(post(url, { headers: { "webhook-id": "w" } }));
      expect(new TextDecoder().decode(body)).toBe("right");
    }
    expect(connections()).toBeLessThanOrEqual(2);
  });

  test("400 hanging receivers do not hold up a healthy one", async () => {
    const hanging = await rawReceiver(() => {});
    const healthy = receiver(() => new Response("ok"));
    const out = egress();
    const stuck = new AbortController();
    const all = Array.from({ length: 400 }, () =>
      failure(out.request(post(hanging.url, { signal: stuck.signal }))),
    );
    expect((await out.request(post(healthy.url))).status).toBe(200);
    stuck.abort();
    expect(new Set(await Promise.all(all))).toEqual(new Set(["aborted"]));
  });
});

describe("the guard", () => {
  test("a private target is refused and its canary sees no byte", async () => {
    let bytes = 0;
    const canary = await rawReceiver((socket) => socket.on("data", (data) => (bytes += data.length)));
    const out = egress({ resolve: async () => [{ address: "127.0.0.1", family: 4 }] });
    const hosts = [
      "127.0.0.1",
      "127.1",
      "2130706433",
      "0x7f.1",
      "[::ffff:127.0.0.1]",
      "0",
      "localhost",
      "rebind.example",
    ];
    for (const host of hosts) {
      expect(await failure(out.request(post(`http://${host}:${canary.port}/`)))).toBe("blocked");
      expect(await failure(out.stream(post(`http://${host}:${canary.port}/`)))).toBe("blocked");
    }
    expect([bytes, canary.connections()]).toEqual([0, 0]);
  });

  test("one private address among a name's public ones is enough to refuse it", async () => {
    const found = ["1.1.1.1", "10.0.0.1"].map((address) => ({ address, family: 4 }));
    const out = egress({ resolve: async () => found });
    expect(await failure(out.request(post("http://mixed.example/")))).toBe("blocked");
  });

  test("a connection that a trusted request opened serves no other", async () => {
    const { url, port, seen } = receiver(() => new Response("ok"));
    const out = egress({ resolve: async () => [{ address: "127.0.0.1", family: 4 }] });
    const named = `http://model.example:${port}/`;
    expect((await out.request(post(named, { trusted: true }))).status).toBe(200);
    expect((await out.request(post(url, { trusted: true }))).status).toBe(200);
    expect(await failure(out.request(post(named)))).toBe("blocked");
    expect(await failure(out.request(post(url)))).toBe("blocked");
    expect(seen).toHaveLength(2);
  });

  test("a name is resolved once per connection and the connection goes to that address", async () => {
    const { port, seen } = receiver(() => new Response("ok"));
    let asked = 0;
    const resolve = async () => {
      asked++;
      return [{ address: "127.0.0.1", family: 4 }];
    };
    const out = egress({ allow: ["receiver.example"], resolve });
    await out.request(post(`http://receiver.example:${port}/`)).then(pooled);
    await out.request(post(`http://receiver.example:${port}/`));
    expect(asked).toBe(1);
    expect(seen[0]?.headers.get("host")).toBe(`receiver.example:${port}`);
  });

  test("a stored URL is checked by its text", () => {
    expect(egress({}).check("https://example.com/hook")).toBeUndefined();
    expect(egress({}).check("http://10.0.0.1/")).toMatchObject({ field: "url" });
    expect(egress({}).check("nonsense")).toMatchObject({ field: "url", received: "not a URL" });
  });
});

describe("redirects", () => {
  const to = (location: string, status = 302) => new Response(null, { status, headers: { location } });

  test("are answers unless they are asked for", async () => {
    const { url, seen } = receiver(() => to("/next", 307));
    const answer = await egress().request(post(url));
    expect([answer.status, answer.headers["location"]]).toEqual([307, "/next"]);
    expect(seen).toHaveLength(1);
  });

  test("307 repeats method and body, 303 asks with GET", async () => {
    for (const [status, expected] of [
      [307, ["POST", "hello"]],
      [303, ["GET", ""]],
    ] as const) {
      const { url, seen } = receiver((request) =>
        request.url.endsWith("/end") ? new Response("end") : to("/end", status),
      );
      expect((await egress().request(post(url, { redirects: 1 }))).status).toBe(200);
      expect([seen[1]?.method, seen[1]?.body]).toEqual(expected as unknown as [string, string]);
    }
  });

  test("past the limit the redirect itself is the answer", async () => {
    const { url, seen } = receiver(() => to("/again"));
    expect((await egress().request(post(url, { redirects: 3 }))).status).toBe(302);
    expect(seen).toHaveLength(4);
  });

  test("headers that many requests have alike go out with each, are no way around a check, and follow no further", async () => {
    const other = receiver(() => new Response("other"));
    const { url, seen } = receiver((request) =>
      request.url.endsWith("/away") ? to(`${other.url}/x`, 307) : new Response("ok"),
    );
    const out = egress();
    const alike = { "X-Api-Key": "k", "User-Agent": "me", "Content-Length": "999", "Transfer-Encoding": "x" };
    for (const headers of [{ "X-Own": "1" }, { "X-Own": "2" }])
      await out.request(post(url, { headers, alike }));
    expect(seen.map(({ headers, body }) => [headers.get("x-own"), headers.get("x-api-key"), body])).toEqual([
      ["1", "k", "hello"],
      ["2", "k", "hello"],
    ]);
    await out.request(post(`${url}/away`, { alike, redirects: 1 }));
    const followed = other.seen[0]!;
    expect([followed.headers.get("x-api-key"), followed.headers.get("user-agent")]).toEqual([null, "me"]);
    const split = { "X-Api-Key": "k\r\nX-Other: 1" };
    for (let n = 0; n < 2; n++) expect(await failure(out.request(post(url, { alike: split })))).toBe("other");
    const latin = { "X-Name": "\u00fc" };
    await out.request(post(url, { alike: latin, body: "\u20ac" }));
    expect(seen.at(-1)?.body).toBe("\u20ac");
  });

  test("credentials do not follow to another origin", async () => {
    const other = receiver(() => new Response("other"));
    const { url } = receiver(() => to(`${other.url}/x`, 307));
    const headers = {
      Authorization: "Bearer t",
      "X-Api-Key": "k",
      Cookie: "c",
      "X-Service-Signature": "s",
      Accept: "a/b",
    };
    await egress().request(post(url, { redirects: 1, headers }));
    const got = other.seen[0]!.headers;
    for (const name of ["authorization", "x-api-key", "cookie", "x-service-signature"])
      expect(got.get(name)).toBeNull();
    expect(got.get("accept")).toBe("a/b");
  });

  test("every hop is checked, and trust ends at the origin", async () => {
    const inside = receiver(() => new Response("secret"));
    const { port, seen } = receiver((request) =>
      to(request.url.endsWith("/file") ? "file:///etc/passwd" : inside.url),
    );
    const out = egress({ resolve: async () => [{ address: "127.0.0.1", family: 4 }] });
    const url = `http://named.example:${port}`;
    expect(await failure(out.request(post(url, { trusted: true, redirects: 3 })))).toBe("blocked");
    expect(await failure(out.request(post(`${url}/file`, { trusted: true, redirects: 3 })))).toBe("bad_url");
    expect([seen.length, inside.seen.length]).toEqual([2, 0]);
  });
});

describe("limits", () => {
  test("a receiver that never answers runs into the time limit", async () => {
    const { url } = await rawReceiver(() => {});
    expect(await failure(egress().request(post(url, { timeoutMs: 20 })))).toBe("timeout");
  });

  test("an answer that came while the program stood still is an answer, and none that came is none", async () => {
    const other = new Worker(
      URL.createObjectURL(
        new Blob([
          `const server = Bun.serve({ hostname: "127.0.0.1", port: 0, async fetch(request) {
             if (request.url.endsWith("/never")) return new Promise(() => {});
             if (request.url.endsWith("/first")) return new Response("first");
             await Bun.sleep(100);
             return new Response("here");
           }});
           postMessage(server.port);`,
        ]),
      ),
    );
    open.push({ close: () => other.terminate() });
    const said = () => new Promise((resolve) => other.addEventListener("message", resolve, { once: true }));
    const { data: port } = (await said()) as MessageEvent<number>;
    const out = egress();
    const never = failure(out.request(post(`http://127.0.0.1:${port}/never`, { timeoutMs: 200 })));
    const answer = out.request(post(`http://127.0.0.1:${port}/`, { timeoutMs: 200 }));
    // What has been read is worked on when it happens: what is due comes next, and only then is more read.
    await out.request(post(`http://127.0.0.1:${port}/first`));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400);
    expect(text((await answer).body)).toBe("here");
    expect(await never).toBe("timeout");
  });

  test("hundreds that began together end, some each turn", async () => {
    const { url } = await rawReceiver(() => {});
    const out = egress();
    let turns = 0;
    let counting = true;
    const count = () => {
      turns++;
      if (counting) setTimeout(count, 0);
    };
    const ends = Array.from({ length: 300 }, () => failure(out.request(post(url, { timeoutMs: 100 }))));
    await ends[0];
    count();
    expect(new Set(await Promise.all(ends))).toEqual(new Set(["timeout"]));
    counting = false;
    expect(turns).toBeGreaterThan(3);
  });

  test("a body that drips runs into the same limit", async () => {
    const { url } = await rawReceiver((socket) =>
      socket.on("data", () => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx")),
    );
    expect(await failure(egress().request(post(url, { timeoutMs: 20 })))).toBe("timeout");
    const unmeasured = await rawReceiver((socket) =>
      socket.on("data", () => socket.write("HTTP/1.1 200 OK\r\n\r\nx")),
    );
    expect(await failure(egress().request(post(unmeasured.url, { timeoutMs: 20 })))).toBe("timeout");
  });

  test("a resolver that never answers runs into the same limit", async () => {
    const out = egress({ resolve: () => new Promise(() => {}) });
    expect(await failure(out.request(post("http://slow.example/", { timeoutMs: 20 })))).toBe("timeout");
  });

  test("a body is cut at the cap", async () => {
    const { url } = receiver(() => new Response("x".repeat(100_000)));
    const answer = await egress().request(post(url));
    expect([answer.body.length, answer.truncated, answer.status]).toEqual([1_000, true, 200]);
  });

  test("a body of exactly the cap is whole", async () => {
    const { url } = receiver(() => new Response("x".repeat(1_000)));
    expect(await egress().request(post(url))).toMatchObject({ truncated: false });
  });

  test("compression is undone, and the cap counts what comes out of it", async () => {
    const zipped = (body: string) =>
      new Response(gzipSync(body), { headers: { "content-encoding": "gzip" } });
    const { url } = receiver((request) =>
      zipped(request.url.endsWith("/bomb") ? "a".repeat(5_000_000) : "small"),
    );
    expect(text((await egress().request(post(url))).body)).toBe("small");
    expect(await egress().request(post(`${url}/bomb`))).toMatchObject({
      truncated: true,
      body: { length: 1_000 },
    });
  });

  test("a body that does not fit its encoding is an error, an empty one is none", async () => {
    const { url } = receiver(
      (request) =>
        new Response(request.url.endsWith("/empty") ? null : "plain", {
          headers: { "content-encoding": "gzip" },
        }),
    );
    expect(await failure(egress().request(post(url)))).toBe("other");
    expect((await egress().request(post(`${url}/empty`))).body).toHaveLength(0);
  });

  test("an abort ends it, before and during", async () => {
    const { url } = await rawReceiver(() => {});
    const before = AbortSignal.abort();
    expect(await failure(egress().request(post(url, { signal: before })))).toBe("aborted");
    const controller = new AbortController();
    const during = failure(egress().request(post(url, { signal: controller.signal })));
    controller.abort();
    expect(await during).toBe("aborted");
  });
});

describe("failures are told apart", () => {
  test("refused, reset, cut, nonsense, TLS and unknown names", async () => {
    const out = egress();
    const closed = await rawReceiver(() => {});
    open.pop()?.close();
    const reset = await rawReceiver((socket) => socket.once("data", () => socket.resetAndDestroy()));
    const cut = await rawReceiver((socket) =>
      socket.once("data", () => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx")),
    );
    const junk = await rawReceiver((socket) => socket.end("no such protocol\r\n\r\n"));
    const plain = receiver(() => new Response("plain"));
    expect(await failure(out.request(post(closed.url)))).toBe("connection_refused");
    expect(await failure(out.request(post(reset.url)))).toBe("connection_reset");
    expect(await failure(out.request(post(cut.url)))).toBe("connection_reset");
    expect(await failure(out.request(post(junk.url)))).toBe("other");
    expect(await failure(out.request(post(plain.url.replace("http:", "https:"))))).toBe("tls_error");
    const missing = egress({
      resolve: () => Promise.reject(Object.assign(new Error("getaddrinfo ENOTFOUND"), { code: "ENOTFOUND" })),
    });
    expect(await failure(missing.request(post("http://missing.example/")))).toBe("dns_error");
  });
});

describe("an idle connection that the receiver closed", () => {
  const answersOnce = () =>
    rawReceiver((socket, connection) => {
      let requests = 0;
      socket.on("data", () => {
        if (++requests > 1 && connection === 1) socket.destroy();
        else socket.write("HTTP/1.1 204 No Content\r\n\r\n");
      });
    });

  test("costs a request nothing when the receiver can tell copies apart", async () => {
    const { url, connections } = await answersOnce();
    const out = egress();
    const headers = { "webhook-id": "e1" };
    expect((await out.request(post(url, { headers }))).status).toBe(204);
    await pooled();
    expect((await out.request(post(url, { headers }))).status).toBe(204);
    expect(connections()).toBe(2);
  });

  test("fails a POST that carries no such key: it may have been worked", async () => {
    const { url } = await answersOnce();
    const out = egress();
    await out.request(post(url)).then(pooled);
    expect(await failure(out.request(post(url)))).toBe("connection_reset");
  });

  test("is tried again once, on a new connection, and no more", async () => {
    const { url, connections } = await rawReceiver((socket, connection) => {
      let requests = 0;
      socket.on("data", () => {
        if (++requests > 1 || connection > 1) socket.destroy();
        else socket.write("HTTP/1.1 204 No Content\r\n\r\n");
      });
    });
    const out = egress();
    const headers = { "webhook-id": "e1" };
    await out.request(post(url, { headers })).then(pooled);
    expect(await failure(out.request(post(url, { headers })))).toBe("connection_reset");
    expect(connections()).toBe(2);
  });
});

describe("a stream", () => {
  test("hands out chunks as they come", async () => {
    const { url } = receiver(
      () =>
        new Response(
          new ReadableStream({
            start(controller) {
              for (const part of ["a", "b", "c"]) controller.enqueue(part);
              controller.close();
            },
          }),
        ),
    );
    const { status, body } = await egress().stream(post(url));
    let whole = "";
    for await (const chunk of body) whole += text(chunk);
    expect([status, whole]).toEqual([200, "abc"]);
  });

  test("leaving the loop closes the connection", async () => {
    let closed: () => void = () => {};
    const gone = new Promise<void>((resolve) => {
      closed = resolve;
    });
    const { url } = await rawReceiver((socket) => {
      socket.on("close", closed);
      socket.once("data", () => socket.write("HTTP/1.1 200 OK\r\n\r\nendless"));
    });
    for await (const _ of (await egress().stream(post(url))).body) break;
    await gone;
  });

  test("the cap, the time limit and a cut are thrown to the reader", async () => {
    const drip = await rawReceiver((socket) =>
      socket.once("data", () => socket.write("HTTP/1.1 200 OK\r\n\r\nx")),
    );
    const large = receiver(() => new Response("x".repeat(5_000)));
    const cut = await rawReceiver((socket) =>
      socket.once("data", () => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx")),
    );
    const drain = async (url: string, more: Partial<EgressRequest> = {}) => {
      for await (const _ of (await egress().stream(post(url, more))).body);
    };
    expect(await failure(drain(large.url))).toBe("other");
    expect(await failure(drain(drip.url, { timeoutMs: 30 }))).toBe("timeout");
    expect(await failure(drain(cut.url))).toBe("connection_reset");
  });
});

describe("an answer that comes word by word", () => {
  const HEAD = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
  const chunked = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;

  /** Its pieces as they were read, and what makes the process busy with others. */
  async function reading() {
    const clock = new TestClock();
    const beat = new Beat(clock);
    let socket: Socket | undefined;
    const { url } = await rawReceiver((one) => {
      socket = one;
      one.on("data", () => one.write(HEAD));
    });
    const { body } = await egress({ allow: ["loopback"], beat }).stream(post(url, { trickles: true }));
    const pieces: string[] = [];
    let isOver = false;
    void (async () => {
      for await (const bytes of body) pieces.push(Buffer.from(bytes).toString());
      isOver = true;
    })().catch((error) => pieces.push(String(error)));
    const say = async (word: string) => {
      socket!.write(chunked(word));
      await settled();
    };
    const others = async () => {
      await clock.advance(100);
      beat.passed(10_000);
    };
    return { clock, pieces, say, others, end: () => socket!.end("0\r\n\r\n"), isOver: () => isOver };
  }

  test("goes on word by word while little passes", async () => {
    const { pieces, say } = await reading();
    for (const word of ["a", "b", "c", "d"]) {
      await say(word);
      await until(() => pieces.at(-1) === word);
    }
    expect(pieces).toEqual(["a", "b", "c", "d"]);
  });

  test("is read once a beat while much passes, its first word at once, and in order to its end", async () => {
    const { clock, pieces, say, others, end, isOver } = await reading();
    await others();
    for (const word of ["a", "b"]) {
      await say(word);
      await until(() => pieces.at(-1) === word);
    }
    for (const word of ["c", "d", "e"]) await say(word);
    expect(pieces).toEqual(["a", "b"]);
    await clock.advance(BEAT_MS);
    await until(() => pieces.join("") === "abcde");
    expect(pieces).toEqual(["a", "b", "cde"]);
    await say("f");
    end();
    await settled();
    expect(isOver()).toBe(false);
    await clock.advance(BEAT_MS);
    await until(isOver);
    expect(pieces.join("")).toBe("abcdef");
  });
});

async function until(isSo: () => boolean): Promise<void> {
  for (let n = 0; n < 10_000 && !isSo(); n++) await settled(1);
}
