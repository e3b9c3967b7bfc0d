import { Elysia } from "elysia";
import Type from "typebox";
import { credentialsOf } from "../hooks/credentials.ts";
import { accepted, jsonOf, responses } from "../http/answers.ts";
import { contextOf } from "../http/context.ts";
import { openPolicies } from "../http/policy.ts";
import type { Recognise } from "../http/routes.ts";
import type { Json } from "../lib/json.ts";
import type { Executions } from "./service.ts";

const GOES_ON = Type.Object({ success: Type.Literal(true), message: Type.String() });

/** Nobody without the wait's token is told what is wrong with a body that the gate refuses. */
export const waitRecognise = ({ executions }: { executions: Executions }): Record<string, Recognise> => ({
  "POST /webhooks/waits/:id": ({ url, headers }, { path }) =>
    executions.recognise(decodeURIComponent(path.split("/")[3] ?? ""), credentialsOf(url, headers)),
});

/** Where the wait of an execution is called back, under `/webhooks` without another prefix. */
export const waitRoutes = ({ executions }: { executions: Executions }) =>
  new Elysia({ name: "executions.waits" })
    .use(openPolicies)
    .post(
      "/waits/:id",
      async ({ params, request, set }) =>
        accepted(
          set,
          await executions.callBack(
            params.id,
            credentialsOf(request.url, request.headers),
            (contextOf(request).body ?? null) as Json,
          ),
        ),
      {
        policy: "hook",
        detail: {
          summary: "Call a waiting run, which goes on with what was sent",
          tags: ["executions"],
          ...responses({ 202: { description: "It goes on.", content: jsonOf(GOES_ON) } }),
          requestBody: { required: false, content: { "application/json": { schema: {} } } },
        },
      },
    );
