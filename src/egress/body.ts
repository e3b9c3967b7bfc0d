import { Readable, type Transform } from "node:stream";
import zlib from "node:zlib";
import type { Answer } from "./answer.ts";
import { EgressError } from "./errors.ts";

const DECODERS: Record<string, () => Transform> = {
  gzip: () => zlib.createGunzip(),
  "x-gzip": () => zlib.createGunzip(),
  deflate: () => zlib.createInflate(),
  br: () => zlib.createBrotliDecompress(),
};

/** A body that came whole with the head and is no longer than `max` bytes, as nearly all are: nothing to wait for. */
export function come(
  { headers, body }: Answer,
  max: number,
): { body: Uint8Array; truncated: false } | undefined {
  if (headers["content-encoding"] !== undefined || !body.isEnded || body.size > max) return undefined;
  return { body: body.take() ?? EMPTY, truncated: false };
}

const EMPTY = new Uint8Array(0);

/**
 * Reads a body until `max` bytes, counted after decompression; what is longer is cut and its connection
 * closed, so neither an endless body nor a bomb costs more than `max` and one chunk.
 */
export async function collect(
  answer: Answer,
  max: number,
): Promise<{ body: Uint8Array; truncated: boolean }> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  const take = (chunk: Uint8Array): boolean => {
    chunks.push(chunk);
    size += chunk.length;
    return size > max;
  };
  const cut = () => {
    answer.body.destroy();
    return { body: join(chunks, max), truncated: true };
  };
  for await (const chunk of decoded(answer)) if (take(chunk)) return cut();
  return { body: join(chunks, size), truncated: false };
}

/** The same bytes as they come; throws past `max`. Leaving the loop early closes the connection. */
export async function* chunksOf(answer: Answer, max: number): AsyncGenerator<Uint8Array> {
  let size = 0;
  try {
    for await (const chunk of decoded(answer)) {
      size += chunk.length;
      if (size > max) throw new EgressError("other", `the answer is longer than ${max} bytes`);
      yield chunk;
    }
  } finally {
    answer.body.destroy();
  }
}

async function* decoded({ headers, body }: Answer): AsyncGenerator<Uint8Array> {
  const decoder = DECODERS[headers["content-encoding"]?.trim().toLowerCase() ?? ""]?.();
  if (!decoder) {
    yield* body;
    return;
  }
  // An answer to HEAD names an encoding and has no body: nothing is decoded then.
  const first = await body.read();
  if (!first) return;
  let broken: unknown;
  const source = Readable.from(rest(first, body));
  source.on("error", (error) => {
    broken = error;
    decoder.destroy(error);
  });
  try {
    for await (const chunk of source.pipe(decoder)) yield chunk as Uint8Array;
  } catch {
    throw broken ?? new EgressError("other", "the body does not fit its content-encoding");
  } finally {
    source.destroy();
    decoder.destroy();
  }
}

async function* rest(first: Uint8Array, body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield first;
  yield* body;
}

function join(chunks: Uint8Array[], length: number): Uint8Array {
  const first = chunks[0];
  if (!first) return new Uint8Array(0);
  if (chunks.length === 1) return first.subarray(0, length);
  return Buffer.concat(chunks).subarray(0, length);
}
