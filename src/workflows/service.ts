import { LRUCache } from "lru-cache";
import type { Connections } from "../connections/service.ts";
import type { Caller } from "../keys/schema.ts";
import { checkScope } from "../keys/scope.ts";
import { type Clock, iso, isoOrNull } from "../lib/clock.ts";
import { type Fault, forbidden, invalid, notFound } from "../lib/errors.ts";
import { isUuid, newId } from "../lib/ids.ts";
import type { Json, JsonObject } from "../lib/json.ts";
import { sha256Hex } from "../lib/secrets.ts";
import { nodeTypes } from "../nodes/index.ts";
import { connectionFaults } from "./connections.ts";
import { completeProgram, DEFAULT_DESCRIPTION, DEFAULT_NAME } from "./defaults.ts";
import { inputCheck } from "./input-schema.ts";
import {
  CreateWorkflow,
  type InWorkspace,
  type ListWorkflows,
  OWNED,
  type Program,
  type UpdateWorkflow,
  type ValidateWorkflow,
  type Workflow,
  type WorkflowSettings,
} from "./schema.ts";
import { settingsOf } from "./settings.ts";
import type { DefinitionRow, WorkflowPatch, WorkflowRow, WorkflowStore } from "./store.ts";
import { transferOf } from "./transfer.ts";
import { programFaults } from "./validate.ts";
import { versionsOf } from "./versions.ts";

export type { WorkflowTarget } from "./store.ts";

/** A program as runs use it. `checkInput` answers every way in which an input does not fit its schema. */
export type Definition = {
  input_schema: Program["input_schema"];
  nodes: Program["nodes"];
  output_mapping: JsonObject;
  checkInput(input: Json): Fault[];
};

export type Workflows = ReturnType<typeof createWorkflows>;

const MOST_CACHED_CHARACTERS = 16 * 1024 * 1024;

