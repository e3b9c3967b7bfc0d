import type { IncomingMessage } from "node:http";
import type { Transform } from "node:stream";
import zlib from "node:zlib";
import { EgressError, toEgressError } from "./errors.ts";

const DECODERS: Record<string, () => Transform> = {
  gzip: () => zlib.createGunzip(),
  "x-gzip": () => zlib.createGunzip(),
  deflate: () => zlib.createInflate(),
  br: () => zlib.createBrotliDecompress(),
};

const decoderOf = (message: IncomingMessage): Transform | undefined =>
  DECODERS[message.headers["content-encoding"]?.trim().toLowerCase() ?? ""]?.();

/**
 * Reads a body until `max` bytes, counted after decompression; what is longer is cut and its connection
 * closed, so neither an endless body nor a bomb costs more than `max` and one chunk.
 */
export function collect(
  message: IncomingMessage,
  max: number,
): Promise<{ body: Uint8Array; truncated: boolean }> {
  return new Promise((resolve, reject) => {
    const chunks: Uint8Array[] = [];
    let size = 0;
    let received = 0;
    let decoder: Transform | undefined;
    const finish = (truncated: boolean) => {
      if (truncated) {
        message.destroy();
        decoder?.destroy();
      }
      resolve({ body: join(chunks, Math.min(size, max)), truncated });
    };
    const fail = (error: unknown) => {
      message.destroy();
      reject(toEgressError(error));
    };
    const take = (chunk: Uint8Array) => {
      if (size > max) return;
      chunks.push(chunk);
      size += chunk.length;
      if (size > max) finish(true);
    };
    message.on("error", fail);
    message.on("data", (chunk: Uint8Array) => {
      // The decoder is made for the first byte only: an answer to HEAD names an encoding and has no body.
      if (received === 0) {
        decoder = decoderOf(message);
        decoder?.on("data", take);
        decoder?.on("end", () => finish(false));
        decoder?.on("error", () => fail(undecodable()));
      }
      received += chunk.length;
      if (!decoder) take(chunk);
      else if (!decoder.write(chunk)) {
        message.pause();
        decoder.once("drain", () => message.resume());
      }
    });
    message.on("end", () => (decoder ? decoder.end() : finish(false)));
  });
}

/** The same bytes as they come; throws past `max`. Leaving the loop early closes the connection. */
export async function* chunksOf(message: IncomingMessage, max: number): AsyncGenerator<Uint8Array> {
  const decoder = decoderOf(message);
  // An error of the message does not pass a pipe by itself.
  if (decoder) message.on("error", (error) => decoder.destroy(error));
  let size = 0;
  try {
    for await (const chunk of decoder ? message.pipe(decoder) : message) {
      size += (chunk as Uint8Array).length;
      if (size > max) throw new EgressError("other", `the answer is longer than ${max} bytes`);
      yield chunk as Uint8Array;
    }
  } catch (error) {
    throw toEgressError(error);
  } finally {
    message.destroy();
  }
}

const undecodable = () => new EgressError("other", "the body does not fit its content-encoding");

function join(chunks: Uint8Array[], length: number): Uint8Array {
  const first = chunks[0];
  if (!first) return new Uint8Array(0);
  if (chunks.length === 1) return first.subarray(0, length);
  return Buffer.concat(chunks).subarray(0, length);
}
