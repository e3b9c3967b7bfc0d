import type { Caller } from "../keys/schema.ts";
import { type Clock, iso } from "../lib/clock.ts";
import { notFound } from "../lib/errors.ts";
import type { CreateVersion, ListVersions, Program, Publish, Workflow, WorkflowVersion } from "./schema.ts";
import type { VersionRow, WorkflowRow, WorkflowStore } from "./store.ts";

/**
 * The draft of a workflow is its last save. A version is a draft that was kept; the published one is what
 * webhooks, agents and the API run. Where none was published, the draft runs.
 */
export function versionsOf(deps: {
  store: WorkflowStore;
  clock: Clock;
  inScope(caller: Caller, id: string): Promise<WorkflowRow>;
  present(row: WorkflowRow): Promise<Workflow>;
  programBy(hash: string): Promise<Program>;
}) {
  const { store, clock, inScope } = deps;

  function shown(row: WorkflowRow, version: VersionRow): WorkflowVersion {
    const { definition_hash, created_at, ...rest } = version;
    return {
      ...rest,
      is_published: version.version === row.published_version,
      is_draft: definition_hash === row.definition_hash,
      created_at: iso(created_at),
    };
  }

  async function versionOf(id: string, version: number | string): Promise<VersionRow> {
    const found = /^\d{1,15}$/.test(String(version)) ? await store.version(id, Number(version)) : undefined;
    if (!found) throw notFound("version", String(version).slice(0, 20));
    return found;
  }

  async function keep(
    caller: Caller,
    id: string,
    { description = "", publish }: CreateVersion & { publish: boolean },
  ): Promise<VersionRow> {
    const kept = await store.keep({
      workflow_id: id,
      description,
      created_by: caller.key_id,
      created_at: clock.now(),
      publish,
    });
    if (!kept) throw notFound("workflow", id);
    return kept;
  }

  return {
    /** Keeps the draft under the next number. What runs stays what it was. */
    async createVersion(caller: Caller, id: string, body: CreateVersion): Promise<WorkflowVersion> {
      await inScope(caller, id);
      const kept = await keep(caller, id, { ...body, publish: false });
      return shown(await inScope(caller, id), kept);
    },

    /** Says what runs from now on; answers with that version, or with null for the draft. */
    async publish(caller: Caller, id: string, body: Publish): Promise<{ published: WorkflowVersion | null }> {
      await inScope(caller, id);
      const { version, ...rest } = body;
      const chosen =
        version === undefined
          ? await keep(caller, id, { ...rest, publish: true })
          : version === null
            ? null
            : await versionOf(id, version);
      if (version !== undefined && !(await store.publish(id, version))) throw notFound("workflow", id);
      return { published: chosen && shown(await inScope(caller, id), chosen) };
    },

    /** Newest first, without their programs. */
    async versions(caller: Caller, id: string, page: ListVersions) {
      const row = await inScope(caller, id);
      const { items, total } = await store.versions(id, page);
      return { items: items.map((version) => shown(row, version)), total, ...page };
    },

    async version(caller: Caller, id: string, version: string): Promise<WorkflowVersion & Program> {
      const row = await inScope(caller, id);
      const found = await versionOf(id, version);
      return { ...shown(row, found), ...(await deps.programBy(found.definition_hash)) };
    },

    /** The draft becomes what the version is. What is published stays published. */
    async restore(caller: Caller, id: string, version: string): Promise<Workflow> {
      await inScope(caller, id);
      const found = await versionOf(id, version);
      if (!(await store.restore(id, found.version, clock.now()))) throw notFound("workflow", id);
      return deps.present(await inScope(caller, id));
    },

    /** The program to run when a start names it: a version's number, or "draft". */
    async definitionHash(caller: Caller, id: string, version: number | "draft"): Promise<string> {
      const row = await inScope(caller, id);
      return version === "draft" ? row.definition_hash : (await versionOf(id, version)).definition_hash;
    },
  };
}
