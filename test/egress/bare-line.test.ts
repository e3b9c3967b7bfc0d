import { afterEach, expect, test } from "bun:test";
import net, { type AddressInfo, type Socket } from "node:net";
import { createEgress, EgressError, type EgressRequest } from "../../src/egress/egress.ts";

const open: { close(): void }[] = [];
afterEach(() => {
  for (const each of open.splice(0)) each.close();
});

/** A model's server below HTTP. */
async function server(talk: (socket: Socket) => void) {
  const sockets: Socket[] = [];
  const listening = net.createServer((socket) => {
    sockets.push(socket);
    socket.on("error", () => {});
    talk(socket);
  });
  await new Promise<void>((resolve) => listening.listen(0, "127.0.0.1", resolve));
  open.push({
    close() {
      for (const socket of sockets) socket.destroy();
      listening.close();
    },
  });
  return { url: `http://127.0.0.1:${(listening.address() as AddressInfo).port}`, sockets };
}

async function ask(url: string, more: Partial<EgressRequest> = {}): Promise<string> {
  const out = createEgress({ allow: ["loopback"] });
  open.push(out);
  return askBy(out, url, more);
}

async function askBy(out: ReturnType<typeof createEgress>, url: string, more: Partial<EgressRequest> = {}) {
  try {
    const { body } = await out.stream({
      method: "POST",
      url,
      body: "hello",
      timeoutMs: 5_000,
      maxBytes: 10_000,
      trickles: true,
      ...more,
    });
    let text = "";
    for await (const bytes of body) text += Buffer.from(bytes).toString();
    return text;
  } catch (error) {
    if (error instanceof EgressError) return error.class;
    throw error;
  }
}

const FINE = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine";

test("a request that the other side takes slowly arrives whole, as text and as bytes", async () => {
  const sent = `é${"0123456789".repeat(1_200_000)}`;
  const size = Buffer.byteLength(sent);
  for (const body of [sent, Buffer.from(sent)]) {
    let came = Buffer.alloc(0);
    const chunks: Buffer[] = [];
    const { url } = await server((socket) => {
      socket.pause();
      setImmediate(() => socket.resume());
      let length = 0;
      socket.on("data", (chunk: Buffer) => {
        chunks.push(chunk);
        length += chunk.length;
        if (length < size) return;
        came = Buffer.concat(chunks);
        const head = came.indexOf("\r\n\r\n") + 4;
        if (came.length - head === size) socket.write(FINE);
      });
    });
    expect(await ask(url, { body })).toBe("fine");
    expect(came.subarray(came.indexOf("\r\n\r\n") + 4).equals(Buffer.from(sent))).toBe(true);
  }
});

test("its connection serves the next request, and one that was closed meanwhile is not asked", async () => {
  const { url, sockets } = await server((socket) => socket.on("data", () => socket.write(FINE)));
  const out = createEgress({ allow: ["loopback"] });
  open.push(out);
  expect([await askBy(out, url), await askBy(out, url)]).toEqual(["fine", "fine"]);
  expect(sockets).toHaveLength(1);
  const closed = new Promise((resolve) => sockets[0]!.once("close", resolve));
  sockets[0]!.end();
  await closed;
  await Bun.sleep(0);
  expect(await askBy(out, url)).toBe("fine");
  expect(sockets).toHaveLength(2);
});

test("what goes wrong is told as of any other request", async () => {
  const { url: gone } = await server(() => {});
  open.pop()!.close();
  const { url: reset } = await server((socket) => socket.on("data", () => socket.resetAndDestroy()));
  const { url: cut } = await server((socket) =>
    socket.on("data", () => socket.end("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")),
  );
  const { url: silent } = await server(() => {});
  const given = new AbortController();
  const abandoned = ask(silent, { signal: given.signal });
  setImmediate(() => given.abort());
  expect(await Promise.all([ask(gone), ask(reset), ask(cut)])).toEqual([
    "connection_refused",
    "connection_reset",
    "connection_reset",
  ]);
  expect([await ask(silent, { timeoutMs: 20 }), await abandoned]).toEqual(["timeout", "aborted"]);
});

test("what nobody asked for closes it", async () => {
  const { url, sockets } = await server((socket) => socket.on("data", () => socket.write(FINE)));
  expect(await ask(url)).toBe("fine");
  const closed = new Promise((resolve) => sockets[0]!.once("close", resolve));
  sockets[0]!.write("and more");
  await closed;
});
