import type { Beat } from "../lib/beat.ts";
import { type Answer, Body } from "./answer.ts";
import { EgressError, toEgressError } from "./errors.ts";
import { Gathering } from "./gathering.ts";
import type { Hop } from "./hop.ts";
import type { Limit } from "./limit.ts";
import type { Line } from "./line.ts";
import { ResponseReader } from "./response-reader.ts";

/** The receiver closed an idle connection just as a request took it: nothing of an answer came. */
export class StaleConnection extends Error {
  constructor(override readonly cause: EgressError) {
    super(cause.message);
  }
}

/** A request as it goes on the wire. */
export type Outgoing = { method: string; bytes: Uint8Array; trickles: boolean };

type Exchange = {
  gathering: Gathering | undefined;
  reader: ResponseReader;
  body: Body;
  reject(error: Error): void;
};

/** `ended`: an answer came whole and the connection can carry another request; `closed`: it cannot any more. */
export type WireEvents = { ended(wire: Wire): void; closed(wire: Wire): void };

/**
 * One connection, one request at a time. node:http does the same and much more, for four times the work a
 * request; what leaves Errand needs no more than this.
 */
export class Wire {
  readonly #line: Line;
  readonly #beat: Beat;
  readonly #events: WireEvents;
  #exchange: Exchange | undefined;
  #uses = 0;

  /** Takes a connected socket over. */
  constructor(
    readonly key: string,
    line: Line,
    beat: Beat,
    events: WireEvents,
  ) {
    this.#line = line;
    this.#beat = beat;
    this.#events = events;
    const { socket } = line;
    socket.removeAllListeners("error");
    socket.on("error", (error) => this.#broke(toEgressError(error)));
    line.hear((chunk) => this.#read(chunk));
    socket.on("end", () => this.#broke(cutOff()));
    socket.on("close", () => this.#broke(cutOff()));
  }

  /** Resolves with the answer's head; rejects with EgressError, or StaleConnection on a connection used before. */
  send({ method, bytes, trickles }: Outgoing, limit: Limit): Promise<Answer> {
    this.#uses++;
    return new Promise((resolve, reject) => {
      const line = this.#line;
      const body = new Body({
        pause: () => line.pause(),
        resume: () => line.resume(),
        destroy: () => this.destroy(),
      });
      const reader = new ResponseReader(method, {
        head: ({ status, headers }) => resolve({ status, headers, body }),
        body: (chunk) => body.push(chunk),
        end: () => body.end(),
      });
      const gathering = trickles ? new Gathering() : undefined;
      this.#exchange = { gathering, reader, body, reject };
      limit.onEnd((error) => this.#fail(error));
      if (this.#exchange) line.socket.write(bytes);
    });
  }

  destroy(): void {
    this.#line.socket.destroy();
    this.#events.closed(this);
  }

  #read(chunk: Buffer): void {
    const exchange = this.#exchange;
    if (!exchange) {
      this.destroy(); // nobody asked
      return;
    }
    const { reader } = exchange;
    try {
      reader.push(chunk);
    } catch (error) {
      this.#fail(toEgressError(error));
      return;
    }
    if (reader.ended) this.#finish(reader);
    else if (this.#beat.isBusy && exchange.gathering?.pays(chunk.length, this.#beat.now())) {
      this.#line.rest(this.#beat);
    }
  }

  #finish({ reusable }: ResponseReader): void {
    this.#exchange = undefined;
    // An answer that overtook its request leaves the rest of that on the way.
    if (reusable && this.#line.socket.writableLength === 0) {
      this.#line.resume();
      this.#events.ended(this);
    } else this.destroy();
  }

  #broke(error: EgressError): void {
    const exchange = this.#exchange;
    if (exchange?.reader.eof()) this.#finish(exchange.reader);
    else this.#fail(error);
  }

  #fail(error: EgressError): void {
    const exchange = this.#exchange;
    this.#exchange = undefined;
    this.destroy();
    if (!exchange) return;
    const isStale = this.#uses > 1 && !exchange.reader.started && error.class === "connection_reset";
    exchange.body.fail(error);
    exchange.reject(isStale ? new StaleConnection(error) : error); // of no effect once the head has come
  }
}

const cutOff = () =>
  new EgressError("connection_reset", "the connection was closed before the answer was complete");

const METHOD = /^[A-Z]{1,32}$/;
const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const FORBIDDEN = /[^\t\x20-\x7e\x80-\xff]/;

/**
 * Throws EgressError `other` for what cannot be a header: a line break in a value would be a second header.
 * `proxyHeaders`: a proxy carries it, which is asked by the whole address and gets these as well.
 */
export function outgoing(
  { target, method, headers: own, body, trickles = false }: Hop,
  proxyHeaders?: Record<string, string>,
): Outgoing {
  if (!METHOD.test(method)) throw new EgressError("other", "the method is not one");
  const headers = proxyHeaders ? { ...own, ...proxyHeaders } : own;
  const address = proxyHeaders ? target.url.origin + target.path : target.path;
  let head = `${method} ${address} HTTP/1.1\r\n`;
  for (const name in headers) {
    const value = headers[name]!;
    if (!NAME.test(name)) throw new EgressError("other", "a header's name has forbidden characters");
    if (FORBIDDEN.test(value)) throw new EgressError("other", `header ${name} has forbidden characters`);
    head += `${name}: ${value}\r\n`;
  }
  head += "\r\n";
  const bytes = Buffer.allocUnsafe(head.length + (body?.length ?? 0));
  bytes.write(head, 0, "latin1");
  if (body) bytes.set(body, head.length);
  return { method, bytes, trickles };
}
