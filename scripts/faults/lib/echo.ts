import { createServer } from "node:net";

/** A server that says back all it is told, as careless ones do; `?status=` is what it answers with. */
export function echoServer() {
  const heard: string[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const url = new URL(request.url);
      const headers = [...request.headers].map(([name, value]) => `${name}: ${value}`).join("\n");
      const said = `${request.method} ${url.pathname}\n${headers}\n${await request.text()}`;
      heard.push(said, decoded(said));
      const status = Number(url.searchParams.get("status") ?? 401);
      const message = `Who is this? ${said} ${decoded(said)}`;
      return Response.json({ error: { message, type: "denied", code: "denied" } }, { status });
    },
  });
  return {
    origin: `http://127.0.0.1:${server.port}`,
    port: server.port!,
    heard,
    stop: () => server.stop(true),
  };
}

/** What stands in base64 in the credentials of a text. */
const decoded = (text: string): string =>
  [...text.matchAll(/\bbasic\s+([\w+/=]+)/gi)]
    .map(([, code]) => Buffer.from(code!, "base64").toString())
    .join("\n");

/** A mail server that refuses everybody, and says with what they came. */
export async function echoMailServer() {
  const heard: string[] = [];
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.write("220 mail.example ready\r\n");
    socket.on("data", (bytes) => {
      const said = bytes.toString("latin1").trim();
      if (/^ehlo/i.test(said)) return socket.write("250-mail.example\r\n250 AUTH PLAIN LOGIN\r\n");
      if (/^auth plain\s*$/i.test(said) || /^auth login/i.test(said)) return socket.write("334 \r\n");
      if (/^quit/i.test(said)) return socket.end("221 bye\r\n");
      const plain = Buffer.from(said.replace(/^auth plain /i, ""), "base64").toString("latin1");
      heard.push(said, plain);
      return socket.write(`535 5.7.8 not you: ${said} ${plain.replaceAll("\0", " ")}\r\n`);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  return { port, heard, stop: () => void server.close() };
}
