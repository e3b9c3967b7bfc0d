import { notAnswered } from "./errors.ts";
import type { Limit } from "./limit.ts";
import { type Hearer, Line } from "./line.ts";

type Bare = Bun.Socket<BareLine>;

/**
 * The same on Bun's own socket, without TLS: two thirds of the work a piece, and a model sends thousands a second.
 * While it is being made it cannot be called off, so it is not for receivers that may leave many hanging.
 */
export class BareLine extends Line {
  protected readonly stopsAtOnce = true;
  isDestroyed = false;
  #socket: Bare | undefined;
  #hearer: Hearer | undefined;
  #unsent: Uint8Array | undefined;

  /** Resolves when the connection stands, within `patience` ms where that is given. */
  static open(
    place: { hostname: string; port: number },
    limit: Limit,
    patience: number | undefined,
  ): Promise<BareLine> {
    return new Promise((resolve, reject) => {
      const line = new BareLine();
      const give = (error: unknown) => {
        clearTimeout(timer);
        line.destroy();
        reject(error);
      };
      const timer = patience === undefined ? undefined : setTimeout(() => give(notAnswered()), patience);
      limit.onEnd(give);
      const opened = Bun.connect<BareLine>({ ...place, data: line, socket: HANDLERS });
      opened.then(
        (socket) => {
          clearTimeout(timer);
          line.#socket = socket;
          if (line.isDestroyed) socket.terminate();
          socket.setNoDelay(true);
          resolve(line);
        },
        (error) => give(error),
      );
    });
  }

  hear(hearer: Hearer): void {
    this.#hearer = hearer;
    if (this.isDestroyed) hearer.broke();
  }

  write(bytes: string | Uint8Array): void {
    const all = typeof bytes === "string" ? undefined : bytes;
    if (this.#unsent) {
      this.#unsent = Buffer.concat([this.#unsent, all ?? Buffer.from(bytes as string)]);
      return;
    }
    const written = Math.max(0, this.#socket?.write(bytes) ?? 0);
    const size = all?.length ?? Buffer.byteLength(bytes as string);
    if (written < size) this.#unsent = (all ?? Buffer.from(bytes as string)).subarray(written);
  }

  get isSending(): boolean {
    return this.#unsent !== undefined;
  }

  destroy(): void {
    this.isDestroyed = true;
    this.#unsent = undefined;
    this.#socket?.terminate();
  }

  protected stop(): void {
    this.#socket?.pause();
  }

  protected start(): void {
    this.#socket?.resume();
  }

  take(chunk: Buffer): void {
    if (this.#hearer) this.#hearer.take(chunk);
    else this.destroy(); // nobody has asked yet
  }

  sendOn(): void {
    const bytes = this.#unsent;
    this.#unsent = undefined;
    if (bytes) this.write(bytes);
  }

  broke(error?: unknown): void {
    this.isDestroyed = true;
    this.#hearer?.broke(error);
  }
}

const HANDLERS: Bun.SocketHandler<BareLine> = {
  data: ({ data: line }, chunk) => line.take(chunk),
  drain: ({ data: line }) => line.sendOn(),
  end: ({ data: line }) => line.broke(),
  close: ({ data: line }, error) => line.broke(error),
  error: ({ data: line }, error) => line.broke(error),
  connectError: () => {}, // the promise says it
};
