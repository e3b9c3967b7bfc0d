import { AppError, invalidField } from "../lib/errors.ts";
import type { BodyKind, RequestContext } from "./context.ts";
import { parseMultipart, parseUrlencoded } from "./form.ts";
import type { Route } from "./routes.ts";

export const MOST_DEPTH = 64;

// A declared body up to this many times the limit is read off and thrown away by the server, so that the
// client gets to read its answer; beyond it the connection is closed.
const PATIENCE = 16;

/**
 * Reads and checks a request's body into the context: media type, encoding, size, UTF-8, depth, and the
 * JSON that parses but does not survive storage. Throws an AppError for the first thing wrong.
 */
export async function readBody(
  request: Request,
  route: Route,
  context: RequestContext,
  limit: number,
): Promise<void> {
  const { headers } = request;
  const length = headers.get("content-length");
  const sent = length === null ? headers.get("transfer-encoding") !== null : length !== "0";
  if (!sent) return refuseMissing(route);

  const kind = mediaKind(headers.get("content-type"), route.media);
  const encoding = headers.get("content-encoding");
  if (encoding !== null && encoding.toLowerCase() !== "identity") {
    throw new AppError(
      "unsupported_media_type",
      "Compressed bodies are not taken: send it without Content-Encoding.",
    );
  }
  const bytes =
    length === null ? await readChunks(request, limit) : await readDeclared(request, Number(length), limit);
  if (bytes.length === 0) return refuseMissing(route);
  context.bytes = bytes.length;
  context.sent = bytes;
  context.kind = kind === "multipart" ? "form" : kind;
  // Before its text is looked at: a file's bytes are none, and the refusal is to name the field.
  if (kind === "multipart") {
    context.body = await parseMultipart(bytes, headers.get("content-type")!, takesAny(route.media));
  }
  context.raw = kind === "text" || kind === "multipart" ? decodeAny(bytes, route) : decode(bytes);
  if (kind === "json") context.body = parseJson(bytes, context.raw);
  else if (kind === "form") context.body = parseUrlencoded(context.raw);
  else if (kind === "text") context.body = context.raw;
}

function refuseMissing(route: Route): void {
  if (route.takesBody) throw invalidField("", "a JSON body", "nothing", "A JSON body is required.");
}

type Kind = BodyKind | "multipart";

const takesAny = (media: readonly string[]): boolean => media.includes("*/*");

function mediaKind(header: string | null, extra: readonly string[]): Kind {
  if (header === "application/json") return "json";
  const any = takesAny(extra);
  if (header === null) {
    if (any) return "text";
    throw unsupported("nothing", extra);
  }
  const [type = "", ...parameters] = header.toLowerCase().split(";");
  const media = type.trim();
  const charset = parameters.map((part) => part.trim()).filter((part) => part !== "");
  const utf8 = charset.every(
    (part) => !part.startsWith("charset=") || /^charset="?(utf-?8|us-ascii)"?$/.test(part),
  );
  if (!utf8) throw unsupported("another character set", extra);
  if (
    media === "application/json" &&
    charset.length <= 1 &&
    charset.every((part) => part.startsWith("charset="))
  ) {
    return "json";
  }
  if (!any && !extra.includes(media))
    throw unsupported(media.length < 80 ? media : "another media type", extra);
  if (media === "application/json" || media.endsWith("+json")) return "json";
  if (media === "application/x-www-form-urlencoded") return "form";
  return media === "multipart/form-data" ? "multipart" : "text";
}

function unsupported(received: string, extra: readonly string[]): AppError {
  const taken = ["application/json", ...extra].join(", ");
  return new AppError("unsupported_media_type", `Content-Type must be ${taken}.`, {
    faults: [{ field: "content-type", expected: taken, received }],
    headers: { accept: taken },
  });
}

const tooLarge = (limit: number, headers?: Record<string, string>) =>
  new AppError("payload_too_large", `The body is larger than ${limit} bytes.`, {
    faults: [{ field: "", expected: `at most ${limit} bytes`, received: "more" }],
    headers,
  });

const cutShort = () => invalidField("", "a whole body", "a part of it", "The body ended early.");

async function readDeclared(request: Request, length: number, limit: number): Promise<Uint8Array> {
  if (!(length <= limit))
    throw tooLarge(limit, length > limit * PATIENCE ? { connection: "close" } : undefined);
  try {
    return await request.bytes();
  } catch {
    throw cutShort();
  }
}

