import { CreateConnection, UpdateConnection } from "../connections/schema.ts";
import type { Caller } from "../keys/schema.ts";
import type { Services } from "../services.ts";
import { checked, readBody } from "./body.ts";
import { type Call, callerOf, callersOf, reaching, text, withServices } from "./command.ts";
import { EXIT, ExitError, usageError } from "./exit.ts";
import { putList, putRecord } from "./output.ts";

const MOST = 1_000;

async function all(call: Call, services: Services) {
  const lists = await Promise.all(
    (await callersOf(call, services)).map((caller) =>
      services.connections.list(caller, { limit: MOST, offset: 0 }),
    ),
  );
  return lists.flatMap((list) => list.items);
}

/** Does something with the connection that the first argument names, by id or as nodes do, by name. */
async function withOne<T>(
  call: Call,
  services: Services,
  act: (caller: Caller, id: string) => Promise<T>,
): Promise<T> {
  const ref = call.args[0]!;
  const named = (await all(call, services)).filter((one) => one.name === ref);
  if (named.length > 1) {
    throw new ExitError(
      EXIT.refused,
      `${named.length} connections are named ${ref}`,
      "give its id, or --project",
    );
  }
  return reaching(call, services, (caller) => act(caller, named[0]?.id ?? ref));
}

export const listConnections = (call: Call) =>
  withServices(call, async (services) => {
    putList(
      call,
      await all(call, services),
      [
        { title: "NAME", value: (one) => one.name },
        { title: "TYPE", value: (one) => one.type },
        { title: "HOLDS", value: (one) => shownConfig(one.config) },
        { title: "ID", value: (one) => one.id },
      ],
      "no connections yet; make one: errand connections create --name NAME --type TYPE --from FILE",
    );
  });

export const createConnection = (call: Call) =>
  withServices(call, async (services) => {
    const given = {
      name: text(call.flags, "name"),
      type: text(call.flags, "type"),
      config: configOf(call) ?? {},
    };
    const body = checked(CreateConnection, given);
    putRecord(call, await services.connections.create(await callerOf(call, services), {}, body));
  });

export const showConnection = (call: Call) =>
  withServices(call, async (services) =>
    putRecord(call, await withOne(call, services, services.connections.get)),
  );

export const updateConnection = (call: Call) =>
  withServices(call, async (services) => {
    const body = checked(UpdateConnection, { name: text(call.flags, "name"), config: configOf(call) });
    if (Object.keys(body).length === 0) throw usageError("nothing to change", "give --name or --from");
    putRecord(
      call,
      await withOne(call, services, (caller, id) => services.connections.update(caller, id, body)),
    );
  });

export const deleteConnection = (call: Call) =>
  withServices(call, async (services) => {
    await withOne(call, services, services.connections.remove);
    call.output.words(`deleted ${call.args[0]}; steps that name it fail from now on\n`);
  });

// By file or standard input alone: a command line is readable by every user of a machine.
function configOf({ flags }: Call): Record<string, unknown> | undefined {
  const from = text(flags, "from");
  return from === undefined ? undefined : readBody(from);
}

const shownConfig = (config: Record<string, unknown>): string =>
  Object.entries(config)
    .map(([name, value]) => `${name}=${Array.isArray(value) ? value.join(",") : value}`)
    .join(" ");
