import type { Beat } from "../lib/beat.ts";
import { type Answer, Body, type Flow } from "./answer.ts";
import { EgressError, toEgressError } from "./errors.ts";
import { Gathering } from "./gathering.ts";
import { type Hop, linesOf } from "./hop.ts";
import type { Limit } from "./limit.ts";
import type { Line } from "./line.ts";
import { type Head, type Receiver, ResponseReader } from "./response-reader.ts";

/** The receiver closed an idle connection just as a request took it: nothing of an answer came. */
export class StaleConnection extends Error {
  constructor(override readonly cause: EgressError) {
    super(cause.message);
  }
}

/** A request as it goes on the wire. */
export type Outgoing = { method: string; bytes: string | Uint8Array; trickles: boolean };

/** A request that is under way and what comes of it. */
class Exchange implements Receiver {
  readonly reader: ResponseReader;
  readonly content: Body;
  readonly gathering: Gathering | undefined;

  constructor(
    flow: Flow,
    { method, trickles }: Outgoing,
    readonly resolve: (answer: Answer) => void,
    readonly reject: (error: Error) => void,
  ) {
    this.content = new Body(flow);
    this.reader = new ResponseReader(method, this);
    this.gathering = trickles ? new Gathering() : undefined;
  }

  head({ status, headers }: Head): void {
    this.resolve({ status, headers, body: this.content });
  }

  body(chunk: Uint8Array): void {
    this.content.push(chunk);
  }

  end(): void {
    this.content.end();
  }
}

/** `ended`: an answer came whole and the connection can carry another request; `closed`: it cannot any more. */
export type WireEvents = { ended(wire: Wire): void; closed(wire: Wire): void };

/**
 * One connection, one request at a time. node:http does the same and much more, for four times the work a
 * request; what leaves Errand needs no more than this.
 */
export class Wire implements Flow {
  readonly #line: Line;
  readonly #beat: Beat;
  readonly #events: WireEvents;
  #exchange: Exchange | undefined;
  #uses = 0;
  #unsent: string | Uint8Array | undefined;
  readonly #end = (error: EgressError) => this.#fail(error);

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
    line.hear({
      take: (chunk) => this.#read(chunk),
      broke: (error) => this.#broke(error === undefined ? cutOff() : toEgressError(error)),
    });
  }

  /** Resolves with the answer's head; rejects with EgressError, or StaleConnection on a connection used before. */
  send(request: Outgoing, limit: Limit): Promise<Answer> {
    this.#uses++;
    return new Promise((resolve, reject) => {
      this.#exchange = new Exchange(this, request, resolve, reject);
      limit.onEnd(this.#end);
      if (!this.#exchange) return;
      this.#unsent = request.bytes;
      sendSoon(this);
    });
  }

  /** Sends what waits for that. */
  flush(): void {
    const bytes = this.#unsent;
    this.#unsent = undefined;
    if (bytes !== undefined && this.#exchange) this.#line.write(bytes);
  }

  pause(): void {
    this.#line.pause();
  }

  resume(): void {
    this.#line.resume();
  }

  destroy(): void {
    this.#line.destroy();
    this.#events.closed(this);
  }

  #read(chunk: Buffer): void {
    const exchange = this.#exchange;
    if (!exchange) {
      this.destroy(); // nobody asked
      return;
    }
    if (this.#unsent !== undefined) {
      this.#fail(new EgressError("connection_reset", "an answer came before its request"));
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
    if (reusable && !this.#line.isSending) {
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
    exchange.content.fail(error);
    exchange.reject(isStale ? new StaleConnection(error) : error); // of no effect once the head has come
  }
}

/**
 * Requests of one turn go out together, this many at a time: to send wakes whoever listens, which costs more than
 * all the rest of it, and whoever is awake already need not be woken.
 */
const TOGETHER = 32;
let unsent: Wire[] = [];

function sendSoon(wire: Wire): void {
  unsent.push(wire);
  if (unsent.length === TOGETHER) sendAll();
  else if (unsent.length === 1) setImmediate(sendAll);
}

function sendAll(): void {
  const wires = unsent;
  unsent = [];
  for (const wire of wires) wire.flush();
}

const cutOff = () =>
  new EgressError("connection_reset", "the connection was closed before the answer was complete");

const METHOD = /^[A-Z]{1,32}$/;
/**
 * Throws EgressError `other` for what cannot be a header: a line break in a value would be a second header.
 * `proxyHeaders`: a proxy carries it, which is asked by the whole address and gets these as well.
 */
export function outgoing(
  { target, method, headers, alike, body, trickles = false }: Hop,
  proxyHeaders?: Record<string, string>,
): Outgoing {
  if (!METHOD.test(method)) throw new EgressError("other", "the method is not one");
  const lines = linesOf(headers);
  const isPlain = lines.isPlain && alike?.isPlain !== false;
  let head = `${method} ${proxyHeaders ? target.origin : ""}${target.path} HTTP/1.1\r\nhost: ${target.url.host}\r\n`;
  if (proxyHeaders) for (const name in proxyHeaders) head += `${name}: ${proxyHeaders[name]}\r\n`;
  if (body !== undefined) head += `content-length: ${Buffer.byteLength(body)}\r\n`;
  head += `${lines.text}${alike?.text ?? ""}\r\n`;
  // As text it is encoded where it is sent, and no buffer is made for it.
  if (isPlain && typeof body !== "object") return { method, bytes: head + (body ?? ""), trickles };
  return { method, bytes: Buffer.concat([Buffer.from(head, "latin1"), Buffer.from(body ?? "")]), trickles };
}
