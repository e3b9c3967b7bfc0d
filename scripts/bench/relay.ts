/**
 * The least that stands between a model and its readers, as a yardstick: `bun scripts/bench/relay.ts PORT` takes
 * a request, asks the model server on PORT by a bare socket, and writes each token as a line of the data
 * stream. It stores, checks and knows nothing. Prints its port.
 */
export {};

type Upstream = { text: string };

const port = Number(process.argv[2]);
const encoder = new TextEncoder();

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  idleTimeout: 0,
  async fetch(request) {
    const body = await request.text();
    const head = `POST /v1/chat/completions HTTP/1.1\r\ncontent-length: ${body.length}\r\n\r\n`;
    const stream = new ReadableStream<Uint8Array>({
      start(controller) {
        void Bun.connect<Upstream>({
          hostname: "127.0.0.1",
          port,
          data: { text: "" },
          socket: {
            open: (socket) => void socket.write(head + body),
            data(socket, bytes) {
              const text = socket.data.text + bytes.toString("latin1");
              const lines = text.split("\n");
              socket.data.text = lines.pop() ?? "";
              let told = "";
              for (const line of lines) {
                if (line.startsWith("data: [DONE]")) {
                  controller.enqueue(encoder.encode(`${told}d:{}\n`));
                  controller.close();
                  socket.end();
                  return;
                }
                if (!line.startsWith("data: ")) continue;
                const content = JSON.parse(line.slice(6)).choices[0]?.delta.content;
                if (content) told += `0:${JSON.stringify(content)}\n`;
              }
              if (told) controller.enqueue(encoder.encode(told));
            },
          },
        });
      },
    });
    return new Response(stream, { headers: { "content-type": "text/plain" } });
  },
});
console.log(server.port);
