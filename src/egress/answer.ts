import type { Head } from "./response-reader.ts";

/** What lies between a connection and whoever reads an answer's body. */
export type Flow = { pause(): void; resume(): void; destroy(): void };

/** An answer whose head has come; its body comes, or has come, after it. */
export type Answer = Head & { body: Body };

// Read ahead of a slow reader by this much, and no further.
const HIGH_WATER = 256 * 1_024;

/** A body as it comes, for one reader, who sets the pace. */
export class Body {
  readonly #flow: Flow;
  readonly #chunks: Uint8Array[] = [];
  #size = 0;
  #isPaused = false;
  #isEnded = false;
  #error: Error | undefined;
  #wake: (() => void) | undefined;

  constructor(flow: Flow) {
    this.#flow = flow;
  }

  push(chunk: Uint8Array): void {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    if (this.#size > HIGH_WATER && !this.#isPaused) {
      this.#isPaused = true;
      this.#flow.pause();
    }
    this.#wake?.();
  }

  end(): void {
    this.#isEnded = true;
    this.#wake?.();
  }

  fail(error: Error): void {
    this.#error ??= error;
    this.#wake?.();
  }

  /** Everything has come; `read` does not wait any more. */
  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Of what has come and was not taken, in bytes. */
  get size(): number {
    return this.#size;
  }

  /** What has come, in one piece, without waiting; undefined if nothing has. */
  take(): Uint8Array | undefined {
    const { length } = this.#chunks;
    if (length === 0) return undefined;
    const piece = length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks, this.#size);
    this.#chunks.length = 0;
    this.#size = 0;
    if (this.#isPaused) {
      this.#isPaused = false;
      this.#flow.resume();
    }
    return piece;
  }

  /** The next chunk; undefined at the end. Throws what broke it. */
  async read(): Promise<Uint8Array | undefined> {
    for (;;) {
      if (this.#error) throw this.#error;
      const chunk = this.take();
      if (chunk || this.#isEnded) return chunk;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = undefined;
    }
  }

  /** Nobody wants the rest; its connection is closed unless all of it has come. */
  destroy(): void {
    this.#chunks.length = 0;
    if (!this.#isEnded) this.#flow.destroy();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for (;;) {
      const chunk = await this.read();
      if (!chunk) return;
      yield chunk;
    }
  }
}
