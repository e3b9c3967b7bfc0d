import Type, { type Static } from "typebox";
import { dataStream } from "../http/data-stream.ts";
import type { StreamProtocol } from "../http/message-stream.ts";
import { uiMessageStream } from "../http/ui-message-stream.ts";
import { isObject } from "../lib/json.ts";
import { query } from "../lib/schema.ts";

const asked = {
  protocol: Type.Optional(
    Type.Enum(["data-stream", "ui-message-stream"], {
      description: "How the stream is written; else Accept, then the body's `trigger` decides.",
    }),
  ),
  approvals: Type.Optional(
    Type.Boolean({
      default: false,
      description: "Also send tool-approval-request chunks, which clients of AI SDK 5 do not know.",
    }),
  ),
};
export const StreamQuery = query(Type.Object(asked));
export type StreamQuery = Static<typeof StreamQuery.schema>;

const TRIGGERS: unknown[] = ["submit-message", "regenerate-message", "resume-stream"];

/**
 * Which of the two protocols a request wants: by the query, then by Accept, then by the body, where AI SDK 5
 * and later send a `trigger`; else the data stream (design 3).
 */
export function protocolOf(request: Request, asked: StreamQuery, body?: unknown): StreamProtocol {
  return isUiMessageStream(request.headers.get("accept") ?? "", asked.protocol, body)
    ? uiMessageStream({ approvals: asked.approvals })
    : dataStream;
}

function isUiMessageStream(accept: string, protocol: StreamQuery["protocol"], body: unknown): boolean {
  if (protocol !== undefined) return protocol === "ui-message-stream";
  if (accept.includes("text/event-stream")) return true;
  if (accept.includes("text/plain")) return false;
  return isObject(body) && TRIGGERS.includes(body["trigger"]);
}
