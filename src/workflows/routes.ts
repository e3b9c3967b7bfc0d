import { Elysia } from "elysia";
import { created, download, noContent } from "../http/answers.ts";
import { page } from "../http/page.ts";
import { policies } from "../http/policy.ts";
import {
  NodeTypeList,
  Published,
  SettingsRecord,
  Validity,
  VersionList,
  VersionRecord,
  WholeVersion,
  WorkflowFileAnswer,
  WorkflowList,
  WorkflowRecord,
} from "./answers.ts";
import {
  CreateVersion,
  CreateWorkflow,
  InWorkspace,
  ListVersions,
  ListWorkflows,
  Publish,
  UpdateSettings,
  UpdateWorkflow,
  ValidateWorkflow,
  WorkflowFile,
} from "./schema.ts";
import type { Workflows } from "./service.ts";

const tags = ["workflows"];

/** Design 3, "Workflows". */
export const workflowRoutes = ({ workflows }: { workflows: Workflows }) =>
  new Elysia({ name: "workflows.routes" })
    .use(policies)
    .get("/node-types", () => workflows.nodeTypes(), {
      policy: "public",
      response: NodeTypeList,
      detail: { summary: "List the node types with their schemas", tags },
    })
    .get("/workflows/anonymous/:id", ({ params }) => workflows.publicInfo(params.id), {
      policy: "anonymous",
      response: WorkflowRecord,
      detail: { summary: "Read a public workflow", tags },
    })
    .post("/workflows/validate", ({ caller, body }) => workflows.validate(caller, body), {
      policy: "key",
      body: ValidateWorkflow,
      response: Validity,
      detail: { summary: "Check a workflow without storing it", tags },
    })
    .post(
      "/workflows",
      async ({ caller, query, body, set }) => created(set, await workflows.create(caller, query, body)),
      {
        policy: "key",
        query: InWorkspace,
        body: CreateWorkflow,
        response: { 201: WorkflowRecord },
        detail: { summary: "Create a workflow", tags },
      },
    )
    .get(
      "/workflows",
      async ({ caller, query, request, set }) => page(set, request, await workflows.list(caller, query)),
      {
        policy: "key",
        query: ListWorkflows,
        response: WorkflowList,
        detail: { summary: "List the project's workflows", tags },
      },
    )
    .get("/workflows/:id", ({ caller, params }) => workflows.get(caller, params.id), {
      policy: "key",
      response: WorkflowRecord,
      detail: { summary: "Read a workflow", tags },
    })
    .put("/workflows/:id", ({ caller, params, body }) => workflows.update(caller, params.id, body), {
      policy: "key",
      body: UpdateWorkflow,
      response: WorkflowRecord,
      detail: { summary: "Update a workflow; runs under way keep what they began with", tags },
    })
    .delete(
      "/workflows/:id",
      async ({ caller, params, set }) => noContent(set, await workflows.remove(caller, params.id)),
      { policy: "key", detail: { summary: "Delete a workflow", tags } },
    )
    .post(
      "/workflows/import",
      async ({ caller, query, body, set }) => created(set, await workflows.imported(caller, query, body)),
      {
        policy: "key",
        query: InWorkspace,
        body: WorkflowFile,
        response: { 201: WorkflowRecord },
        detail: { summary: "Create a workflow from an exported file", tags },
      },
    )
    .get(
      "/workflows/:id/export",
      async ({ caller, params, set }) => download(set, await workflows.exported(caller, params.id)),
      {
        policy: "key",
        response: WorkflowFileAnswer,
        detail: { summary: "The draft as one file, without ids and credentials", tags },
      },
    )
    .get("/workflows/:id/settings", ({ caller, params }) => workflows.readSettings(caller, params.id), {
      policy: "key",
      response: SettingsRecord,
      detail: { summary: "Read what is set beside a workflow", tags },
    })
    .put(
      "/workflows/:id/settings",
      ({ caller, params, body }) => workflows.updateSettings(caller, params.id, body),
      {
        policy: "key",
        body: UpdateSettings,
        response: SettingsRecord,
        detail: { summary: "Set concurrency, run time, failure workflow and retention; null clears", tags },
      },
    )
    .post(
      "/workflows/:id/versions",
      async ({ caller, params, body, set }) =>
        created(set, await workflows.createVersion(caller, params.id, body)),
      {
        policy: "key",
        body: CreateVersion,
        response: { 201: VersionRecord },
        detail: { summary: "Keep the draft as a version", tags },
      },
    )
    .get(
      "/workflows/:id/versions",
      async ({ caller, params, query, request, set }) =>
        page(set, request, await workflows.versions(caller, params.id, query)),
      {
        policy: "key",
        query: ListVersions,
        response: VersionList,
        detail: { summary: "List a workflow's versions", tags },
      },
    )
    .get(
      "/workflows/:id/versions/:version",
      ({ caller, params }) => workflows.version(caller, params.id, params.version),
      {
        policy: "key",
        response: WholeVersion,
        detail: { summary: "Read a version with its program", tags },
      },
    )
    .post(
      "/workflows/:id/versions/:version/restore",
      ({ caller, params }) => workflows.restore(caller, params.id, params.version),
      {
        policy: "key",
        response: WorkflowRecord,
        detail: { summary: "Make the draft what a version is", tags },
      },
    )
    .post(
      "/workflows/:id/publish",
      ({ caller, params, body }) => workflows.publish(caller, params.id, body),
      {
        policy: "key",
        body: Publish,
        response: Published,
        detail: {
          summary:
            "Say what webhooks, agents and the API run: the draft as a new version, or an older version",
          tags,
        },
      },
    );
