import type { Call, Written } from "./batch.ts";
import type { Step } from "./migrate.ts";
import type { Transport } from "./writer.ts";

// As text: one JSON string crosses the threads several times faster than a cloned tree of small objects.
export type ToWorker =
  | { type: "open"; path: string }
  | { type: "prepare"; folder: string; now: number }
  | { type: "batch"; calls: Call[] }
  | { type: "close" };
export type FromWorker =
  | { type: "open" }
  /** Told on the way to `open`, and no answer to anything. */
  | { type: "migrating"; step: Step }
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

/** What the writer thread is asked for beside batches. */
export type WriterThread = Transport & {
  /** Opens a database of this schema. Rejects with SQLite's error and code. */
  open(path: string): Promise<void>;
  /** Makes or migrates a folder's database and opens it; `migrating` is told of each step, and no step is too long. */
  prepare(folder: string, now: number, migrating: (step: Step) => void): Promise<void>;
  end(): void;
};

/**
 * Starts the writer thread, which answers nothing but `open` and `prepare` until that is done. `lost` is called when
 * it dies or hangs: what it held is unknown then, so the only safe thing left is to end the program and let the next
 * start recover.
 */
export function startWorker(lost: (reason: string) => void): WriterThread {
  const worker = new Worker(new URL("./worker.ts", import.meta.url).href);
  // Answered in the order they were sent.
  const expecting: { answered(message: FromWorker): void }[] = [];
  let closing = false;
  let migrating: ((step: Step) => void) | undefined;

  worker.onmessage = ({ data }: MessageEvent<string>) => {
    const message = JSON.parse(data) as FromWorker;
    if (message.type === "migrating") migrating?.(message.step);
    else expecting.shift()?.answered(message);
  };
  worker.onerror = (event) => lost(event.message);
  worker.addEventListener("close", () => {
    if (!closing) lost("the writer thread ended");
  });
  const hangs = watchdog(() => (migrating ? undefined : expecting[0]));
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
      refuseFailed(await ask({ type: "open", path }));
    },
    async prepare(folder, now, told) {
      migrating = told;
      refuseFailed(await ask({ type: "prepare", folder, now }));
      migrating = undefined;
    },
    end,
    async send(calls) {
      const reply = await ask({ type: "batch", calls });
      refuseFailed(reply);
      return reply.type === "outcomes" ? reply : { outcomes: [], ms: 0 };
    },
    async close() {
      closing = true;
      await ask({ type: "close" });
      end();
    },
  };
}

function refuseFailed(reply: FromWorker): void {
  if (reply.type === "failed") throw Object.assign(new Error(reply.message), { code: reply.code });
}
