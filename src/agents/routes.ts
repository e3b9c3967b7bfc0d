import { Elysia } from "elysia";
import Type from "typebox";
import { hopOf } from "../hooks/idempotency.ts";
import { created, noContent } from "../http/answers.ts";
import { contextOf } from "../http/context.ts";
import { type StreamProtocol, streamResponse } from "../http/message-stream.ts";
import { page } from "../http/page.ts";
import { policies } from "../http/policy.ts";
import { json } from "../lib/schema.ts";
import type { Conversations } from "./conversations.ts";
import type { LiveTurn } from "./live-turns.ts";
import { CreateAgent, InWorkspace, ListAgents, Paging, UpdateAgent } from "./schema.ts";
import type { Agents } from "./service.ts";
import { readStreamBody } from "./stream-body.ts";
import { protocolOf, StreamQuery } from "./stream-protocol.ts";
import type { Turns } from "./turns.ts";

const tags = ["agents"];

// Open: chat clients send much that is theirs alone. What counts is read by `readStreamBody`.
const StreamBody = json(
  Type.Object({
    id: Type.Optional(
      Type.Unknown({ description: "Threads messages into one conversation; made where missing." }),
    ),
    messages: Type.Unknown({ description: "Messages of a chat client; the last one counts." }),
  }),
);

/** Interface 4.1 and 4.2. */
export const agentRoutes = ({
  agents,
  turns,
  conversations,
}: {
  agents: Agents;
  turns: Turns;
  conversations: Conversations;
}) =>
  new Elysia({ name: "agents.routes", prefix: "/agents" })
    .use(policies)
    .get("/anonymous/:id", ({ params }) => agents.publicInfo(params.id), {
      policy: "anonymous",
      detail: { summary: "Read what everyone may know of a public agent", tags },
    })
    .post(
      "/anonymous/:id/stream",
      async ({ params, query, body, request }) =>
        streamed(
          request,
          protocolOf(request, query, body),
          await turns.talkAnonymously(params.id, readStreamBody(body), asked(request)),
        ),
      {
        policy: "anonymous",
        query: StreamQuery,
        body: StreamBody,
        detail: { summary: "Talk to a public agent", tags },
      },
    )
    .get(
      "/",
      async ({ caller, query, request, set }) => page(set, request, await agents.list(caller, query)),
      {
        policy: "key",
        query: ListAgents,
        detail: { summary: "List the project's agents", tags },
      },
    )
    .post(
      "/",
      async ({ caller, query, body, set }) => created(set, await agents.create(caller, query, body)),
      {
        policy: "key",
        query: InWorkspace,
        body: CreateAgent,
        detail: { summary: "Create an agent", tags },
      },
    )
    .get("/:id", ({ caller, params }) => agents.get(caller, params.id), {
      policy: "key",
      detail: { summary: "Read an agent", tags },
    })
    .put("/:id", ({ caller, params, body }) => agents.update(caller, params.id, body), {
      policy: "key",
      body: UpdateAgent,
      detail: { summary: "Update an agent", tags },
    })
    .delete(
      "/:id",
      async ({ caller, params, set }) => noContent(set, await agents.remove(caller, params.id)),
      {
        policy: "key",
        detail: { summary: "Delete an agent", tags },
      },
    )
    .post(
      "/:id/stream",
      async ({ caller, params, query, body, request }) =>
        streamed(
          request,
          protocolOf(request, query, body),
          await turns.talk(caller, params.id, readStreamBody(body), asked(request)),
        ),
      {
        policy: "key",
        query: StreamQuery,
        body: StreamBody,
        detail: { summary: "Talk to an agent; the reply is streamed", tags },
      },
    )
    .get(
      "/:id/conversations",
      async ({ caller, params, query, request, set }) =>
        page(set, request, await conversations.list(caller, params.id, query)),
      { policy: "key", query: Paging, detail: { summary: "List an agent's conversations", tags } },
    )
    .get(
      "/:id/conversations/:conversation_id",
      ({ caller, params }) => conversations.get(caller, params.id, params.conversation_id),
      { policy: "key", detail: { summary: "Read a conversation with its messages", tags } },
    );

const asked = (request: Request) => ({
  request_id: contextOf(request).request_id,
  tellContext: request.headers.get("x-enable-request-context") === "true",
  hop: hopOf(request.headers),
});

function streamed(request: Request, protocol: StreamProtocol, { conversation_id, log }: LiveTurn): Response {
  contextOf(request).keepOpen();
  return streamResponse(log, protocol, { "x-conversation-id": conversation_id });
}
