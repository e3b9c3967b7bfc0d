import { Elysia } from "elysia";
import Type from "typebox";
import { created, noContent } from "../http/answers.ts";
import { page } from "../http/page.ts";
import { policies } from "../http/policy.ts";
import { answers } from "../lib/schema.ts";
import { Connection, CreateConnection, InScope, ListConnections, UpdateConnection } from "./schema.ts";
import type { Connections } from "./service.ts";

const tags = ["connections"];
const about = (summary: string) => ({ policy: "key" as const, detail: { summary, tags } });
const One = answers(Connection);

/** Named credentials of a project; secrets are taken and never shown. */
export const connectionRoutes = ({ connections }: { connections: Connections }) =>
  new Elysia({ name: "connections.routes", prefix: "/connections" })
    .use(policies)
    .get(
      "/",
      async ({ caller, query, request, set }) => page(set, request, await connections.list(caller, query)),
      {
        ...about("List the project's connections"),
        query: ListConnections,
        response: answers(Type.Array(Connection)),
      },
    )
    .post(
      "/",
      async ({ caller, query, body, set }) => created(set, await connections.create(caller, query, body)),
      {
        ...about("Store credentials under a name, for nodes to use"),
        query: InScope,
        body: CreateConnection,
        response: { 201: One },
      },
    )
    .get("/:id", ({ caller, params }) => connections.get(caller, params.id), {
      ...about("Read a connection, without its secret"),
      response: One,
    })
    .put("/:id", ({ caller, params, body }) => connections.update(caller, params.id, body), {
      ...about("Change a connection; the secret must come along where its destination changes"),
      body: UpdateConnection,
      response: One,
    })
    .delete(
      "/:id",
      async ({ caller, params, set }) => noContent(set, await connections.remove(caller, params.id)),
      about("Delete a connection; steps that name it fail from now on"),
    );
