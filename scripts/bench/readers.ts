/**
 * Reads streams of tokens that say when they were said, in a process of its own, by bare sockets:
 * `bun scripts/bench/readers.ts '{"url","headers","body","streams","rounds"}'` prints a line of JSON.
 */
export type ReadPlan = {
  url: string;
  headers: Record<string, string>;
  body: string;
  streams: number;
  /** How many answers each reads, one after the other. */
  rounds: number;
};
/** Times in ms: from the request to the first token, from a token's saying to its reading. */
export type ReadResult = {
  tokens: number;
  ended: number;
  seconds: number;
  first_p50: number;
  first_p99: number;
  delay_p50: number;
  delay_p99: number;
  delay_max: number;
};

const now = () => performance.timeOrigin + performance.now();

if (import.meta.main) {
  const { url, headers, body, streams, rounds } = JSON.parse(process.argv[2] ?? "{}") as ReadPlan;
  const { hostname, port, pathname, search } = new URL(url);
  const head = Object.entries({
    host: `${hostname}:${port}`,
    "content-length": String(body.length),
    ...headers,
  });
  const request = `POST ${pathname}${search} HTTP/1.1\r\n${head.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n${body}`;
  const firsts: number[] = [];
  const delays: number[] = [];
  let tokens = 0;
  let ended = 0;
  // The end as the data stream and as a chat completion have it.
  const ENDS = ["\nd:{", "[DONE]"];

  const read = () =>
    new Promise<void>((resolve, reject) => {
      let left = rounds;
      let asked = 0;
      let hasFirst = false;
      let tail = "";
      const ask = (socket: { write(text: string): number }) => {
        hasFirst = false;
        tail = "";
        asked = now();
        socket.write(request);
      };
      void Bun.connect({
        hostname,
        port: Number(port),
        socket: {
          open: ask,
          data(socket, bytes) {
            const at = now();
            const text = tail + bytes.toString("latin1");
            let end = 0;
            for (let from = text.indexOf("@"); from !== -1; from = text.indexOf("@", from + 1)) {
              const space = text.indexOf(" ", from);
              if (space === -1) break;
              tokens++;
              if (!hasFirst) firsts.push(at - asked);
              hasFirst = true;
              if (tokens % 16 === 0) delays.push(at - Number(text.slice(from + 1, space)));
              end = space;
            }
            tail = text.slice(Math.max(end, text.length - 64));
            if (!ENDS.some((mark) => text.includes(mark))) return;
            ended++;
            left--;
            if (left > 0) ask(socket);
            else {
              socket.end();
              resolve();
            }
          },
          error: (_, error) => reject(error),
          close: () => resolve(),
        },
      });
    });

  const began = performance.now();
  await Promise.all(
    Array.from({ length: streams }, async (_, n) => {
      // Not all in the same moment: they would march in step.
      await Bun.sleep((n % 100) * 10);
      await read();
    }),
  );
  const seconds = (performance.now() - began) / 1_000;
  const at = (list: number[], share: number) =>
    list.toSorted((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * share))] ?? Number.NaN;
  const result: ReadResult = {
    tokens,
    ended,
    seconds,
    first_p50: at(firsts, 0.5),
    first_p99: at(firsts, 0.99),
    delay_p50: at(delays, 0.5),
    delay_p99: at(delays, 0.99),
    delay_max: at(delays, 1),
  };
  console.log(JSON.stringify(result));
}
