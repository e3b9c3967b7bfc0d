import { Elysia } from "elysia";
import Type from "typebox";
import { Accepted } from "../hooks/answers.ts";
import { startContext } from "../hooks/idempotency.ts";
import { answerWith, created, jsonOf, noContent, responses } from "../http/answers.ts";
import { contextOf } from "../http/context.ts";
import { page } from "../http/page.ts";
import { policies } from "../http/policy.ts";
import type { Direct, Recognise } from "../http/routes.ts";
import { answers } from "../lib/schema.ts";
import type { TriggerCalls } from "./calls.ts";
import {
  CreateTrigger,
  ListTriggerEvents,
  ListTriggers,
  NewTrigger,
  RotateTriggerSecret,
  Trigger,
  TriggerEvent,
  UpdateTrigger,
} from "./schema.ts";
import type { Triggers } from "./service.ts";

const tags = ["triggers"];
const about = (summary: string) => ({ policy: "key" as const, detail: { summary, tags } });
const One = answers(NewTrigger);
const CALLED = responses({
  200: { description: "An answer to a sender that proves its address first.", content: jsonOf({}) },
  202: { description: "The message is on record; the trigger's response_code.", content: jsonOf(Accepted) },
});

/** The calls for the gate to make itself, as those of other webhooks; `prefix` is the API's. */
export const triggerDirect = (
  prefix: string,
  { triggerCalls }: { triggerCalls: TriggerCalls },
): Record<string, Direct> => ({
  [`ALL ${prefix}/agents/webhook/:path/trigger`]: (_, request, context) =>
    triggerCalls.invoke(pathIn(context.path), request, context),
});

/** The same for a body that the gate refuses: whether its sender may be told. */
export const triggerRecognise = (
  prefix: string,
  { triggerCalls }: { triggerCalls: TriggerCalls },
): Record<string, Recognise> => ({
  [`ALL ${prefix}/agents/webhook/:path/trigger`]: (request, context, refusal) =>
    triggerCalls.recognise(pathIn(context.path), request, context, refusal),
});

const pathIn = (address: string): string =>
  decodeURIComponent(/\/webhook\/([^/]+)\/trigger\/?$/.exec(address)?.[1] ?? "");

/** Interface 4.3. */
export const triggerRoutes = ({
  triggers,
  triggerCalls,
}: {
  triggers: Triggers;
  triggerCalls: TriggerCalls;
}) =>
  new Elysia({ name: "triggers.routes", prefix: "/agents" })
    .use(policies)
    .post(
      "/:id/triggers",
      async ({ caller, params, body, set }) => created(set, await triggers.create(caller, params.id, body)),
      {
        ...about(
          "Create a trigger: a webhook address of the agent; a secret made for it is shown here alone",
        ),
        body: CreateTrigger,
        response: { 201: One },
      },
    )
    .get(
      "/:id/triggers",
      async ({ caller, params, query, request, set }) =>
        page(set, request, await triggers.list(caller, params.id, query)),
      {
        ...about("List the triggers of an agent"),
        query: ListTriggers,
        response: answers(Type.Array(Trigger)),
      },
    )
    .get("/triggers/:id", ({ caller, params }) => triggers.get(caller, params.id), {
      ...about("Read a trigger, without its secret"),
      response: answers(Trigger),
    })
    .put("/triggers/:id", ({ caller, params, body }) => triggers.update(caller, params.id, body), {
      ...about("Change a trigger; a secret that is left out stays"),
      body: UpdateTrigger,
      response: One,
    })
    .delete(
      "/triggers/:id",
      async ({ caller, params, set }) => noContent(set, await triggers.remove(caller, params.id)),
      about("Delete a trigger with its events; its conversations stay"),
    )
    .post(
      "/triggers/:id/rotate-secret",
      ({ caller, params, body }) => triggers.rotateSecret(caller, params.id, body),
      {
        ...about("Exchange a trigger's secret; the old one counts beside it for overlap_seconds"),
        body: RotateTriggerSecret,
        response: One,
      },
    )
    .get(
      "/:id/triggers/:trigger_id/events",
      async ({ caller, params, query, request, set }) =>
        page(set, request, await triggers.events(caller, params.id, params.trigger_id, query)),
      {
        ...about("List what called a trigger and what came of it, newest first"),
        query: ListTriggerEvents,
        response: answers(Type.Array(TriggerEvent)),
      },
    )
    .post(
      "/:id/triggers/:trigger_id/events/:event_id/redeliver",
      async ({ caller, params: { id, trigger_id, event_id }, request, set }) =>
        answerWith(
          set,
          await triggerCalls.redeliver(caller, id, trigger_id, event_id, startContext(request, event_id)),
        ),
      {
        ...about("Tell the agent of an event once more, by the trigger's present templates"),
        response: { 202: answers(TriggerEvent) },
      },
    )
    .all(
      "/webhook/:path/trigger",
      async ({ params, request, set }) =>
        answerWith(set, await triggerCalls.invoke(params.path, request, contextOf(request))),
      {
        policy: "hook",
        detail: {
          summary: "Call a trigger: the agent is told, as the trigger's template says",
          tags,
          ...CALLED,
          "x-media": ["*/*"],
          "x-secret-path": true,
        } as object,
      },
    );
