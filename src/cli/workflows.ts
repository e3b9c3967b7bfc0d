import { existsSync, writeFileSync } from "node:fs";
import type { Caller } from "../keys/schema.ts";
import { isUuid } from "../lib/ids.ts";
import type { Services } from "../services.ts";
import {
  CreateWorkflow,
  OWNED,
  Publish,
  UpdateSettings,
  UpdateWorkflow,
  WorkflowFile,
} from "../workflows/schema.ts";
import { checked, readBody } from "./body.ts";
import { type Call, callerOf, callersOf, reaching, text, withServices } from "./command.ts";
import { EXIT, ExitError, usageError } from "./exit.ts";
import { putJson, putList, putRecord } from "./output.ts";

const MOST = 1_000;

export const listWorkflows = (call: Call) =>
  withServices(call, async (services) => {
    const lists = await Promise.all(
      (await callersOf(call, services)).map((caller) =>
        services.workflows.list(caller, { workspace_id: caller.workspace_id, limit: MOST, offset: 0 }),
      ),
    );
    putList(
      call,
      lists.flatMap((list) => list.items),
      [
        { title: "ID", value: (one) => one.id },
        { title: "NAME", value: (one) => one.name },
        { title: "NODES", value: (one) => one.nodes.length },
        { title: "RUNS", value: (one) => one.num_runs },
        { title: "CHANGED", value: (one) => one.updated_at ?? one.created_at },
      ],
      "no workflows yet; make one: errand workflows create --from FILE",
    );
  });

/** Acts on the workflow that the command names first. */
const onWorkflow = (
  call: Call,
  act: (caller: Caller, id: string, services: Services) => Promise<void>,
): Promise<void> =>
  withServices(call, (services) =>
    reaching(call, services, (caller) => act(caller, call.args[0]!, services)),
  );

export const showWorkflow = (call: Call) =>
  onWorkflow(call, async (caller, id, { workflows }) => {
    const workflow = await workflows.get(caller, id);
    if (call.flags["json"]) return putJson(call.output, workflow);
    const { nodes, input_schema, output_mapping, images, ...record } = workflow;
    const inputs = Object.keys(input_schema.properties).map((name) =>
      input_schema.required.includes(name) ? `${name} (required)` : name,
    );
    putRecord(call, { ...record, inputs, ...(await workflows.readSettings(caller, id)) });
    call.output.data("\n");
    putList(
      call,
      nodes,
      [
        { title: "NODE", value: (one) => one.name },
        { title: "TYPE", value: (one) => one.node_type_name },
        { title: "TITLE", value: (one) => one.title },
        { title: "DESCRIPTION", value: (one) => one.description },
      ],
      "no nodes",
    );
  });

export const createWorkflow = (call: Call) =>
  withServices(
    call,
    async (services) =>
      putMade(call, await make(services, await callerOf(call, services), readBody(fromOf(call)))),
    { creates: true },
  );

export const updateWorkflow = (call: Call) =>
  onWorkflow(call, async (caller, id, { workflows }) => {
    const { body } = contentOf(readBody(fromOf(call)));
    putMade(call, await workflows.update(caller, id, checked(UpdateWorkflow, body)));
  });

export const deleteWorkflow = (call: Call) =>
  onWorkflow(call, async (caller, id, { workflows }) => {
    await workflows.remove(caller, id);
    call.output.words(`deleted ${id}; its runs stay on record\n`);
  });

export const workflowSettings = (call: Call) =>
  onWorkflow(call, async (caller, id, { workflows }) => {
    const from = text(call.flags, "from");
    const settings =
      from === undefined
        ? await workflows.readSettings(caller, id)
        : await workflows.updateSettings(caller, id, checked(UpdateSettings, readBody(from)));
    putRecord(call, settings);
  });

export const validateWorkflow = (call: Call) =>
  withServices(
    call,
    async (services): Promise<number> => {
      const target = call.args[0]!;
      const stored = isUuid(target) && !existsSync(target);
      const { valid, faults } = stored
        ? await reaching(call, services, async (caller) =>
            services.workflows.validate(caller, { ...(await services.workflows.get(caller, target)) }),
          )
        : // For the project that it would be made in, if there is one yet.
          await services.workflows.validate(
            (await callersOf(call, services))[0],
            contentOf(readBody(target)).body,
          );
      if (call.flags["json"]) putJson(call.output, { valid, faults });
      else if (valid) call.output.words("nothing is wrong with it\n");
      else
        putList(
          call,
          faults,
          [
            { title: "FIELD", value: (one) => one.field },
            { title: "EXPECTED", value: (one) => one.expected },
            { title: "RECEIVED", value: (one) => one.received },
          ],
          "",
        );
      return valid ? EXIT.ok : EXIT.refused;
    },
    { creates: true },
  );

