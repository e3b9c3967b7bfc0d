import { Elysia } from "elysia";
import { startContext } from "../hooks/idempotency.ts";
import { answerWith } from "../http/answers.ts";
import { stretch } from "../http/page.ts";
import { policies } from "../http/policy.ts";
import type { ExecutionLists } from "./lists.ts";
import { ListExecutions, ListWorkflowExecutions, StartExecution } from "./schema.ts";
import type { Executions } from "./service.ts";

const tags = ["executions"];

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
        answerWith(
          set,
          await executions.startByKey(caller, params.id, body, startContext(request, params.id)),
        ),
      { policy: "key", body: StartExecution, detail: { summary: "Start a run of a workflow", tags } },
    )
    .get(
      "/workflows/:id/executions",
      async ({ caller, params, query, request, set }) =>
        stretch(set, request, await executionLists.ofWorkflow(caller, params.id, query)),
      {
        policy: "key",
        query: ListWorkflowExecutions,
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
        detail: {
          summary:
            "List the project's runs by state, time and source, newest first; Link says where it goes on",
          tags,
        },
      },
    )
    .get("/executions/:id", ({ caller, params }) => executions.get(caller, params.id), {
      policy: "key",
      detail: { summary: "Read a run with its steps", tags },
    })
    .post("/executions/:id/cancel", ({ caller, params }) => executions.cancel(caller, params.id), {
      policy: "key",
      detail: { summary: "Cancel a run that has not ended", tags },
    });
