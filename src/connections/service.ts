import type { Caller } from "../keys/schema.ts";
import { checkScope } from "../keys/scope.ts";
import { type Clock, iso, isoOrNull } from "../lib/clock.ts";
import { conflict, type Fault, forbidden, invalid, notFound } from "../lib/errors.ts";
import { isUuid, newId } from "../lib/ids.ts";
import type { JsonObject } from "../lib/json.ts";
import { json } from "../lib/schema.ts";
import type { Vault } from "../lib/vault.ts";
import type { Connection, CreateConnection, InScope, ListConnections, UpdateConnection } from "./schema.ts";
import type { ConnectionRow, ConnectionStore } from "./store.ts";
import {
  CONNECTION_TYPES,
  type ConnectionType,
  fieldFaults,
  type OpenConnection,
  TYPE_NAMES,
} from "./types.ts";

export type Connections = ReturnType<typeof createConnections>;

const SCHEMAS = Object.fromEntries(TYPE_NAMES.map((type) => [type, json(CONNECTION_TYPES[type].fields)]));
/** Fields that say where the secret is sent. */
const DESTINATIONS = ["host", "port", "security", "hosts", "base_url", "provider"];

const place = (id: string): string => `connections.secret:${id}`;

/**
 * Connections: named credentials of a project for nodes to use. Secrets come in and are sealed; they go out
 * only by `open`, to the request that they are for. Throws AppError.
 */
export function createConnections(deps: { store: ConnectionStore; vault: Vault; clock: Clock }) {
  const { store, vault, clock } = deps;

  async function inScope(caller: Caller, id: string): Promise<ConnectionRow> {
    const row = isUuid(id) ? await store.get(id) : undefined;
    if (!row) throw notFound("connection", id);
    if (row.project_id !== caller.project_id) throw forbidden("This key cannot reach that connection.");
    return row;
  }

  const unsealed = (row: ConnectionRow): JsonObject => JSON.parse(vault.open(row.secret, place(row.id)));

  function sealed(
    id: string,
    type: ConnectionType,
    config: JsonObject,
  ): Pick<ConnectionRow, "settings" | "secret"> {
    const names: string[] = CONNECTION_TYPES[type].secret;
    const part = (isSecret: boolean) =>
      Object.fromEntries(Object.entries(config).filter(([name]) => names.includes(name) === isSecret));
    return { settings: part(false), secret: vault.seal(JSON.stringify(part(true)), place(id)) };
  }

  /** By id or by name, as nodes name it. */
  async function find(project_id: string, ref: string): Promise<ConnectionRow | "foreign" | undefined> {
    const named = await store.byName(project_id, ref);
    if (named || !isUuid(ref)) return named;
    const row = await store.get(ref);
    return row && row.project_id !== project_id ? "foreign" : row;
  }

  return {
    async create(
      caller: Caller,
      scope: InScope,
      { name, type, config }: CreateConnection,
    ): Promise<Connection> {
      checkScope(caller, scope);
      check(type, config);
      const id = newId();
      const row: ConnectionRow = {
        id,
        workspace_id: caller.workspace_id,
        project_id: caller.project_id,
        name,
        type,
        ...sealed(id, type, config as JsonObject),
        created_at: clock.now(),
        updated_at: null,
      };
      if ((await store.create(row)) === "taken") throw taken(name);
      return present(row);
    },

    get: async (caller: Caller, id: string): Promise<Connection> => present(await inScope(caller, id)),

    /** The caller's project, by name. */
    async list(caller: Caller, { workspace_id, project_id, ...page }: ListConnections) {
      checkScope(caller, { workspace_id, project_id });
      const { items, total } = await store.list(caller.project_id, page);
      return { items: items.map(present), total, limit: page.limit, offset: page.offset };
    },

    /**
     * Replaces the fields given. Where the secret is sent changes only together with the secret: who may not
     * read it must not have it sent elsewhere either.
     */
    async update(caller: Caller, id: string, { name, config }: UpdateConnection): Promise<Connection> {
      for (;;) {
        // Read anew each time: a change of other fields at the same moment is merged, not taken back.
        const row = await inScope(caller, id);
        const secret = unsealed(row);
        const before: JsonObject = { ...row.settings, ...secret };
        const after = merged(before, config as JsonObject | undefined);
        check(row.type, after);
        checkDestination(before, after, Object.keys(secret), config);
        const changed = {
          ...row,
          name: name ?? row.name,
          ...sealed(id, row.type, after),
          updated_at: clock.now(),
        };
        const updated = await store.update(changed, row);
        if (updated === "taken") throw taken(changed.name);
        if (updated) return present(updated);
      }
    },

    async remove(caller: Caller, id: string): Promise<void> {
      await inScope(caller, id);
      if (!(await store.remove(id))) throw notFound("connection", id);
    },

    /** With its secrets, for one request of a run of that project; asked anew for each, so a change counts at once. */
    async open(project_id: string, ref: string): Promise<OpenConnection | "foreign" | undefined> {
      const row = await find(project_id, ref);
      if (row === undefined || row === "foreign") return row;
      const { id, name, type, settings } = row;
      return { ...settings, ...unsealed(row), type, id, name } as OpenConnection;
    },

    /** What is wrong with a reference that is about to be stored. Throws `forbidden` for another project's. */
    async referenceFault(
      caller: Caller,
      ref: string,
      types: ConnectionType[],
      field: string,
    ): Promise<Fault | undefined> {
      const row = await find(caller.project_id, ref);
      if (row === "foreign") throw forbidden(`This key cannot reach the connection at ${field}.`);
      if (row === undefined)
        return { field, expected: "a connection of this project", received: "an unknown name or id" };
      if (types.includes(row.type)) return undefined;
      return { field, expected: `a connection of type ${types.join(", ")}`, received: row.type };
    },
  };
}

const taken = (name: string) => conflict(`This project has a connection named ${name} already.`);

function check(type: ConnectionType, config: Record<string, unknown>): void {
  const misshapen = SCHEMAS[type]!.faults(config).map(({ field, ...fault }) => ({
    ...fault,
    field: field ? `config.${field}` : "config",
  }));
  const faults = misshapen.length > 0 ? misshapen : fieldFaults(type, config);
  if (faults.length > 0) throw invalid(faults);
}

function merged(before: JsonObject, config: JsonObject | undefined): JsonObject {
  const after = { ...before };
  for (const [field, value] of Object.entries(config ?? {})) {
    if (value === null) delete after[field];
    else Object.defineProperty(after, field, { value, enumerable: true, writable: true, configurable: true });
  }
  return after;
}

function checkDestination(
  before: JsonObject,
  after: JsonObject,
  secrets: string[],
  given: Record<string, unknown> = {},
): void {
  const moved = DESTINATIONS.find((field) => JSON.stringify(before[field]) !== JSON.stringify(after[field]));
  const kept = secrets.find((field) => given[field] === undefined && after[field] !== undefined);
  if (moved === undefined || kept === undefined) return;
  const expected = `the secret again, as config.${moved} changes where it is sent`;
  throw invalid([{ field: `config.${kept}`, expected, received: "nothing" }]);
}

function present(row: ConnectionRow): Connection {
  const { id, workspace_id, project_id, name, type, settings, created_at, updated_at } = row;
  const owner = { id, workspace_id, project_id };
  return {
    ...owner,
    name,
    type,
    config: settings,
    created_at: iso(created_at),
    updated_at: isoOrNull(updated_at),
  };
}
