/**
 * Connections that want nothing, or what they want slowly, held from a process of its own until it is ended:
 * `bun scripts/bench/crowd.ts URL IDLE SLOW` prints how many it has. A slow one sends a body of a byte a second.
 */
export type Held = { idle: number; slow: number };
export type Crowd = { held: Held; leave(): Promise<void> };

const DRIP_MS = 1_000;
const LANES = 64;
const LEFT_MS = 500;

/** A crowd at the address, once it is there. */
export async function gather(url: string, idle: number, slow: number): Promise<Crowd> {
  const args = [process.execPath, import.meta.path, url, String(idle), String(slow)];
  const holder = Bun.spawn(args, { stdout: "pipe", stderr: "inherit" });
  const { value } = await holder.stdout.getReader().read();
  return {
    held: JSON.parse(new TextDecoder().decode(value)) as Held,
    async leave() {
      holder.kill();
      await holder.exited;
      await Bun.sleep(LEFT_MS);
    },
  };
}

async function hold(url: URL, idle: number, slow: number): Promise<Held> {
  const connected = { idle: 0, slow: 0 };
  const nothing = { data() {}, error() {}, close() {} };
  const open = (socket: object) =>
    Bun.connect({ hostname: url.hostname, port: Number(url.port), socket: { ...nothing, ...socket } });
  const head = `POST ${url.pathname}${url.search} HTTP/1.1\r\nHost: ${url.host}\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{`;
  const dripping = new Set<{ write(text: string): number }>();
  for (let n = 0; n < slow; n++) {
    const socket = await open({ close: () => connected.slow-- });
    socket.write(head);
    dripping.add(socket);
    connected.slow++;
  }
  setInterval(() => {
    for (const socket of dripping) socket.write(" ");
  }, DRIP_MS);
  // Side by side: one after the other, the first would be cut for idling before the last is there.
  const lane = async () => {
    while (connected.idle < idle) {
      connected.idle++;
      await open({ close: () => connected.idle-- });
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  return connected;
}

if (import.meta.main) {
  const [url, idle, slow] = process.argv.slice(2);
  console.log(JSON.stringify(await hold(new URL(url!), Number(idle), Number(slow))));
}