export function createWorkflows(deps: {
  store: WorkflowStore;
  connections: Pick<Connections, "referenceFault">;
  clock: Clock;
}) {
  const { store, connections, clock } = deps;
  // By content hash, so an entry can never be out of date.
  const definitions = new LRUCache<string, Definition>({ maxSize: MOST_CACHED_CHARACTERS });

  async function find(id: string): Promise<WorkflowRow> {
    const workflow = isUuid(id) ? await store.get(id) : undefined;
    if (!workflow) throw notFound("workflow", id);
    return workflow;
  }

  async function inScope(caller: Caller, id: string): Promise<WorkflowRow> {
    const workflow = await find(id);
    if (workflow.project_id !== caller.project_id) throw forbidden("This key cannot reach that workflow.");
    return workflow;
  }

  async function checkedFor(caller: Caller, body: CreateWorkflow): Promise<Program> {
    const program = checked(body);
    const faults = await connectionFaults(connections, caller, program.nodes);
    if (faults.length > 0) throw invalid(faults);
    return program;
  }

  async function textOf(hash: string): Promise<string> {
    const text = await store.definition(hash);
    if (text === undefined) throw new Error(`definition ${hash} is missing`);
    return text;
  }

  const programBy = async (hash: string): Promise<Program> => JSON.parse(await textOf(hash));

  async function present(row: WorkflowRow): Promise<Workflow> {
    return {
      id: row.id,
      workspace_id: row.workspace_id,
      user_id: row.user_id,
      dataset_id: row.dataset_id,
      name: row.name,
      description: row.description,
      images: row.images,
      ...(await programBy(row.definition_hash)),
      public_clone: row.public_clone,
      public_runnable: row.public_runnable,
      num_likes: row.num_likes,
      num_runs: row.num_runs,
      num_views: row.num_views,
      created_at: iso(row.created_at),
      updated_at: isoOrNull(row.updated_at),
    };
  }

  async function create(
    caller: Caller,
    scope: InWorkspace,
    body: CreateWorkflow,
    settings: (program: Program) => WorkflowSettings | null = () => null,
  ): Promise<Workflow> {
    checkScope(caller, scope);
    checkDataset(body);
    const program = await checkedFor(caller, body);
    const definition = definitionOf(program);
    const row: WorkflowRow = {
      id: newId(),
      workspace_id: caller.workspace_id,
      project_id: caller.project_id,
      user_id: caller.key_id,
      name: body.name ?? DEFAULT_NAME,
      description: body.description ?? DEFAULT_DESCRIPTION,
      dataset_id: body.dataset_id ?? null,
      images: body.images ?? [],
      definition_hash: definition.hash,
      public_clone: body.public_clone ?? false,
      public_runnable: body.public_runnable ?? false,
      // Nobody can like a workflow: the interface has no verb for it.
      num_likes: 0,
      num_runs: 0,
      num_views: 0,
      run_ms_total: 0,
      settings: settings(program),
      published_version: null,
      published_hash: null,
      created_at: clock.now(),
      updated_at: null,
    };
    await store.create(row, definition);
    return present(row);
  }

  const get = async (caller: Caller, id: string): Promise<Workflow> => present(await inScope(caller, id));
  const settings = settingsOf({ store, inScope, programOf: (row) => programBy(row.definition_hash) });

  return {
    ...settings,
    ...transferOf({ clock, get, create, ...settings }),
    ...versionsOf({ store, clock, inScope, present, programBy }),

    /** What firing it needs; undefined when there is none. */
    target: store.target,

    /** Parsed once for each text. Throws when the hash is unknown, which only a damaged database can bring about. */
    async definition(hash: string): Promise<Definition> {
      const known = definitions.get(hash);
      if (known) return known;
      const text = await textOf(hash);
      const { input_schema, nodes, output_mapping } = JSON.parse(text) as Program;
      const takesAnything =
        input_schema.required.length === 0 && Object.keys(input_schema.properties).length === 0;
      const isOpen = takesAnything && Object.keys(input_schema).every((key) => PLAIN_KEYS.has(key));
      const definition: Definition = {
        input_schema,
        nodes,
        output_mapping: output_mapping as JsonObject,
        checkInput: isOpen ? () => [] : inputCheck(input_schema),
      };
      definitions.set(hash, definition, { size: text.length });
      return definition;
    },

    create,
    get,

    /** The caller's project, newest first. */
    async list(caller: Caller, { workspace_id, project_id, search_query, ...page }: ListWorkflows) {
      checkScope(caller, { workspace_id, project_id });
      const { items, total } = await store.list(caller.project_id, { ...page, search: search_query });
      return { items: await Promise.all(items.map(present)), total, ...page };
    },

    /** Shallow: a field that is sent replaces the stored one whole. Runs under way keep what they began with. */
    async update(caller: Caller, id: string, body: UpdateWorkflow): Promise<Workflow> {
      checkDataset(body);
      for (;;) {
        const row = await inScope(caller, id);
        const before = await present(row);
        const faults = OWNED.filter((field) => !mayComeBack(body[field], before[field]));
        if (faults.length > 0) {
          throw invalid(
            faults.map((field) => ({
              field,
              expected: "the stored value or nothing",
              received: "another value",
            })),
          );
        }
        const patch: WorkflowPatch = { updated_at: clock.now() };
        for (const field of PLAIN_FIELDS)
          if (body[field] !== undefined) Object.assign(patch, { [field]: body[field] });
        // Only what was sent is written: else a change of the name takes back a change of the nodes beside it.
        const definition = PROGRAM_FIELDS.some((field) => body[field] !== undefined)
          ? {
              ...definitionOf(await checkedFor(caller, programOf(body, before))),
              replaces: row.definition_hash,
            }
          : undefined;
        if (definition) patch.definition_hash = definition.hash;
        const updated = await store.update(id, patch, definition);
        if (!updated) throw notFound("workflow", id);
        // Someone else's nodes came between: ours are put together with those, and checked again.
        if (updated !== "changed") return present(updated);
      }
    },

    async remove(caller: Caller, id: string): Promise<void> {
      await inScope(caller, id);
      await store.remove(id);
    },

    /**
     * Every fault at once, without storing anything; a record as it was read may be sent whole. Connections are
     * looked up in the caller's project, where there is a caller: a file alone has none.
     */
    async validate(
      caller: Caller | undefined,
      body: ValidateWorkflow,
    ): Promise<{ valid: boolean; faults: Fault[] }> {
      const given = Object.fromEntries(
        Object.entries(body).filter(([field]) => !OWNED.some((owned) => owned === field)),
      );
      const faults = CreateWorkflow.faults(given);
      if (faults.length === 0) {
        const program = completeProgram(given as CreateWorkflow);
        faults.push(...programFaults(program));
        if (caller) faults.push(...(await connectionFaults(connections, caller, program.nodes)));
      }
      return { valid: faults.length === 0, faults };
    },

    /**
     * A workflow that its owner shows to everyone; all others are not there. How it works is shown only with
     * `public_clone`: addresses and credentials of whom it calls stand in its nodes.
     */
    async publicInfo(id: string): Promise<Workflow> {
      const row = await find(id);
      if (!row.public_clone && !row.public_runnable) throw notFound("workflow", id);
      // For a figure that nobody waits for.
      store.viewed(id).catch(() => {});
      const workflow = await present(row);
      return row.public_clone ? workflow : { ...workflow, nodes: [], output_mapping: {} };
    },

    /** For references from other records of a project. */
    async belongs(id: string, project_id: string): Promise<"ok" | "foreign" | "missing"> {
      const target = isUuid(id) ? await store.target(id) : undefined;
      if (!target) return "missing";
      return target.project_id === project_id ? "ok" : "foreign";
    },

    /** The catalogue, with JSON Schemas. */
    nodeTypes: () =>
      [...nodeTypes.values()].map(
        ({ name, title, description, effect, retries, connections, input, output }) => ({
          name,
          title,
          description,
          effect,
          retries: retries ?? null,
          connections: connections ?? [],
          input_schema: input.schema,
          output_schema: output,
        }),
      ),
  };
}

/** A counter may have moved on since it was read; everything else must be as it is stored. */
const mayComeBack = (sent: unknown, stored: unknown): boolean =>
  sent === undefined || sent === stored || (typeof sent === "number" && sent >= 0 && sent <= Number(stored));

/** There are no datasets yet, so none can be in reach. */
function checkDataset({ dataset_id }: Pick<CreateWorkflow, "dataset_id">): void {
  if (typeof dataset_id === "string") throw notFound("dataset", dataset_id.slice(0, 100));
}

const PLAIN_KEYS = new Set(["title", "description", "required", "properties"]);
const PLAIN_FIELDS = [
  "name",
  "description",
  "dataset_id",
  "images",
  "public_clone",
  "public_runnable",
] as const;

const PROGRAM_FIELDS = ["input_schema", "nodes", "output_mapping"] as const;

const programOf = (body: UpdateWorkflow, before: Program): CreateWorkflow =>
  Object.fromEntries(PROGRAM_FIELDS.map((field) => [field, body[field] ?? before[field]]));

function checked(body: CreateWorkflow): Program {
  const program = completeProgram(body);
  const faults = programFaults(program);
  if (faults.length > 0) throw invalid(faults);
  return program;
}

function definitionOf(program: Program): DefinitionRow {
  const definition = JSON.stringify(program);
  return { hash: sha256Hex(definition), definition };
}
