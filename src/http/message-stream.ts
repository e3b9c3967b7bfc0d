import type { PartLog, StreamPart } from "./part-log.ts";

/** How a log of parts is written down for a client. */
export type StreamProtocol = {
  headers: Record<string, string>;
  /** Sent in silences: nothing that a client would show. */
  heartbeat: string;
  /** One reader's writer; it may remember what it has written. */
  writer(): { part(part: StreamPart): string; end(): string };
};

const HEARTBEAT_MS = 10_000;
const LARGEST_CHUNK = 16_384;

/**
 * Answers with a log from its beginning on: what there is, then what comes, a heartbeat in silences so
 * that nothing between takes the connection for dead. Pulled, so a client that does not read costs
 * nothing; a client that goes away ends its own reading and nothing else.
 */
export function streamResponse(
  log: PartLog,
  protocol: StreamProtocol,
  headers: Record<string, string> = {},
): Response {
  const encoder = new TextEncoder();
  const writer = protocol.writer();
  let cursor = 0;
  let isGone = false;
  let isEnded = false;
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        for (;;) {
          let text = "";
          while (cursor < log.parts.length && text.length < LARGEST_CHUNK) {
            text += writer.part(log.parts[cursor++]!);
          }
          if (cursor === log.parts.length && log.done && !isEnded) {
            isEnded = true;
            text += writer.end();
          }
          if (text) return controller.enqueue(encoder.encode(text));
          if (isEnded) return controller.close();
          if (cursor < log.parts.length) continue; // parts that this protocol has no words for
          const hasMore = await log.changed(HEARTBEAT_MS);
          if (isGone) return;
          if (!hasMore) return controller.enqueue(encoder.encode(protocol.heartbeat));
        }
      },
      cancel() {
        isGone = true;
      },
    },
    { highWaterMark: 0 },
  );
  return new Response(body, {
    headers: {
      ...protocol.headers,
      "cache-control": "no-cache",
      "x-accel-buffering": "no",
      vary: "accept",
      ...headers,
    },
  });
}
