/**
 * A model server that does nothing but speak, in a process of its own: `bun scripts/bench/model-server.ts`
 * prints its port. The model's name says how: `paced:INTERVAL_MS:TOKENS`, or `burst:TOKENS` as fast as the
 * socket takes them. Each token is the moment at which it was said, so that its reader knows how long it took.
 */
type Stream = { socket: Writable; every: number; left: number; due: number };
type Writable = { write(text: string): number; data: Connection };
type Connection = { head: string; waiting: string };

export {};

const now = () => performance.timeOrigin + performance.now();
const PADDING = "x".repeat(150);
const chunked = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;
const chunk = (delta: string, finish = "null") =>
  `data: {"id":"chatcmpl-bench-${PADDING}","object":"chat.completion.chunk","created":1,"model":"bench","choices":[{"index":0,"delta":{${delta}},"finish_reason":${finish}}]}\n\n`;
const token = () => chunk(`"content":"@${now().toFixed(2)} "`);
const HEAD =
  "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";
const END = `${chunked(
  `${chunk("", '"stop"')}data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":5,"total_tokens":10}}\n\ndata: [DONE]\n\n`,
)}0\r\n\r\n`;

const streams = new Set<Stream>();
const TICK_MS = 5;

// One timer for all: what a stream costs here must not be what is measured.
setInterval(() => {
  const at = now();
  for (const stream of streams) {
    let text = "";
    for (; stream.left > 0 && stream.due <= at; stream.left--, stream.due += stream.every)
      text += chunked(token());
    if (stream.left === 0) {
      text += END;
      streams.delete(stream);
    }
    if (text) send(stream.socket, text);
  }
}, TICK_MS);

function send(socket: Writable, text: string): void {
  const { data } = socket;
  if (data.waiting) {
    data.waiting += text;
    return;
  }
  const written = socket.write(text);
  if (written < text.length) data.waiting = text.slice(Math.max(0, written));
}

function answer(socket: Writable, model: string): void {
  const [kind, first = "1", second = "1"] = model.split(":");
  if (kind === "burst") {
    let text = HEAD;
    // As a fast server does: several events to a write.
    for (let left = Number(first); left > 0; left -= 4)
      text += chunked(Array.from({ length: Math.min(4, left) }, token).join(""));
    send(socket, text + END);
    return;
  }
  const every = Number(first);
  send(socket, HEAD + chunked(chunk('"role":"assistant","content":""')));
  streams.add({ socket, every, left: Number(second), due: now() + every * Math.random() });
}

const server = Bun.listen<Connection>({
  hostname: "127.0.0.1",
  port: 0,
  socket: {
    open(socket) {
      socket.data = { head: "", waiting: "" };
    },
    data(socket, bytes) {
      const { data } = socket;
      data.head += bytes.toString("latin1");
      const body = data.head.indexOf("\r\n\r\n");
      const length = /content-length: (\d+)/i.exec(data.head)?.[1];
      if (body === -1 || data.head.length < body + 4 + Number(length ?? 0)) return;
      const model = /"model":"([^"]+)"/.exec(data.head)?.[1] ?? "";
      data.head = "";
      answer(socket, model);
    },
    drain(socket) {
      const { waiting } = socket.data;
      socket.data.waiting = "";
      if (waiting) send(socket, waiting);
    },
    close(socket) {
      for (const stream of streams) if (stream.socket === socket) streams.delete(stream);
    },
    error() {},
  },
});
console.log(server.port);
