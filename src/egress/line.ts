import type { Socket } from "node:net";
import type { Beat } from "../lib/beat.ts";

type OnRead = { buffer: Uint8Array; callback(length: number, bytes: Uint8Array): boolean };

// What comes is copied out of it before the next can.
const incoming = Buffer.allocUnsafeSlow(64 * 1_024);

/**
 * A socket whose bytes go straight to whoever takes them: node's stream of them does more for each piece than
 * reading an answer does, and reads on for a while when it is told to pause.
 */
export class Line {
  readonly socket: Socket;
  /** Whether pausing ceases to read. */
  readonly #isDirect: boolean;
  #take: ((chunk: Buffer) => void) | undefined;
  #isPaused = false;
  #isResting = false;

  private constructor(socket: Socket, isDirect: boolean) {
    this.socket = socket;
    this.#isDirect = isDirect;
  }

  /** `open` makes the socket, with what it is given among its options. */
  static direct(open: (options: { onread: OnRead }) => Socket): Line {
    const callback = (length: number) => {
      line.#give(Buffer.from(incoming.subarray(0, length)));
      return true;
    };
    const line: Line = new Line(open({ onread: { buffer: incoming, callback } }), true);
    return line;
  }

  /** Of a socket that stands, or lies within another. */
  static over(socket: Socket): Line {
    return new Line(socket, false);
  }

  /** Takes whatever comes from now on. */
  hear(take: (chunk: Buffer) => void): void {
    this.#take = take;
    if (!this.#isDirect) this.socket.on("data", take);
  }

  pause(): void {
    this.#isPaused = true;
    this.socket.pause();
  }

  resume(): void {
    this.#isPaused = false;
    if (!this.#isResting) this.socket.resume();
  }

  /** Reads nothing until the next beat: what comes by then is read in one. */
  rest(beat: Beat): void {
    if (!this.#isDirect || this.#isResting) return;
    this.#isResting = true;
    this.socket.pause();
    beat.later(() => {
      this.#isResting = false;
      if (!this.#isPaused && !this.socket.destroyed) this.socket.resume();
    });
  }

  #give(chunk: Buffer): void {
    if (this.#take) this.#take(chunk);
    else this.socket.destroy(); // nobody has asked yet
  }
}
