import Type, { type Static } from "typebox";
import { dataStream } from "../http/data-stream.ts";
import type { StreamProtocol } from "../http/message-stream.ts";
import { uiMessageStream } from "../http/ui-message-stream.ts";
import { isObject } from "../lib/json.ts";
import { query } from "../lib/schema.ts";

const written = {
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
export const StreamQuery = query(Type.Object(written));
export type StreamQuery = Static<typeof StreamQuery.schema>;

const ended = Type.Boolean({
  default: false,
  description: "Also an answer that ended within the last minute.",
});
export const ResumeQuery = query(Type.Object({ ...written, ended }));
export const ResumeByChatQuery = query(
  Type.Object({
    ...written,
    ended,
    chatId: Type.String({ minLength: 1, maxLength: 200, description: "The conversation, by either id." }),
  }),
);

export const StopQuery = query(
  Type.Object({
    execution_id: Type.Optional(
      Type.String({ maxLength: 100, description: "Only this answer; without it all of the conversation." }),
    ),
  }),
);
export type StopQuery = Static<typeof StopQuery.schema>;

const TRIGGERS: unknown[] = ["submit-message", "regenerate-message", "resume-stream"];

/**
 * Which of the two protocols a request wants: by the query, then by Accept, then by the body, where AI SDK 5
 * and later send a `trigger`; else the data stream (design 3).
 */
export const protocolOf = (request: Request, asked: StreamQuery, body?: unknown): StreamProtocol =>
  chosen(request, asked, isObject(body) && TRIGGERS.includes(body["trigger"]));

/** The same where the address is one that only AI SDK 5 and later ask for. */
export const newProtocolOf = (request: Request, asked: StreamQuery): StreamProtocol =>
  chosen(request, asked, true);

function chosen(request: Request, { protocol, approvals }: StreamQuery, isNew: boolean): StreamProtocol {
  const accept = request.headers.get("accept") ?? "";
  const wanted =
    protocol ??
    (accept.includes("text/event-stream")
      ? "ui-message-stream"
      : accept.includes("text/plain") || !isNew
        ? "data-stream"
        : "ui-message-stream");
  return wanted === "ui-message-stream" ? uiMessageStream({ approvals }) : dataStream;
}