async function readChunks(request: Request, limit: number): Promise<Uint8Array> {
  const reader = request.body?.getReader();
  if (!reader) return new Uint8Array();
  const chunks: Uint8Array[] = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read().catch(() => Promise.reject(cutShort()));
    if (done) break;
    size += value.length;
    if (size > limit) {
      void reader.cancel().catch(() => {});
      throw tooLarge(limit, { connection: "close" });
    }
    chunks.push(value);
  }
  return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size);
}

const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function decode(bytes: Uint8Array): string {
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) {
    throw invalidField("", "UTF-8 without a byte order mark", "a byte order mark");
  }
  try {
    return strictUtf8.decode(bytes);
  } catch {
    throw invalidField("", "UTF-8", "bytes that are not UTF-8");
  }
}

/** Where any media type is taken, what is sent need not be text at all; its bytes are kept beside it. */
const decodeAny = (bytes: Uint8Array, { media }: Route): string =>
  takesAny(media) ? new TextDecoder().decode(bytes) : decode(bytes);

/** Parses checked JSON text; refuses what would change on its way through storage or merging. */
export function parseJson(bytes: Uint8Array, text: string): unknown {
  const { depth, odd } = inspectJson(bytes);
  if (depth > MOST_DEPTH) throw invalidField("", `JSON at most ${MOST_DEPTH} levels deep`, "deeper nesting");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw invalidField("", "JSON", "text that is not JSON", "The body is not valid JSON.");
  }
  if (odd || text.includes("__proto__")) refuseOdd(value, "");
  return value;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const LETTER_U = 0x75;

const LONG_TEXT = 1_024;
const indexOr = (other: number, index: number): number => (index === -1 ? other : index);

// A number of this many digits may be past what a double holds.
const LONG_NUMBER = 300;

/**
 * One pass over the bytes, before anything recurses into them: how deep they nest, and whether they hold
 * what only the parsed value can settle (`\u` escapes, exponents, endless digits).
 */
export function inspectJson(bytes: Uint8Array): { depth: number; odd: boolean } {
  let depth = 0;
  let deepest = 0;
  let odd = false;
  let digits = 0;
  for (let i = 0; i < bytes.length; i++) {
    let byte = bytes[i]!;
    if (byte === QUOTE) {
      digits = 0;
      const long = i + LONG_TEXT;
      let quote = 0;
      for (i++; i < bytes.length; i++) {
        if (i > long) {
          // A picture in base64: the rest of it up to the next quote or escape is skipped at once.
          if (quote < i) quote = indexOr(bytes.length, bytes.indexOf(QUOTE, i));
          i += indexOr(quote - i, bytes.subarray(i, quote).indexOf(BACKSLASH));
        }
        byte = bytes[i]!;
        if (byte === QUOTE) break;
        if (byte === BACKSLASH && bytes[++i] === LETTER_U) odd = true;
      }
    } else if (byte === 0x7b || byte === 0x5b) {
      if (++depth > deepest) deepest = depth;
    } else if (byte === 0x7d || byte === 0x5d) {
      depth--;
      digits = 0;
    } else if (byte >= 0x30 && byte <= 0x39) {
      if (++digits > LONG_NUMBER) odd = true;
    } else {
      if ((byte === 0x65 || byte === 0x45) && digits > 0) odd = true;
      digits = 0;
    }
  }
  return { depth: deepest, odd };
}

// The recursion is as deep as the depth gate allows.
function refuseOdd(value: unknown, at: string): void {
  if (typeof value === "string") {
    if (!value.isWellFormed()) throw invalidField(at, "well-formed text", "half of a surrogate pair");
  } else if (typeof value === "number") {
    if (!Number.isFinite(value)) throw invalidField(at, "a number within range", "a number too large");
  } else if (typeof value === "object" && value !== null) {
    for (const key of Object.keys(value)) {
      if (key === "__proto__") throw invalidField(at, "no property of that name", "__proto__");
      if (!key.isWellFormed()) throw invalidField(at, "well-formed names", "half of a surrogate pair");
      refuseOdd((value as Record<string, unknown>)[key], at === "" ? key : `${at}.${key}`);
    }
  }
}
