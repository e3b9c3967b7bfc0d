import type { Socket } from "node:net";
import type { Beat } from "../lib/beat.ts";

/** Who takes what comes on a line, and hears of its end: with what broke it, where something did. */
export type Hearer = { take(chunk: Buffer): void; broke(error?: unknown): void };

/** A connection as one request after the other has it. The chunks it gives are the taker's own. */
export abstract class Line {
  #isPaused = false;
  #isResting = false;

  /** Tells of whatever comes from now on. */
  abstract hear(hearer: Hearer): void;
  abstract write(bytes: string | Uint8Array): void;
  /** Some of what was written is not on its way yet. */
  abstract get isSending(): boolean;
  abstract get isDestroyed(): boolean;
  abstract destroy(): void;
  /** Whether to stop is to read no more at once. */
  protected abstract readonly stopsAtOnce: boolean;
  protected abstract stop(): void;
  protected abstract start(): void;

  pause(): void {
    this.#isPaused = true;
    this.stop();
  }

  resume(): void {
    this.#isPaused = false;
    if (!this.#isResting) this.start();
  }

  /** Reads nothing until the next beat: what comes by then is read in one. */
  rest(beat: Beat): void {
    if (!this.stopsAtOnce || this.#isResting) return;
    this.#isResting = true;
    this.stop();
    beat.later(() => {
      this.#isResting = false;
      if (!this.#isPaused && !this.isDestroyed) this.start();
    });
  }
}

type OnRead = { buffer: Uint8Array; callback(length: number, bytes: Uint8Array): boolean };

// What comes is copied out of it before the next can.
const incoming = Buffer.allocUnsafeSlow(64 * 1_024);

/**
 * A socket whose bytes go straight to whoever takes them: node's stream of them does more for each piece than
 * reading an answer does, and reads on for a while when it is told to pause.
 */
export class NodeLine extends Line {
  protected readonly stopsAtOnce: boolean;
  #hearer: Hearer | undefined;

  private constructor(
    readonly socket: Socket,
    isDirect: boolean,
  ) {
    super();
    this.stopsAtOnce = isDirect;
  }

  /** `open` makes the socket, with what it is given among its options. */
  static direct(open: (options: { onread: OnRead }) => Socket): NodeLine {
    const callback = (length: number) => {
      const chunk = Buffer.allocUnsafe(length);
      incoming.copy(chunk, 0, 0, length);
      if (line.#hearer) line.#hearer.take(chunk);
      else line.destroy(); // nobody has asked yet
      return true;
    };
    const line: NodeLine = new NodeLine(open({ onread: { buffer: incoming, callback } }), true);
    return line;
  }

  /** Of a socket that stands, or lies within another. */
  static over(socket: Socket): NodeLine {
    return new NodeLine(socket, false);
  }

  hear(hearer: Hearer): void {
    this.#hearer = hearer;
    const { socket } = this;
    socket.removeAllListeners("error");
    socket.on("error", (error) => hearer.broke(error));
    socket.on("end", () => hearer.broke());
    socket.on("close", () => hearer.broke());
    if (!this.stopsAtOnce) socket.on("data", (chunk: Buffer) => hearer.take(chunk));
  }

  write(bytes: string | Uint8Array): void {
    this.socket.write(bytes);
  }

  get isSending(): boolean {
    return this.socket.writableLength > 0;
  }

  get isDestroyed(): boolean {
    return this.socket.destroyed;
  }

  destroy(): void {
    this.socket.destroy();
  }

  protected stop(): void {
    this.socket.pause();
  }

  protected start(): void {
    this.socket.resume();
  }
}
