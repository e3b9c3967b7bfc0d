import { Elysia } from "elysia";
import { answerWith, created, jsonOf, noContent, responses, textOf } from "../http/answers.ts";
import { contextOf } from "../http/context.ts";
import { page } from "../http/page.ts";
import { openPolicies, policies } from "../http/policy.ts";
import type { Direct, Recognise } from "../http/routes.ts";
import { Accepted, HookTokenList, NewHookTokenAnswer, Result } from "./answers.ts";
import { AGENT_MEDIA, FORMS } from "./bodies.ts";
import type { Forms } from "./forms.ts";
import { AgentHookBody, CreateHookToken, ListHookTokens, WorkflowHookBody } from "./schema.ts";
import type { Hooks } from "./service.ts";
import type { TargetType } from "./store.ts";
import type { HookTokens } from "./tokens.ts";

const tags = ["incoming webhooks"];

/** Tokens of agents' and workflows' incoming webhooks (design 3, "Hook tokens"). */
export const hookTokenRoutes = ({ hookTokens }: { hookTokens: HookTokens }) =>
  new Elysia({ name: "hooks.tokens" })
    .use(tokensOf("agents", hookTokens))
    .use(tokensOf("workflows", hookTokens));

const tokensOf = (type: TargetType, tokens: HookTokens) =>
  new Elysia({ name: `hooks.tokens.${type}`, prefix: `/${type}/:id/webhook-tokens` })
    .use(policies)
    .post(
      "/",
      async ({ caller, params, body, set }) =>
        created(set, await tokens.create(caller, type, params.id, body)),
      {
        policy: "key",
        body: CreateHookToken,
        response: { 201: NewHookTokenAnswer },
        detail: { summary: "Create a webhook token; the answer alone shows it, with its URL", tags },
      },
    )
    .get(
      "/",
      async ({ caller, params, query, request, set }) =>
        page(set, request, await tokens.list(caller, type, params.id, query)),
      {
        policy: "key",
        query: ListHookTokens,
        response: HookTokenList,
        detail: { summary: "List webhook tokens", tags },
      },
    )
    .delete(
      "/:token_id",
      ({ caller, params, set }) =>
        tokens.revoke(caller, type, params.id, params.token_id).then(() => noContent(set)),
      { policy: "key", detail: { summary: "Revoke a webhook token", tags } },
    );

// Described and not declared: a declared body is checked before the handler runs, and a caller without a
// token must get 401 before anything is said about the body.
const bodyOf = (schema: object, required: boolean) => ({
  requestBody: { required, content: { "application/json": { schema } } },
});

const HTML = responses({ 200: { description: "A page.", content: textOf("text/html") } });
const STARTED = responses({
  202: { description: "It is on record and will be done.", content: jsonOf(Accepted) },
  200: { description: "It has ended, where the sender waited for that.", content: jsonOf(Result) },
});

// Read by the services from the address, for the same reason.
const WAIT = {
  name: "wait",
  in: "query",
  required: false,
  description:
    "Seconds to wait for the result, at most 60; also as `Prefer: wait=`. Not ended by then: the answer without waiting.",
  schema: { type: "integer", minimum: 0, maximum: 60 },
};

/**
 * The same two ways in for the gate to call itself: the framework takes apart a query and headers that no
 * handler here reads, which for the busiest addresses of all is half of what a request costs in front of its service.
 */
export const incomingDirect = ({ hooks }: { hooks: Hooks }): Record<string, Direct> => ({
  "POST /webhooks/agents/:id": hooks.messageAgent,
  "POST /webhooks/workflows/:id": hooks.startWorkflow,
});

/** Nobody without a token is told what is wrong with a body that the gate refuses. */
export function incomingRecognise({ hooks }: { hooks: Hooks }): Record<string, Recognise> {
  const of =
    (type: TargetType): Recognise =>
    (request, { path }) =>
      hooks.recognise(type, decodeURIComponent(path.split("/")[3] ?? ""), request);
  return {
    "POST /webhooks/agents/:id": of("agents"),
    "POST /webhooks/workflows/:id": of("workflows"),
    "POST /webhooks/workflows/:id/form": of("workflows"),
  };
}

/** The webhooks themselves (interface 4.4), under `/webhooks` without another prefix. */
export const incomingRoutes = ({ hooks, forms }: { hooks: Hooks; forms: Forms }) =>
  new Elysia({ name: "hooks.incoming" })
    .use(openPolicies)
    .post(
      "/agents/:id",
      async ({ params, request, set }) =>
        answerWith(set, await hooks.messageAgent(params.id, request, contextOf(request))),
      {
        policy: "hook",
        detail: {
          summary: "Send a message to an agent",
          tags,
          "x-query": [WAIT],
          "x-media": AGENT_MEDIA,
          ...STARTED,
          ...bodyOf(AgentHookBody.schema, true),
        } as object,
      },
    )
    .post(
      "/workflows/:id",
      async ({ params, request, set }) =>
        answerWith(set, await hooks.startWorkflow(params.id, request, contextOf(request))),
      {
        policy: "hook",
        detail: {
          summary: "Start a workflow",
          tags,
          "x-query": [WAIT],
          "x-media": FORMS,
          ...STARTED,
          ...bodyOf(WorkflowHookBody.schema, false),
        } as object,
      },
    )
    .get("/workflows/:id/form", ({ params, request }) => forms.show(params.id, request), {
      policy: "hook",
      detail: { summary: "The inputs of a workflow as a form for people", tags, ...HTML },
    })
    .post(
      "/workflows/:id/form",
      ({ params, request }) => forms.send(params.id, request, contextOf(request)),
      {
        policy: "hook",
        detail: { summary: "Send that form", tags, "x-media": FORMS, ...HTML } as object,
      },
    )
    .get("/executions/:id", ({ params, request }) => hooks.status(params.id, request, contextOf(request)), {
      policy: "hook",
      detail: {
        summary: "How the work stands that this token's webhook started",
        tags,
        ...responses({ 200: { description: "How it stands.", content: jsonOf(Result) } }),
        "x-query": [WAIT],
      } as object,
    });
