import { afterAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import net, { type AddressInfo, type Socket } from "node:net";
import { join } from "node:path";
import { scratch } from "../../scripts/lib/errand.ts";
import { eventually, world } from "./setup.ts";

const HOST = "receiver.example";
const FOREIGN = "other.example";

/** A certificate authority of this test alone, and certificates of its making. */
function authority() {
  const folder = scratch();
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const at = (name: string) => join(folder, name);
  const openssl = (...args: string[]) => {
    const { exitCode, stderr } = Bun.spawnSync(["openssl", ...args]);
    if (exitCode !== 0) throw new Error(stderr.toString());
  };
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  const ca = ["-keyout", at("ca.key"), "-out", at("ca.pem")];
  openssl("req", "-x509", ...key, "-subj", "/CN=A test's own authority", "-days", "2", ...ca);
  return {
    ca: at("ca.pem"),
    issue(host: string) {
      const [own, request, cert] = [at(`${host}.key`), at(`${host}.csr`), at(`${host}.pem`)];
      openssl("req", ...key, "-subj", `/CN=${host}`, "-keyout", own, "-out", request);
      const extensions = at(`${host}.ext`);
      Bun.spawnSync(["sh", "-c", `printf 'subjectAltName=DNS:${host}' > '${extensions}'`]);
      const by = ["-CA", at("ca.pem"), "-CAkey", at("ca.key"), "-CAcreateserial", "-days", "1"];
      openssl("x509", "-req", "-in", request, ...by, "-extfile", extensions, "-out", cert);
      return { key: Bun.file(own), cert: Bun.file(cert) };
    },
  };
}

/** A proxy that leads every tunnel to one server, whatever name it is asked for, as a resolver of its own would. */
async function proxyTo(port: () => number) {
  const asked: string[] = [];
  const seen: string[] = [];
  const sockets = new Set<Socket>();
  const kept = (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    return socket;
  };
  const server = net.createServer((client) => {
    kept(client).once("data", (head) => {
      asked.push(head.toString("latin1"));
      const target = kept(net.connect(port(), "127.0.0.1", () => client.write("HTTP/1.1 200 OK\r\n\r\n")));
      client.on("data", (bytes) => {
        seen.push(bytes.toString("latin1"));
        target.write(bytes);
      });
      target.on("data", (bytes) => client.write(bytes));
      client.on("close", () => target.destroy());
      target.on("close", () => client.destroy());
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  afterAll(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { url: `http://me:secret@127.0.0.1:${(server.address() as AddressInfo).port}`, asked, seen };
}

describe.skipIf(!Bun.which("openssl"))("deliveries over TLS by an egress proxy", () => {
  test("reach a receiver whose certificate is the name's, and show nothing to one whose is another's", async () => {
    const { ca, issue } = authority();
    const got: string[] = [];
    let port = 0;
    const serverOf = (name: string) => {
      const server = Bun.serve({
        hostname: "127.0.0.1",
        port: 0,
        tls: issue(name),
        async fetch(request) {
          got.push(`${request.headers.get("host")} ${await request.text()}`);
          return new Response(null, { status: 204 });
        },
      });
      afterAll(() => server.stop(true));
      return server.port!;
    };
    const [own, foreign] = [serverOf(HOST), serverOf(FOREIGN)];
    const proxy = await proxyTo(() => port);
    const { errand } = await world({ env: { ERRAND_EGRESS_PROXY: proxy.url, NODE_EXTRA_CA_CERTS: ca } });
    const made = await errand.api<{ id: string }>("POST", "/api/v1/webhooks", {
      url: `https://${HOST}/hook`,
      events: ["*"],
    });
    type Sent = { received: { response_code: number | null; error_class: string | null } };
    const testSend = async () =>
      (await errand.api<Sent>("POST", `/api/v1/webhooks/${made.body.id}/test`, {})).body;

    port = own;
    expect(await testSend()).toMatchObject({ received: { response_code: 204 } });
    await eventually(
      async () => got,
      ([first]) => first !== undefined,
    );
    expect(got[0]).toStartWith(`${HOST} {`);
    expect(proxy.asked[0]).toStartWith(`CONNECT ${HOST}:443 HTTP/1.1\r\n`);
    expect(proxy.asked[0]).toContain(`Proxy-Authorization: Basic ${btoa("me:secret")}`);

    // The proxy leads elsewhere: the certificate is good, and another's.
    port = foreign;
    await errand.api("PUT", `/api/v1/webhooks/${made.body.id}`, { url: `https://${HOST}:8443/hook` });
    expect(await testSend()).toMatchObject({ received: { response_code: null, error_class: "tls_error" } });
    expect(got).toHaveLength(1);
    expect(proxy.seen.join("")).not.toMatch(/X-Service|workflow\.|agent\./);
  });
});
