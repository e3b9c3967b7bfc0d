import { EgressError } from "./errors.ts";

/** `headers` by lowercase name; of one sent several times, all values joined by commas. */
export type Head = { status: number; headers: Record<string, string> };

export type Receiver = {
  head(head: Head): void;
  body(chunk: Uint8Array): void;
  end(): void;
};

const LONGEST_HEAD = 64 * 1_024;
const LONGEST_CHUNK_LINE = 4 * 1_024;
const LONGEST_TRAILER = 16 * 1_024;

type State = "head" | "length" | "until close" | "chunk size" | "chunk" | "chunk end" | "trailer" | "ended";

/**
 * Reads one HTTP/1.1 answer (RFC 9112) from bytes however they are cut, and is strict: what could be read in
 * two ways is refused, for the connection serves other requests later.
 *
 *     head ──┬─ no body ────────────────────────────────────────────> ended
 *       ↑ 1xx├─ Content-Length ──> length ──────────────────────────> ended
 *            ├─ chunked ─────────> chunk size ⇄ chunk, chunk end ──> trailer ──> ended
 *            └─ neither ─────────> until close ──(eof)──────────────> ended
 */
export class ResponseReader {
  /** Something has come; a request that got nothing may be sent again on another connection. */
  started = false;
  /** Once ended: the connection may carry another request. */
  reusable = false;
  #state: State = "head";
  #held: Buffer | undefined;
  #left = 0;
  #trailer = 0;
  /** Where in the bytes at hand lies what the chunks in them say, moved together. */
  #from = 0;
  #to = 0;

  constructor(
    readonly method: string,
    readonly to: Receiver,
  ) {}

  get ended(): boolean {
    return this.#state === "ended";
  }

  /**
   * Takes the bytes over and writes in them. Throws EgressError `other` at what is not HTTP/1.1. Bytes past the end
   * make the connection unusable.
   */
  push(chunk: Buffer): void {
    this.started = true;
    const bytes = this.#held ? Buffer.concat([this.#held, chunk]) : chunk;
    this.#held = undefined;
    for (let from = 0; from < bytes.length; ) {
      if (this.#state === "ended") {
        this.reusable = false;
        return;
      }
      const taken = this.#step(bytes, from);
      if (taken === 0) {
        this.#held = bytes.subarray(from);
        break;
      }
      from += taken;
    }
    this.#giveChunks(bytes);
  }

  /** The other side has closed. False: the answer was not whole. */
  eof(): boolean {
    if (this.#state === "until close") this.#end();
    return this.#state === "ended";
  }

  /** How many bytes from there on were used up; none when more must come first. */
  #step(bytes: Buffer, from: number): number {
    switch (this.#state) {
      case "head":
        return this.#readHead(bytes, from);
      case "length":
        return this.#readCounted(bytes, from);
      case "chunk":
        return this.#readChunk(bytes, from);
      case "until close":
        this.to.body(from === 0 ? bytes : bytes.subarray(from));
        return bytes.length - from;
      case "chunk size":
        return this.#readChunkSize(bytes, from);
      case "chunk end":
        if (bytes.length - from < 2) return 0;
        if (bytes[from] !== 13 || bytes[from + 1] !== 10)
          throw nonsense("a chunk does not end where it should");
        this.#state = "chunk size";
        return 2;
      case "trailer":
        return this.#readTrailer(bytes, from);
      case "ended":
        return bytes.length - from;
    }
  }

  #readHead(all: Buffer, from: number): number {
    const bytes = from === 0 ? all : all.subarray(from);
    const at = bytes.indexOf("\r\n\r\n");
    if (at === -1 ? bytes.length > LONGEST_HEAD : at > LONGEST_HEAD) throw nonsense("its head is too long");
    if (at === -1) {
      if (!couldBeHttp(bytes)) throw nonsense("it does not begin with HTTP/1");
      return 0;
    }
    const { minor, head } = readHead(bytes.toString("latin1", 0, at));
    if (head.status < 200) {
      if (head.status === 101) throw nonsense("it changes the protocol");
      return at + 4;
    }
    this.#frame(head, minor);
    this.to.head(head);
    if (this.#state === "length" && this.#left === 0) this.#end();
    return at + 4;
  }

