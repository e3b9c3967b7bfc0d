import { Elysia } from "elysia";
import Type from "typebox";
import { startContext } from "../hooks/idempotency.ts";
import { answerWith, jsonOf, responses, textOf } from "../http/answers.ts";
import { contextOf } from "../http/context.ts";
import { stretch } from "../http/page.ts";
import { policies } from "../http/policy.ts";
import type { Caller } from "../keys/schema.ts";
import type { JsonObject } from "../lib/json.ts";
import { ExecutionList, ExecutionRecord, Queued, QueuedAgain, TestStepAnswer } from "./answers.ts";
import type { ExecutionLists } from "./lists.ts";
import {
  ListExecutions,
  ListWorkflowExecutions,
  ReplayExecution,
  RetryExecution,
  StartExecution,
  TestStep,
} from "./schema.ts";
import type { Executions, StartAnswer } from "./service.ts";

const tags = ["executions"];
const EVENTS = textOf("text/event-stream");
const WHOLE = ExecutionRecord.schema;
const STARTED = responses({
  202: { description: "It is on record and will run.", content: jsonOf(Type.Union([Queued, WHOLE])) },
  200: {
    description: "It has ended (response_type result), or goes on as events (stream).",
    content: { ...jsonOf(WHOLE), ...EVENTS },
  },
});
const AGAIN = responses({ 202: { description: "The new run is on record.", content: jsonOf(QueuedAgain) } });

/** Starting and reading runs (design 3, "Executions"). */
export const executionRoutes = ({
  executions,
  executionLists,
}: {
  executions: Executions;
  executionLists: ExecutionLists;
}) =>
  new Elysia({ name: "executions.routes" })
    .use(policies)
    .post(
      "/workflows/:id/executions",
      async ({ caller, params, body, request, set }) =>
        started(
          { caller, request, set, executions },
          await executions.startByKey(caller, params.id, body, startContext(request, params.id)),
        ),
      {
        policy: "key",
        body: StartExecution,
        detail: { summary: "Start a run of a workflow", tags, ...STARTED },
      },
    )
    .get(
      "/workflows/:id/executions",
      async ({ caller, params, query, request, set }) =>
        stretch(set, request, await executionLists.ofWorkflow(caller, params.id, query)),
      {
        policy: "key",
        query: ListWorkflowExecutions,
        response: ExecutionList,
        detail: {
          summary:
            "List a workflow's runs by state, time and source, newest first; Link says where it goes on",
          tags,
        },
      },
    )
    .get(
      "/executions",
      async ({ caller, query, request, set }) =>
        stretch(set, request, await executionLists.ofProject(caller, query)),
      {
        policy: "key",
        query: ListExecutions,
        response: ExecutionList,
        detail: {
          summary:
            "List the project's runs by state, time and source, newest first; Link says where it goes on",
          tags,
        },
      },
    )
    .get("/executions/:id", ({ caller, params }) => executions.get(caller, params.id), {
      policy: "key",
      response: ExecutionRecord,
      detail: { summary: "Read a run with its steps", tags },
    })
    .post("/executions/:id/cancel", ({ caller, params }) => executions.cancel(caller, params.id), {
      policy: "key",
      response: ExecutionRecord,
      detail: { summary: "Cancel a run that has not ended", tags },
    })
    .get(
      "/executions/:id/stream",
      async ({ caller, params, request }) =>
        streamed(request, await executions.follow(caller, params.id, request.headers.get("last-event-id"))),
      {
        policy: "key",
        detail: {
          summary:
            "Follow a run as server-sent events (status, step, end); Last-Event-ID goes on after a break",
          tags,
          ...responses({ 200: { description: "Its events.", content: EVENTS } }),
        },
      },
    )
    .post(
      "/executions/:id/retry",
      async ({ caller, params, body, request, set }) =>
        answerWith(
          set,
          await executions.retry(
            caller,
            params.id,
            body.from_node,
            startContext(request, `retry/${params.id}`),
          ),
        ),
      {
        policy: "key",
        body: RetryExecution,
        detail: {
          summary: "Go on after a failure, over what was done before it, as a new run",
          tags,
          ...AGAIN,
        },
      },
    )
    .post(
      "/executions/:id/replay",
      async ({ caller, params, body, request, set }) =>
        answerWith(
          set,
          await executions.replay(
            caller,
            params.id,
            body.input_data as JsonObject | undefined,
            startContext(request, `replay/${params.id}`),
          ),
        ),
      {
        policy: "key",
        body: ReplayExecution,
        detail: {
          summary: "Run it again from the beginning, with the same input or another",
          tags,
          ...AGAIN,
        },
      },
    )
    .post(
      "/workflows/:id/test-step",
      ({ caller, params, body }) => executions.testStep(caller, params.id, body),
      {
        policy: "key",
        body: TestStep,
        response: TestStepAnswer,
        detail: { summary: "Run one node alone, with given input; nothing is stored", tags },
      },
    );

function streamed(request: Request, response: Response): Response {
  contextOf(request).keepOpen();
  return response;
}

type Asked = {
  caller: Caller;
  request: Request;
  set: Parameters<typeof answerWith>[0];
  executions: Executions;
};

const started = async ({ caller, request, set, executions }: Asked, answer: StartAnswer) =>
  answer.follow === undefined
    ? answerWith(set, answer)
    : streamed(request, await executions.follow(caller, answer.follow, null));
