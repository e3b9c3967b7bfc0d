import type { Call, Written } from "./batch.ts";
import type { Transport } from "./writer.ts";

// As text: one JSON string crosses the threads several times faster than a cloned tree of small objects.
export type ToWorker = { type: "open"; path: string } | { type: "batch"; calls: Call[] } | { type: "close" };
export type FromWorker =
  | { type: "open" }
  | { type: "failed"; message: string }
  | ({ type: "outcomes" } & Written)
  | { type: "closed" };

const LONGEST_BATCH_MS = 30_000;

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
  const expecting: { answered(message: FromWorker): void; sentAt: number }[] = [];
  let closing = false;

  worker.onmessage = ({ data }: MessageEvent<string>) => {
    const next = expecting.shift();
    // What the next one waits for begins now.
    if (expecting[0]) expecting[0].sentAt = performance.now();
    next?.answered(JSON.parse(data) as FromWorker);
  };
  worker.onerror = (event) => lost(event.message);
  worker.addEventListener("close", () => {
    if (!closing) lost("the writer thread ended");
  });
  const watchdog = setInterval(() => {
    const oldest = expecting[0];
    if (oldest && performance.now() - oldest.sentAt > LONGEST_BATCH_MS)
      lost("the writer thread does not answer");
  }, 1_000);
  watchdog.unref();

  const ask = (message: ToWorker) =>
    new Promise<FromWorker>((answered) => {
      expecting.push({ answered, sentAt: performance.now() });
      worker.postMessage(JSON.stringify(message));
    });

  function end() {
    closing = true;
    clearInterval(watchdog);
    worker.terminate();
  }

  return {
    async open(path) {
      const opened = await ask({ type: "open", path });
      if (opened.type === "failed") throw new Error(opened.message);
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
