import type { Call, Written } from "./batch.ts";
import type { Transport } from "./writer.ts";

// As text: one JSON string crosses the threads several times faster than a cloned tree of small objects.
export type ToWorker = { type: "open"; path: string } | { type: "batch"; calls: Call[] } | { type: "close" };
export type FromWorker =
  | { type: "open" }
  /** `code`: SQLite's, which tells whoever started the program what to do. */
  | { type: "failed"; message: string; code?: string | undefined }
  | ({ type: "outcomes" } & Written)
  | { type: "closed" };

const LOOK_MS = 1_000;
const MOST_LOOKS = 30;

/**
 * Looks, each time it is called, at what has been waited for the longest; true when it has been the same thing for
 * too long. Looks are counted and not the time: where all of the program stood still for a minute (a machine that
 * was paused or slept, a debugger), the thread had no more of that minute than who looks.
 */
export function watchdog(oldest: () => object | undefined, most = MOST_LOOKS): () => boolean {
  let seen: object | undefined;
  let looks = 0;
  return () => {
    const now = oldest();
    looks = now !== undefined && now === seen ? looks + 1 : 0;
    seen = now;
    return looks >= most;
  };
}

/**
 * Starts the writer thread, which answers nothing but `open` until that is done. `lost` is called when it dies or
 * hangs: what it held is unknown then, so the only safe thing left is to end the program and let the next start
 * recover.
 */
export function startWorker(
  lost: (reason: string) => void,
): Transport & { open(path: string): Promise<void>; end(): void } {
  const worker = new Worker(new URL("./worker.ts", import.meta.url).href);
  // Answered in the order they were sent.
  const expecting: { answered(message: FromWorker): void }[] = [];
  let closing = false;

  worker.onmessage = ({ data }: MessageEvent<string>) => {
    expecting.shift()?.answered(JSON.parse(data) as FromWorker);
  };
  worker.onerror = (event) => lost(event.message);
  worker.addEventListener("close", () => {
    if (!closing) lost("the writer thread ended");
  });
  const hangs = watchdog(() => expecting[0]);
  const looking = setInterval(() => {
    if (hangs()) lost("the writer thread does not answer");
  }, LOOK_MS);
  looking.unref();

  const ask = (message: ToWorker) =>
    new Promise<FromWorker>((answered) => {
      expecting.push({ answered });
      worker.postMessage(JSON.stringify(message));
    });

  function end() {
    closing = true;
    clearInterval(looking);
    worker.terminate();
  }

  return {
    async open(path) {
      const opened = await ask({ type: "open", path });
      if (opened.type === "failed") {
        throw Object.assign(new Error(opened.message), { code: opened.code });
      }
    },
    end,
    async send(calls) {
      const reply = await ask({ type: "batch", calls });
      return reply.type === "outcomes" ? reply : { outcomes: [], ms: 0 };
    },
    async close() {
      closing = true;
      await ask({ type: "close" });
      end();
    },
  };
}
