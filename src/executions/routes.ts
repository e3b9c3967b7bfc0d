import { Elysia } from "elysia";
import { startContext } from "../hooks/idempotency.ts";
import { answerWith } from "../http/answers.ts";
import { page } from "../http/page.ts";
import { policies } from "../http/policy.ts";
import { ListExecutions, StartExecution } from "./schema.ts";
import type { Executions } from "./service.ts";

const tags = ["executions"];

/** Starting and reading runs (design 3, "Executions"). */
export const executionRoutes = ({ executions }: { executions: Executions }) =>
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
        page(set, request, await executions.list(caller, params.id, query)),
      {
        policy: "key",
        query: ListExecutions,
        detail: { summary: "List a workflow's runs, newest first", tags },
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
