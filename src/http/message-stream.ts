import type { PartLog, StreamPart } from "./part-log.ts";

/** How a log of parts is written down for a client. */
export type StreamProtocol = {
  headers: Record<string, string>;
  /** Sent in silences: nothing that a client would show. */
  heartbeat: string;
  /** One reader's writer; it may remember what it has written. */
  writer(): { part(part: StreamPart): string; end(): string };
};

const HEARTBEAT_MS = 10_000;
const LARGEST_CHUNK = 16_384;

/**
 * Answers with a log from its beginning on: what there is, then what comes, a heartbeat in silences so
 * that nothing between takes the connection for dead. No more is made ready than its client takes, so one
 * that does not read costs a piece and no more; one that goes away ends its own reading and nothing else.
 */
export function streamResponse(
  log: PartLog,
  protocol: StreamProtocol,
  headers: Record<string, string> = {},
): Response {
  const body = new ReadableStream<Uint8Array>(new Reading(log, protocol), ONE_PIECE);
  return new Response(body, {
    headers: {
      ...protocol.headers,
      "cache-control": "no-cache",
      "x-accel-buffering": "no",
      vary: "accept",
      ...headers,
    },
  });
}

const ONE_PIECE = new ByteLengthQueuingStrategy({ highWaterMark: 1 });
const encoder = new TextEncoder();

/** One reader's place in a log. */
class Reading {
  readonly #log: PartLog;
  readonly #heartbeat: string;
  readonly #writer: ReturnType<StreamProtocol["writer"]>;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #cursor = 0;
  #isEnded = false;
  #isDue = false;
  #lastSent: number;
  #stops: (() => void)[] = [];

  constructor(log: PartLog, protocol: StreamProtocol) {
    this.#log = log;
    this.#heartbeat = protocol.heartbeat;
    this.#writer = protocol.writer();
    this.#lastSent = log.clock.now();
  }

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.#controller = controller;
    const leave = this.#log.follow(() => {
      if (this.#isDue) return;
      this.#isDue = true;
      soon(this.#flush);
    });
    this.#stops.push(leave);
    this.#watchSilence(HEARTBEAT_MS);
    this.#flush();
  }

  pull(): void {
    this.#flush();
  }

  cancel(): void {
    for (const stop of this.#stops.splice(0)) stop();
    this.#controller = undefined;
  }

  readonly #flush = (): void => {
    this.#isDue = false;
    const { parts } = this.#log;
    for (;;) {
      const controller = this.#controller;
      if (!controller || (controller.desiredSize ?? 0) <= 0) return;
      let text = "";
      while (this.#cursor < parts.length && text.length < LARGEST_CHUNK) {
        text += this.#writer.part(parts[this.#cursor++]!);
      }
      if (this.#cursor === parts.length && this.#log.done && !this.#isEnded) {
        this.#isEnded = true;
        text += this.#writer.end();
      }
      if (text) this.#send(controller, text);
      else {
        if (this.#isEnded) {
          this.cancel();
          controller.close();
        }
        return;
      }
    }
  };

  #send(controller: ReadableStreamDefaultController<Uint8Array>, text: string): void {
    this.#lastSent = this.#log.clock.now();
    controller.enqueue(encoder.encode(text));
  }

  // One timer that looks back: setting one anew for each token would cost more than the token.
  #watchSilence(ms: number): void {
    const { clock } = this.#log;
    const cancel = clock.after(ms, () => {
      this.#stops.splice(this.#stops.indexOf(cancel), 1);
      const left = this.#lastSent + HEARTBEAT_MS - clock.now();
      const controller = this.#controller;
      if (left <= 0 && controller && (controller.desiredSize ?? 0) > 0)
        this.#send(controller, this.#heartbeat);
      this.#watchSilence(left > 0 ? left : HEARTBEAT_MS);
    });
    this.#stops.push(cancel);
  }
}

// What came to many readers in one turn of the event loop is written at its end, a piece for each of them.
const due: (() => void)[] = [];
const flushAll = (): void => {
  for (const flush of due.splice(0)) flush();
};
function soon(flush: () => void): void {
  if (due.push(flush) === 1) setImmediate(flushAll);
}
