import { type Call, scopeOf, text, withServices } from "./command.ts";
import { usageError } from "./exit.ts";
import { putList, putRecord } from "./output.ts";

export const listWorkspaces = (call: Call) =>
  withServices(call, async ({ workspaces }) =>
    putList(
      call,
      await workspaces.list(),
      [
        { title: "ID", value: (one) => one.id },
        { title: "NAME", value: (one) => one.name },
        { title: "OWNER", value: (one) => one.owner_email },
        { title: "CREATED", value: (one) => one.created_at },
      ],
      "no workspaces yet; make one: errand workspaces create NAME",
    ),
  );

export const createWorkspace = (call: Call) =>
  withServices(
    call,
    async ({ workspaces }) =>
      putRecord(
        call,
        await workspaces.create({ name: call.args[0]!, owner_email: text(call.flags, "owner") ?? null }),
      ),
    { creates: true },
  );

/** Of the workspace that is named, else of the first; an empty --owner-email takes the owner away. */
export const updateWorkspace = (call: Call) =>
  withServices(call, async (services) => {
    const name = text(call.flags, "name");
    const owner = text(call.flags, "ownerEmail");
    if (name === undefined && owner === undefined)
      throw usageError("nothing to change", "give --owner-email or --name");
    const named = call.args[0];
    const flags = named === undefined ? call.flags : { ...call.flags, workspace: named };
    const { workspace_id } = await scopeOf({ ...call, flags }, services);
    const patch = { name, owner_email: owner === undefined ? undefined : owner || null };
    putRecord(call, await services.workspaces.update(workspace_id, patch));
  });

export const listProjects = (call: Call) =>
  withServices(call, async (services) => {
    const scope = text(call.flags, "workspace") === undefined ? undefined : await scopeOf(call, services);
    putList(
      call,
      await services.workspaces.projects(scope?.workspace_id),
      [
        { title: "ID", value: (one) => one.id },
        { title: "NAME", value: (one) => one.name },
        { title: "WORKSPACE", value: (one) => one.workspace_id },
        { title: "CREATED", value: (one) => one.created_at },
      ],
      "no projects yet",
    );
  });

export const createProject = (call: Call) =>
  withServices(call, async (services) => {
    const { workspace_id } = await scopeOf(call, services);
    putRecord(call, await services.workspaces.createProject(workspace_id, { name: call.args[0]! }));
  });
