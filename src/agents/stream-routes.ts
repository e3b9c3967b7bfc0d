import { Elysia } from "elysia";
import Type from "typebox";
import { startContext } from "../hooks/idempotency.ts";
import { responses, textOf } from "../http/answers.ts";
import { contextOf } from "../http/context.ts";
import { type StreamProtocol, streamResponse } from "../http/message-stream.ts";
import { policies } from "../http/policy.ts";
import { json } from "../lib/schema.ts";
import type { Conversations } from "./conversations.ts";
import { forStrangers, withoutRetold } from "./for-whom.ts";
import type { LiveTurn } from "./live-turns.ts";
import { Stopped } from "./record-schema.ts";
import { readStreamBody } from "./stream-body.ts";
import {
  newProtocolOf,
  protocolOf,
  ResumeByChatQuery,
  ResumeQuery,
  StopQuery,
  StreamQuery,
} from "./stream-protocol.ts";
import type { Turns } from "./turns.ts";

const tags = ["agents"];
/** Ten pictures of five megabytes, in base64. */
const LARGEST_BODY = 72 * 1024 * 1024;

const ANSWER = {
  description: "The answer as it is made: lines of the data stream, or the UI message stream as events.",
  content: textOf("text/plain", "text/event-stream"),
  headers: ["x-conversation-id", "x-service-ai-data-stream"],
};
const STREAM = responses({ 200: ANSWER });
const RESUMED = responses({ 200: ANSWER, 204: { description: "Nothing is being answered." } });

// Open: chat clients send much that is theirs alone. What counts is read by `readStreamBody`.
const StreamBody = json(
  Type.Object({
    id: Type.Optional(
      Type.Unknown({ description: "Threads messages into one conversation; made where missing." }),
    ),
    messages: Type.Unknown({ description: "Messages of a chat client; the last one counts." }),
  }),
);

/** Interface 4.2; reading an answer once more, and ending it (design 5). */
export const streamRoutes = ({ turns, conversations }: { turns: Turns; conversations: Conversations }) =>
  new Elysia({ name: "agents.stream-routes", prefix: "/agents" })
    .use(policies)
    .post(
      "/anonymous/:id/stream",
      async ({ params, query, body, request }) =>
        streamed(
          request,
          protocolOf(request, query, body),
          await turns.talkAnonymously(
            params.id,
            readStreamBody(body),
            asked(request, `anonymous/${params.id}`),
          ),
        ),
      {
        policy: "anonymous",
        query: StreamQuery,
        body: StreamBody,
        detail: { summary: "Talk to a public agent", tags, ...STREAM },
      },
    )
    .get(
      "/anonymous/:id/stream",
      async ({ params, query, request }) =>
        streamed(
          request,
          protocolOf(request, query),
          await conversations.streamAnonymously(params.id, { ...query, id: query.chatId }),
        ),
      {
        policy: "anonymous",
        query: ResumeByChatQuery,
        detail: { summary: "Read a public agent's answer under way from its start", tags, ...RESUMED },
      },
    )
    .get(
      "/anonymous/:id/stream/:conversation_id/stream",
      async ({ params, query, request }) =>
        streamed(
          request,
          newProtocolOf(request, query),
          await conversations.streamAnonymously(params.id, { ...query, id: params.conversation_id }),
        ),
      {
        policy: "anonymous",
        query: ResumeQuery,
        detail: { summary: "The same, by the address that AI SDK 5 and later ask for", tags, ...RESUMED },
      },
    )
    .post(
      "/anonymous/:id/conversations/:conversation_id/stop",
      ({ params, query }) => conversations.stopAnonymously(params.id, params.conversation_id, query),
      {
        policy: "anonymous",
        query: StopQuery,
        response: Stopped,
        detail: { summary: "Stop a public agent's answer; what has come is kept", tags },
      },
    )
    .post(
      "/:id/stream",
      async ({ caller, params, query, body, request }) =>
        streamed(
          request,
          protocolOf(request, query, body),
          await turns.talk(caller, params.id, readStreamBody(body), asked(request, params.id)),
        ),
      {
        policy: "key",
        query: StreamQuery,
        body: StreamBody,
        detail: {
          summary: "Talk to an agent; the reply is streamed",
          tags,
          ...STREAM,
          "x-max-body": LARGEST_BODY,
        } as object,
      },
    )
    .get(
      "/:id/stream",
      async ({ caller, params, query, request }) =>
        streamed(
          request,
          protocolOf(request, query),
          await conversations.stream(caller, params.id, { ...query, id: query.chatId }),
        ),
      {
        policy: "key",
        query: ResumeByChatQuery,
        detail: {
          summary: "Read an answer under way from its start; 204 when there is none",
          tags,
          ...RESUMED,
        },
      },
    )
    .get(
      "/:id/stream/:conversation_id/stream",
      async ({ caller, params, query, request }) =>
        streamed(
          request,
          newProtocolOf(request, query),
          await conversations.stream(caller, params.id, { ...query, id: params.conversation_id }),
        ),
      {
        policy: "key",
        query: ResumeQuery,
        detail: { summary: "The same, by the address that AI SDK 5 and later ask for", tags, ...RESUMED },
      },
    )
    .post(
      "/:id/conversations/:conversation_id/stop",
      ({ caller, params, query }) => conversations.stop(caller, params.id, params.conversation_id, query),
      {
        policy: "key",
        query: StopQuery,
        response: Stopped,
        detail: { summary: "Stop the answers under way; what has come is kept", tags },
      },
    );

const asked = (request: Request, target_id: string) => ({
  ...startContext(request, target_id),
  request_id: contextOf(request).request_id,
  tellContext: request.headers.get("x-enable-request-context") === "true",
});

function streamed(request: Request, protocol: StreamProtocol, turn: LiveTurn | undefined): Response {
  if (!turn) return new Response(null, { status: 204 });
  contextOf(request).keepOpen();
  const { stranger } = turn;
  const whole = turn.continues ? withoutRetold(protocol) : protocol;
  return streamResponse(turn.log, stranger ? forStrangers(whole, stranger) : whole, {
    "x-conversation-id": turn.conversation_id,
    ...(turn.replayed ? { "idempotent-replay": "true" } : {}),
  });
}