export const publishWorkflow = (call: Call) =>
  onWorkflow(call, async (caller, id, { workflows }) => {
    const version = versionOf(call);
    if (version === "draft") throw usageError("--version draft: leave it out to publish the draft");
    const body = checked(Publish, {
      version: call.flags["none"] ? null : version,
      description: text(call.flags, "description"),
    });
    const { published } = await workflows.publish(caller, id, body);
    if (published) putRecord(call, published);
    else if (call.flags["json"]) putJson(call.output, { published });
    else call.output.words("no version is published; the draft runs\n");
  });

export const listVersions = (call: Call) =>
  onWorkflow(call, async (caller, id, { workflows }) => {
    const { items } = await workflows.versions(caller, id, { limit: MOST, offset: 0 });
    putList(
      call,
      items,
      [
        { title: "VERSION", value: (one) => one.version },
        { title: "RUNS", value: (one) => (one.is_published ? "yes" : "") },
        { title: "DRAFT", value: (one) => (one.is_draft ? "yes" : "") },
        { title: "MADE", value: (one) => one.created_at },
        { title: "BY", value: (one) => one.created_by },
        { title: "DESCRIPTION", value: (one) => one.description },
      ],
      "no versions; the draft runs. Make one: errand workflows publish ID",
    );
  });

export const restoreVersion = (call: Call) =>
  onWorkflow(call, async (caller, id, { workflows }) => {
    putMade(call, await workflows.restore(caller, id, call.args[1]!));
  });

export const exportWorkflow = (call: Call) =>
  onWorkflow(call, async (caller, id, { workflows }) => {
    const { content } = await workflows.exported(caller, id);
    const json = `${JSON.stringify(content, null, 2)}\n`;
    const file = call.args[1];
    if (file === undefined) call.output.data(json);
    else writeFileSync(file, json);
    tellRemoved(call, content.removed);
  });

export const importWorkflow = (call: Call) =>
  withServices(
    call,
    async (services) => {
      const file = checked(WorkflowFile, readBody(call.args[0]!));
      const caller = await callerOf(call, services);
      putMade(call, await services.workflows.imported(caller, caller, file));
      tellRemoved(call, file.removed);
    },
    { creates: true },
  );

function tellRemoved({ output }: Call, removed: string[] = []): void {
  if (removed.length > 0) output.words(`credentials are not in the file: ${removed.join(", ")}\n`);
}

function putMade(call: Call, workflow: { id: string; name: string; nodes: unknown[] }): void {
  if (call.flags["json"]) putJson(call.output, workflow);
  else putRecord(call, { id: workflow.id, name: workflow.name, nodes: workflow.nodes.length });
}

function fromOf({ flags }: Call): string {
  const from = text(flags, "from");
  if (from === undefined) throw usageError("--from is missing", "name a JSON file, or - for standard input");
  return from;
}

/** `--version` as the API takes it. */
export function versionOf({ flags }: Call): number | "draft" | undefined {
  const version = text(flags, "version");
  if (version === undefined || version === "draft") return version;
  if (!/^[1-9]\d{0,8}$/.test(version)) throw usageError("--version: expected a version's number, or draft");
  return Number(version);
}

/** What a file has of a workflow: an exported one, the body of a request, or a record as it was read. */
export function contentOf(file: Record<string, unknown>): {
  id?: string;
  body: Record<string, unknown>;
  settings?: WorkflowFile["settings"];
} {
  if ("format" in file) {
    const { workflow, settings } = checked(WorkflowFile, file);
    return { body: workflow, settings };
  }
  const body = Object.fromEntries(
    Object.entries(file).filter(([field]) => !OWNED.some((owned) => owned === field)),
  );
  return typeof file["id"] === "string" ? { id: file["id"], body } : { body };
}

/** Makes a workflow of a file. */
export async function make({ workflows }: Services, caller: Caller, file: Record<string, unknown>) {
  const { body, settings } = contentOf(file);
  const workflow = checked(CreateWorkflow, body);
  return workflows.imported(caller, caller, {
    format: "errand.workflow",
    format_version: 1,
    workflow,
    settings,
  });
}

/** The stored workflow that a command names by id. */
export function storedId(target: string): string {
  if (isUuid(target)) return target;
  throw new ExitError(
    EXIT.refused,
    `${target} is neither a file nor a workflow's id`,
    "see errand workflows list",
  );
}
