import { Elysia } from "elysia";
import { created, noContent } from "../http/answers.ts";
import { page } from "../http/page.ts";
import { policies } from "../http/policy.ts";
import { AgentList, AgentRecord, PublicAgentRecord, VersionList, VersionRecord } from "./record-schema.ts";
import { CreateAgent, InWorkspace, ListAgents, Paging, UpdateAgent } from "./schema.ts";
import type { Agents } from "./service.ts";

const tags = ["agents"];

/** Interface 4.1. */
export const agentRoutes = ({ agents }: { agents: Agents }) =>
  new Elysia({ name: "agents.routes", prefix: "/agents" })
    .use(policies)
    .get("/anonymous/:id", ({ params }) => agents.publicInfo(params.id), {
      policy: "anonymous",
      response: PublicAgentRecord,
      detail: { summary: "Read what everyone may know of a public agent", tags },
    })
    .get(
      "/",
      async ({ caller, query, request, set }) => page(set, request, await agents.list(caller, query)),
      {
        policy: "key",
        query: ListAgents,
        response: AgentList,
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
        response: { 201: AgentRecord },
        detail: { summary: "Create an agent", tags },
      },
    )
    .get("/:id", ({ caller, params }) => agents.get(caller, params.id), {
      policy: "key",
      response: AgentRecord,
      detail: { summary: "Read an agent", tags },
    })
    .put("/:id", ({ caller, params, body }) => agents.update(caller, params.id, body), {
      policy: "key",
      body: UpdateAgent,
      response: AgentRecord,
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
    .get(
      "/:id/versions",
      async ({ caller, params, query, request, set }) =>
        page(set, request, await agents.versions(caller, params.id, query)),
      {
        policy: "key",
        query: Paging,
        response: VersionList,
        detail: { summary: "List what an agent was, newest first", tags },
      },
    )
    .get(
      "/:id/versions/:version",
      ({ caller, params }) => agents.version(caller, params.id, params.version),
      { policy: "key", response: VersionRecord, detail: { summary: "Read what an agent was", tags } },
    )
    .post(
      "/:id/versions/:version/restore",
      ({ caller, params }) => agents.restore(caller, params.id, params.version),
      {
        policy: "key",
        response: AgentRecord,
        detail: { summary: "Make an agent what it was, as a new version", tags },
      },
    );