  #frame({ status, headers }: Head, minor: string): void {
    const connection = headers["connection"]?.toLowerCase() ?? "";
    this.reusable = minor === "1" ? !connection.includes("close") : connection.includes("keep-alive");
    const coding = headers["transfer-encoding"]?.toLowerCase();
    const length = headers["content-length"];
    this.#left = 0;
    if (this.method === "HEAD" || status === 204 || status === 304) this.#state = "length";
    else if (coding === "chunked") {
      this.#state = "chunk size";
      // Both at once is how a request or an answer is smuggled past somebody.
      if (length !== undefined) this.reusable = false;
    } else if (coding !== undefined) throw nonsense(`its transfer-encoding is ${coding.slice(0, 40)}`);
    else if (length !== undefined) {
      this.#state = "length";
      this.#left = lengthOf(length);
    } else {
      this.#state = "until close";
      this.reusable = false;
    }
  }

  #readCounted(bytes: Buffer, from: number): number {
    const taken = Math.min(this.#left, bytes.length - from);
    this.to.body(taken === bytes.length ? bytes : bytes.subarray(from, from + taken));
    this.#left -= taken;
    if (this.#left === 0) this.#end();
    return taken;
  }

  // A model sends a chunk for every word: what came at once is given at once, without a buffer for each.
  #readChunk(bytes: Buffer, from: number): number {
    const taken = Math.min(this.#left, bytes.length - from);
    if (this.#to === 0) this.#from = this.#to = from;
    else bytes.copyWithin(this.#to, from, from + taken);
    this.#to += taken;
    this.#left -= taken;
    if (this.#left === 0) this.#state = "chunk end";
    return taken;
  }

  #giveChunks(bytes: Buffer): void {
    if (this.#to === 0) return;
    const said = bytes.subarray(this.#from, this.#to);
    this.#to = 0;
    this.to.body(said);
  }

  #readChunkSize(bytes: Buffer, from: number): number {
    let size = 0;
    let at = from;
    for (let digit = hexDigit(bytes[at]); digit !== -1; digit = hexDigit(bytes[++at]))
      size = size * 16 + digit;
    const isUsual = at > from && at <= from + 8 && bytes[at] === 13 && bytes[at + 1] === 10;
    if (isUsual) at += 2;
    else {
      const end = bytes.indexOf("\r\n", from);
      if (end === -1) {
        if (bytes.length - from > LONGEST_CHUNK_LINE) throw nonsense("a chunk's size is too long");
        return 0;
      }
      const digits = CHUNK_SIZE.exec(bytes.toString("latin1", from, end))?.[1];
      if (digits === undefined) throw nonsense("a chunk has no size");
      size = Number.parseInt(digits, 16);
      at = end + 2;
    }
    this.#left = size;
    this.#state = size === 0 ? "trailer" : "chunk";
    return at - from;
  }

  #readTrailer(bytes: Buffer, from: number): number {
    const at = bytes.indexOf("\r\n", from);
    const length = at === -1 ? 0 : at + 2 - from;
    this.#trailer += length;
    if (this.#trailer + (at === -1 ? bytes.length - from : 0) > LONGEST_TRAILER)
      throw nonsense("its trailer is too long");
    if (at === from) {
      this.#giveChunks(bytes);
      this.#end();
    }
    return length;
  }

  #end(): void {
    this.#state = "ended";
    this.to.end();
  }
}

/** With extensions behind it, which say nothing that is asked for here. */
const CHUNK_SIZE = /^([0-9a-f]{1,8})[ \t]*(?:;|$)/i;

function hexDigit(code: number | undefined): number {
  if (code === undefined) return -1;
  if (code >= 48 && code <= 57) return code - 48;
  const lower = code | 32;
  return lower >= 97 && lower <= 102 ? lower - 87 : -1;
}

const nonsense = (why: string) => new EgressError("other", `the answer is not valid HTTP: ${why}`);

const STATUS_LINE = /^HTTP\/1\.([01]) (\d{3})(?: |$)/;
const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const START = "HTTP/1.";

const couldBeHttp = (bytes: Buffer): boolean => START.startsWith(bytes.toString("latin1", 0, START.length));

type Read = { minor: string; head: Head };

// A receiver says the same to everybody within a second, by when its Date moves on.
const heads = new Map<string, Read>();
const MOST_HEADS = 64;
const LONGEST_KEPT = 1_024;

function readHead(text: string): Read {
  const known = heads.get(text);
  if (known) return known;
  const read = parseHead(text);
  if (text.length > LONGEST_KEPT) return read;
  Object.freeze(read.head.headers);
  if (heads.size >= MOST_HEADS) heads.clear();
  heads.set(text, read);
  return read;
}

function parseHead(text: string): Read {
  const lines = text.split("\r\n");
  const first = STATUS_LINE.exec(lines[0]!);
  if (!first) throw nonsense("it does not begin with a status");
  const headers: Record<string, string> = Object.create(null);
  for (let index = 1; index < lines.length; index++) {
    const line = lines[index]!;
    const colon = line.indexOf(":");
    const name = line.slice(0, colon).toLowerCase();
    if (colon < 1 || !NAME.test(name)) throw nonsense("a header has no name");
    const value = line.slice(colon + 1).trim();
    headers[name] = headers[name] === undefined ? value : `${headers[name]}, ${value}`;
  }
  return { minor: first[1]!, head: { status: Number(first[2]), headers } };
}

function lengthOf(text: string): number {
  const [first, ...others] = text.split(",").map((each) => each.trim());
  const length = Number(first);
  if (!/^\d{1,15}$/.test(first ?? "") || others.some((each) => each !== first))
    throw nonsense("its length cannot be read");
  return length;
}
