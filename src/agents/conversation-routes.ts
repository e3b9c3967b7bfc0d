import { Elysia } from "elysia";
import { noContent } from "../http/answers.ts";
import { page } from "../http/page.ts";
import { policies } from "../http/policy.ts";
import {
  ConversationList,
  ConversationRecord,
  MessageRecord,
  VariantList,
  WholeConversation,
} from "./conversation-record-schema.ts";
import {
  CloseConversation,
  GiveFeedback,
  ListConversations,
  UpdateConversation,
} from "./conversation-schema.ts";
import type { Conversations } from "./conversations.ts";

const tags = ["conversations"];

/** What was said to an agent: read, named, completed, deleted. */
export const conversationRoutes = ({ conversations }: { conversations: Conversations }) =>
  new Elysia({ name: "agents.conversation-routes", prefix: "/agents/:id/conversations" })
    .use(policies)
    .get(
      "/",
      async ({ caller, params, query, request, set }) =>
        page(set, request, await conversations.list(caller, params.id, query)),
      {
        policy: "key",
        query: ListConversations,
        response: ConversationList,
        detail: { summary: "List an agent's conversations, newest first", tags },
      },
    )
    .get(
      "/:conversation_id",
      ({ caller, params }) => conversations.get(caller, params.id, params.conversation_id),
      {
        policy: "key",
        response: WholeConversation,
        detail: { summary: "Read a conversation with its messages", tags },
      },
    )
    .put(
      "/:conversation_id",
      ({ caller, params, body }) => conversations.update(caller, params.id, params.conversation_id, body),
      {
        policy: "key",
        body: UpdateConversation,
        response: ConversationRecord,
        detail: { summary: "Rename or tag a conversation, or rate it", tags },
      },
    )
    .post(
      "/:conversation_id/close",
      ({ caller, params, body }) => conversations.close(caller, params.id, params.conversation_id, body),
      {
        policy: "key",
        body: CloseConversation,
        response: ConversationRecord,
        detail: { summary: "Complete a conversation, with what came of it", tags },
      },
    )
    .delete(
      "/:conversation_id",
      async ({ caller, params, set }) =>
        noContent(set, await conversations.remove(caller, params.id, params.conversation_id)),
      { policy: "key", detail: { summary: "Delete a conversation with all that was said in it", tags } },
    )
    .get(
      "/:conversation_id/messages/:message_id/variants",
      ({ caller, params }) =>
        conversations.variants(caller, params.id, params.conversation_id, params.message_id),
      {
        policy: "key",
        response: VariantList,
        detail: { summary: "List the messages that stand in one place", tags },
      },
    )
    .post(
      "/:conversation_id/messages/:message_id/choose",
      ({ caller, params }) =>
        conversations.choose(caller, params.id, params.conversation_id, params.message_id),
      { policy: "key", response: WholeConversation, detail: { summary: "Go on with this variant", tags } },
    )
    .put(
      "/:conversation_id/messages/:message_id/feedback",
      ({ caller, params, body }) =>
        conversations.giveFeedback(caller, params.id, params.conversation_id, params.message_id, body),
      {
        policy: "key",
        body: GiveFeedback,
        response: MessageRecord,
        detail: { summary: "Say whether an answer was good; a rating of null takes it back", tags },
      },
    );
