import { afterEach, describe, expect, test } from "bun:test";
import net, { type AddressInfo, type Socket } from "node:net";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { createEgress } from "../../src/egress/egress.ts";
import { sendOnce } from "../../src/webhooks/send.ts";
import { discardAfterEach, scratchFolder } from "../helpers/folder.ts";
import { lastLog, setup as openWorld, receiver } from "./setup.ts";

const open: { close(): void }[] = [];
afterEach(() => {
  for (const each of open.splice(0)) each.close();
});
const kept = <T extends { close(): void }>(each: T): T => {
  open.push(each);
  return each;
};

discardAfterEach();

const MINUTE = 60_000;

/** A receiver that does with a connection what it likes, once a request has come. */
async function raw(behave: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>();
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.once("data", () => behave(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  kept({
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

/** What the first attempt to it comes to. */
async function attempt(behave: (socket: Socket) => void) {
  const world = kept(await openWorld());
  const { id } = await world.subscribe({ url: await raw(behave) });
  await world.emit();
  await world.idle();
  return { world, id, entry: (await lastLog(world, id))! };
}

const answer = (head: string, body: string | Buffer = "") =>
  Buffer.concat([
    Buffer.from(`HTTP/1.1 ${head}\r\ncontent-length: ${body.length}\r\n\r\n`),
    Buffer.from(body),
  ]);

describe("a hostile receiver", () => {
  test.each([
    ["hangs", () => {}],
    [
      "drips",
      (socket: Socket) => {
        socket.write("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n");
        const timer = setInterval(() => socket.write("x"), 5);
        socket.once("close", () => clearInterval(timer));
      },
    ],
  ])("that %s is given up when its time is over", async (_, behave) => {
    const egress = kept(createEgress({ allow: ["loopback"] }));
    const request = { url: await raw(behave), headers: {}, body: "{}", timeoutMs: 60 };
    expect(await sendOnce({ egress, clock: { now: () => 0, after: () => () => {} } }, request)).toMatchObject(
      {
        error_class: "timeout",
        response_code: null,
      },
    );
  });

  test("that resets or talks another protocol is tried again", async () => {
    const reset = await attempt((socket) => void socket.resetAndDestroy());
    expect(reset.entry).toMatchObject({ status: "retrying", error_class: "connection_reset" });
    const mail = await attempt((socket) => void socket.end("220 mail.example ESMTP\r\n"));
    expect(mail.entry).toMatchObject({ status: "retrying", response_code: null });
  });

  test("that answers without end, or with a bomb, is read so far and no further", async () => {
    const flood = await attempt((socket) => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      const pour = () => {
        while (!socket.destroyed && socket.write("x".repeat(65_536)));
      };
      socket.on("drain", pour);
      pour();
    });
    expect(flood.entry).toMatchObject({ status: "success", response_excerpt: "x".repeat(2_048) });
    const bomb = gzipSync(Buffer.alloc(20_000_000));
    const before = process.memoryUsage().rss;
    const burst = await attempt(
      (socket) => void socket.write(answer("200 OK\r\ncontent-encoding: gzip", bomb)),
    );
    expect(burst.entry.status).toBe("success");
    expect(burst.entry.response_excerpt).toHaveLength(2_048);
    expect(process.memoryUsage().rss - before).toBeLessThan(100_000_000);
  });

  test("that points at the metadata service sends nobody there", async () => {
    const { entry } = await attempt(
      (socket) => void socket.write(answer("307 See\r\nlocation: http://169.254.169.254/latest/meta-data/")),
    );
    expect(entry).toMatchObject({ status: "retrying", response_code: 307, attempts: 1 });
    expect(entry.reason).toContain("points to http://169.254.169.254/");
  });

  test("that should speak TLS and does not hears nothing of the event", async () => {
    const world = kept(await openWorld());
    let heard = "";
    const plain = await raw((socket) => {
      socket.on("data", (chunk) => {
        heard += chunk.toString("latin1");
      });
      socket.end("HTTP/1.1 200 OK\r\n\r\n");
    });
    const url = plain.replace("http:", "https:");
    const { id } = await world.subscribe({ url });
    await world.emit();
    await world.idle();
    expect(await lastLog(world, id)).toMatchObject({ status: "retrying", response_code: null });
    expect(heard).not.toContain("workflow.execution");
  });

  test.skipIf(!Bun.which("openssl"))("that shows a certificate nobody vouches for gets nothing", async () => {
    const folder = scratchFolder();
    const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
    const subject = ["-subj", "/CN=other.example", "-days", "1", "-nodes"];
    const made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
    expect(Bun.spawnSync([...made, ...subject, "-keyout", key, "-out", cert]).exitCode).toBe(0);
    let asked = 0;
    const server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      tls: { key: Bun.file(key), cert: Bun.file(cert) },
      fetch() {
        asked++;
        return new Response();
      },
    });
    kept({ close: () => void server.stop(true) });
    const world = kept(await openWorld());
    const { id } = await world.subscribe({ url: `https://127.0.0.1:${server.port}/` });
    await world.emit();
    await world.idle();
    expect(await lastLog(world, id)).toMatchObject({ status: "retrying", error_class: "tls_error" });
    expect(asked).toBe(0);
  });

  test("that wants to be asked again in a hundred years is asked again within a day", async () => {
    const { world, id } = await attempt(
      (socket) => void socket.write(answer("429 Too Many Requests\r\nretry-after: 3153600000")),
    );
    const entry = await lastLog(world, id);
    expect(Date.parse(entry!.next_attempt_at!) - world.clock.now()).toBe(24 * 60 * MINUTE);
  });

  test("that answers well every other time is sent everything, and is not paused", async () => {
    const world = kept(await openWorld());
    const { url, got } = kept(
      receiver((_, number) => new Response(null, { status: number % 2 ? 503 : 200 })),
    );
    const { id } = await world.subscribe({ url });
    for (let n = 0; n < 20; n++) await world.emit();
    for (const wait of [0, 1, 6, 20, 70, 400]) {
      await world.clock.advance(wait * MINUTE);
      await world.idle();
    }
    const states = world.storage.reader.all("SELECT DISTINCT state FROM deliveries");
    expect([states, got.length >= 40]).toEqual([[{ state: "success" }], true]);
    expect((await world.webhooks.get(world.caller, id)).status).toBe("active");
  });
});
