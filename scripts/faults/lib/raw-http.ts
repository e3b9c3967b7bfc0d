type Answer = { status: number | undefined; head: string };

/** Well-formed requests that the mutations begin from. */
export const seedRequests = (
  host: string,
  key: string,
  ids: { agent: string; workflow: string },
): string[] => {
  const auth = `Authorization: Bearer ${key}\r\n`;
  const json = (method: string, path: string, body: string, more = auth) =>
    `${method} ${path} HTTP/1.1\r\nHost: ${host}\r\n${more}Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
  const get = (path: string, more = auth) => `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${more}\r\n`;
  return [
    get("/health", ""),
    get("/api/me"),
    get(`/api/agents/${ids.agent}`),
    get("/api/v1/webhooks?limit=10&offset=0"),
    get("/api/executions?status=success&limit=2"),
    json(
      "POST",
      "/api/workflows/validate",
      '{"name":"a","nodes":[{"name":"n","node_type_name":"wait","input_config":{}}]}',
    ),
    json(
      "POST",
      `/webhooks/workflows/${ids.workflow}?token=eht_no`,
      '{"input_data":{"a":[1,2.5e3,null]}}',
      "",
    ),
    json(
      "PUT",
      `/api/agents/${ids.agent}`,
      '{"description":"\\u00e9\\ud83d\\ude00","agent_metadata":{"a":{"b":[]}}}',
    ),
    `POST /webhooks/agents/${ids.agent} HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\nmessage=a`,
    `POST /api/workflows/validate HTTP/1.1\r\nHost: ${host}\r\n${auth}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{"a"\r\n3\r\n:1}\r\n0\r\n\r\n`,
    `POST /webhooks/agents/${ids.agent} HTTP/1.1\r\nHost: ${host}\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 69\r\n\r\n--b\r\nContent-Disposition: form-data; name="message"\r\n\r\nhello\r\n--b--\r\n`,
    `OPTIONS /api/agents HTTP/1.1\r\nHost: ${host}\r\nOrigin: https://evil.example\r\n\r\n`,
  ];
};

const TOKENS = [
  "\r\n",
  "\n",
  "\0",
  "\r\n\r\n",
  ": ",
  " ",
  "\t",
  "%00",
  "%2e%2e/",
  "//",
  "?",
  "#",
  "\\",
  "\xff\xfe",
  "\u00e9",
  "Content-Length: 5\r\n",
  "Content-Length: -1\r\n",
  "Content-Length: 99999999999999999999\r\n",
  "Transfer-Encoding: chunked\r\n",
  "Transfer-Encoding: gzip, chunked\r\n",
  "Expect: 100-continue\r\n",
  "Connection: close\r\n",
  "Connection: Upgrade\r\nUpgrade: websocket\r\n",
  "Host: x\r\n",
  "Range: bytes=0-0,1-2\r\n",
  "Content-Encoding: gzip\r\n",
  "HTTP/0.9",
  "HTTP/2.0",
  "TRACE ",
  "CONNECT ",
  "{",
  "[",
  '"',
  "\\ud800",
  "1e999",
  '"__proto__":',
  "ffffffffffffffff\r\n",
];

/** A request with a few changes: bytes flipped, cut, put in, said twice, moved, or taken from another. */
export function mutate(seeds: string[], random: () => number): Buffer {
  const below = (count: number) => Math.floor(random() * count);
  const pick = (list: string[]) => list[below(list.length)]!;
  let text = Buffer.from(pick(seeds)).toString("latin1");
  // With one change most requests get past the reading of HTTP, with several hardly any does.
  for (let changes = below(2) === 0 ? 1 : 1 + below(4); changes > 0; changes--) {
    const at = below(text.length + 1);
    const end = Math.min(text.length, at + 1 + below(40));
    const [before, piece, after] = [text.slice(0, at), text.slice(at, end), text.slice(end)];
    switch (below(8)) {
      case 0:
        text = before + String.fromCharCode(below(256)) + text.slice(at + 1);
        break;
      case 1:
        text = before + after;
        break;
      case 2:
        text = before + pick(TOKENS) + text.slice(at);
        break;
      case 3:
        text = before + piece + piece + after;
        break;
      case 4:
        text = before + piece.repeat(1 + below(400)) + after;
        break;
      case 5: {
        const other = Buffer.from(pick(seeds)).toString("latin1");
        text = before + other.slice(below(other.length));
        break;
      }
      case 6:
        text = after + piece + before;
        break;
      default: {
        const lines = text.split("\r\n");
        const line = below(lines.length);
        lines.splice(line, 0, lines[below(lines.length)]!);
        text = lines.join("\r\n");
      }
    }
  }
  return Buffer.from(text.slice(0, 60_000), "latin1");
}

/** Sends bytes as they are; answers with what came first, or with nothing after a while. */
export function sendRaw(hostname: string, port: number, bytes: Buffer, patience_ms: number): Promise<Answer> {
  return new Promise((resolve) => {
    let head = "";
    let timer: Timer | undefined;
    let socket: { terminate(): void } | undefined;
    const done = () => {
      clearTimeout(timer);
      const status = /^HTTP\/1\.\d (\d{3})/.exec(head)?.[1];
      resolve({ status: status === undefined ? undefined : Number(status), head });
      socket?.terminate();
    };
    timer = setTimeout(done, patience_ms);
    Bun.connect({
      hostname,
      port,
      socket: {
        open(opened) {
          socket = opened;
          opened.write(bytes);
        },
        data(_, chunk) {
          head += Buffer.from(chunk).toString("latin1").slice(0, 2_000);
          if (head.length > 11 && !head.startsWith("HTTP/1.1 100")) done();
        },
        close: done,
        error: done,
      },
    }).then(
      () => {},
      () => done(),
    );
  });
}
