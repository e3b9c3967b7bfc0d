import { CreateAgent, UpdateAgent } from "../agents/schema.ts";
import type { Caller } from "../keys/schema.ts";
import type { Services } from "../services.ts";
import { checked, readBody } from "./body.ts";
import { type Call, callerOf, callersOf, reaching, text, withServices } from "./command.ts";
import { usageError } from "./exit.ts";
import { putList, putRecord } from "./output.ts";

const MOST = 1_000;

export const listAgents = (call: Call) =>
  withServices(call, async (services) => {
    const lists = await Promise.all(
      (await callersOf(call, services)).map((caller) =>
        services.agents.list(caller, { workspace_id: caller.workspace_id, limit: MOST, offset: 0 }),
      ),
    );
    putList(
      call,
      lists.flatMap((list) => list.items),
      [
        { title: "ID", value: (one) => one.id },
        { title: "NAME", value: (one) => one.name },
        { title: "VISIBILITY", value: (one) => one.visibility },
        { title: "MODEL", value: (one) => one.model ?? "(default)" },
        { title: "TOOLS", value: (one) => one.tools.length + one.sub_agents.length },
        { title: "CHANGED", value: (one) => one.updated_at ?? one.created_at },
      ],
      "no agents yet; make one: errand agents create --name NAME",
    );
  });

/** Acts on the agent that the command names first. */
const onAgent = (
  call: Call,
  act: (caller: Caller, id: string, services: Services) => Promise<void>,
): Promise<void> =>
  withServices(call, (services) =>
    reaching(call, services, (caller) => act(caller, call.args[0]!, services)),
  );

export const showAgent = (call: Call) =>
  onAgent(call, async (caller, id, { agents }) => putRecord(call, await agents.get(caller, id)));

export const createAgent = (call: Call) =>
  withServices(
    call,
    async (services) => {
      const caller = await callerOf(call, services);
      const body = checked(CreateAgent, bodyOf(call));
      putRecord(call, await services.agents.create(caller, { workspace_id: caller.workspace_id }, body));
    },
    { creates: true },
  );

export const updateAgent = (call: Call) =>
  onAgent(call, async (caller, id, { agents }) => {
    const body = checked(UpdateAgent, bodyOf(call));
    if (Object.keys(body).length === 0)
      throw usageError("nothing to change", "give --name, --model, ... or --from");
    putRecord(call, await agents.update(caller, id, body));
  });

export const deleteAgent = (call: Call) =>
  onAgent(call, async (caller, id, { agents }) => {
    await agents.remove(caller, id);
    call.output.words(`deleted ${id}; its conversations stay on record\n`);
  });

export const listAgentVersions = (call: Call) =>
  onAgent(call, async (caller, id, { agents }) => {
    const { items } = await agents.versions(caller, id, { limit: MOST, offset: 0 });
    putList(
      call,
      items,
      [
        { title: "VERSION", value: (one) => one.version },
        { title: "CURRENT", value: (one) => (one.is_current ? "yes" : "") },
        { title: "NAME", value: (one) => one.name },
        { title: "MADE", value: (one) => one.created_at },
      ],
      "no versions",
    );
  });

export const restoreAgentVersion = (call: Call) =>
  onAgent(call, async (caller, id, { agents }) =>
    putRecord(call, await agents.restore(caller, id, call.args[1]!)),
  );

// Of a record as it was read: what nobody sets.
const OWNED = ["id", "workspace_id", "project_id", "created_at", "updated_at"];

/** A request's body from --from (a JSON file, - for standard input) with the single flags over it. */
function bodyOf({ flags }: Call): Record<string, unknown> {
  const from = text(flags, "from");
  const given = from === undefined ? {} : readBody(from);
  return {
    ...Object.fromEntries(Object.entries(given).filter(([field]) => !OWNED.includes(field))),
    ...one("name", text(flags, "name")),
    ...one("description", text(flags, "description")),
    ...one("system_prompt", text(flags, "systemPrompt")),
    ...one("model", text(flags, "model")),
    ...one("visibility", text(flags, "visibility")),
  };
}

const one = (field: string, value: string | undefined) => (value === undefined ? {} : { [field]: value });
