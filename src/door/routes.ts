import { Elysia } from "elysia";
import Type from "typebox";
import { startContext } from "../hooks/idempotency.ts";
import { responses as described, jsonOf, textOf } from "../http/answers.ts";
import { contextOf } from "../http/context.ts";
import { type StreamProtocol, streamResponse } from "../http/message-stream.ts";
import { policies } from "../http/policy.ts";
import { answers, json } from "../lib/schema.ts";
import type { Asked } from "./asked.ts";
import { chatChunks, chatCompletion } from "./chat-answer.ts";
import { readChat } from "./chat-request.ts";
import type { Running } from "./direct.ts";
import { begun, type Heard, whole } from "./heard.ts";
import { respond } from "./respond.ts";
import { responseEvents, responseOf } from "./response-answer.ts";
import { readResponse } from "./response-request.ts";
import type { Responses } from "./responses.ts";
import type { Door } from "./service.ts";

const tags = ["openai"];
/** Ten pictures of five megabytes, in base64. */
const LARGEST_BODY = 72 * 1024 * 1024;
const detail = (summary: string): object => ({
  summary,
  tags,
  "x-errors": "openai",
  "x-max-body": LARGEST_BODY,
});

// Open: what counts is read by `readChat`, and clients send much that is theirs alone.
const ChatBody = json(
  Type.Object({
    model: Type.String({ description: "The agent's id." }),
    messages: Type.Unknown({ description: "The context, as chat completions have it." }),
    stream: Type.Optional(Type.Unknown({ description: "true: server-sent events." })),
  }),
);

const COMPLETION = described({
  200: {
    description: "A chat.completion, or chat.completion.chunk as events.",
    content: { ...jsonOf({ type: "object" }), ...textOf("text/event-stream") },
  },
});
const RESPONSE = described({
  200: {
    description: "A response, or its events.",
    content: { ...jsonOf({ type: "object" }), ...textOf("text/event-stream") },
  },
});

const ResponseBody = json(
  Type.Object({
    model: Type.String({ description: "The agent's id." }),
    input: Type.Unknown({ description: "Text, or items as OpenAI's responses have them." }),
    previous_response_id: Type.Optional(
      Type.Unknown({ description: "The answer that this one goes on from." }),
    ),
    conversation: Type.Optional(
      Type.Unknown({ description: "Any id of the client's: kept as a conversation." }),
    ),
    store: Type.Optional(Type.Unknown({ description: "false: the answer cannot be referred to." })),
    stream: Type.Optional(Type.Unknown({ description: "true: server-sent events." })),
  }),
);
const StoredResponse = answers(
  Type.Object({ id: Type.String(), object: Type.String(), output: Type.Array(Type.Unknown()) }),
);
const DeletedResponse = answers(
  Type.Object({ id: Type.String(), object: Type.String(), deleted: Type.Boolean() }),
);

const Model = Type.Object({
  id: Type.String(),
  object: Type.String(),
  created: Type.Integer(),
  owned_by: Type.String(),
  name: Type.String(),
  metadata: Type.Object({ name: Type.String(), description: Type.String() }),
});
const ModelAnswer = answers(Model);
const ModelList = answers(Type.Object({ object: Type.String(), data: Type.Array(Model) }));

/** For clients of OpenAI's interface, with this prefix as their base address. Errors have OpenAI's body. */
export const doorRoutes = ({ door, responses }: { door: Door; responses: Responses }) =>
  new Elysia({ name: "door.routes" })
    .use(policies)
    .get("/models", ({ caller }) => door.models(caller), {
      policy: "key",
      response: ModelList,
      detail: detail("The project's agents, each as a model"),
    })
    .get("/models/:id", ({ caller, params }) => door.model(caller, params.id), {
      policy: "key",
      response: ModelAnswer,
      detail: detail("One agent as a model"),
    })
    .post(
      "/chat/completions",
      async ({ caller, body, request }) => {
        const asked = readChat(body, request.headers);
        const running = await door.begin(caller, asked, contextFor(request, asked));
        const about = { ...running, model: asked.model };
        return answered(request, running, {
          protocol: asked.stream ? chatChunks(about, asked.include_usage) : undefined,
          body: (heard) => chatCompletion(about, heard),
        });
      },
      {
        policy: "key",
        body: ChatBody,
        detail: { ...detail("Ask an agent, as a chat completion"), ...COMPLETION },
      },
    )
    .post(
      "/responses",
      async ({ caller, body, request }) => {
        const asked = await readResponse(body, request.headers, {
          upTo: (id) => responses.upTo(caller, id),
          item: (id) => responses.item(caller, id),
        });
        const { running, about } = await respond(
          { door, responses },
          caller,
          asked,
          contextFor(request, asked),
        );
        return answered(request, running, {
          protocol: asked.stream ? responseEvents(about) : undefined,
          body: () => responseOf(about, running.log.parts),
        });
      },
      {
        policy: "key",
        body: ResponseBody,
        detail: { ...detail("Ask an agent, as a response"), ...RESPONSE },
      },
    )
    .get("/responses/:id", ({ caller, params }) => responses.get(caller, params.id), {
      policy: "key",
      response: StoredResponse,
      detail: detail("Read a response on record"),
    })
    .delete("/responses/:id", ({ caller, params }) => responses.remove(caller, params.id), {
      policy: "key",
      response: DeletedResponse,
      detail: detail("Delete a response from the record"),
    });

// The claim is on what is kept: a conversation's messages. Other answers are made anew.
const contextFor = (request: Request, { model }: Asked) => ({
  ...startContext(request, `openai/${model}`),
  request_id: contextOf(request).request_id,
});

/** Whole or as a stream; who goes away ends the answer, as clients of this interface mean it. */
async function answered(
  request: Request,
  { log, conversation_id, replayed, leave }: Running,
  { protocol, body }: { protocol: StreamProtocol | undefined; body(heard: Heard): unknown },
): Promise<Response> {
  contextOf(request).keepOpen();
  if (request.signal.aborted) leave();
  request.signal.addEventListener("abort", leave, { once: true });
  const headers = {
    ...(conversation_id ? { "x-conversation-id": conversation_id } : {}),
    ...(replayed ? { "idempotent-replay": "true" } : {}),
  };
  if (!protocol) return Response.json(body(await whole(log)), { headers });
  await begun(log);
  return streamResponse(log, protocol, headers);
}
