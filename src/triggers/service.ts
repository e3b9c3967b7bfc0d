import type { Agents } from "../agents/service.ts";
import type { Caller } from "../keys/schema.ts";
import { type Clock, iso, isoOrNull } from "../lib/clock.ts";
import { type Fault, forbidden, invalid, notFound } from "../lib/errors.ts";
import { isUuid, newId } from "../lib/ids.ts";
import type { AuthConfigs, Configured } from "./auth-config.ts";
import { templateFaults } from "./message.ts";
import { presentEvent } from "./records.ts";
import {
  type CreateTrigger,
  DEFAULT_MESSAGE,
  type ListTriggerEvents,
  type ListTriggers,
  type NewTrigger,
  type RotateTriggerSecret,
  type Trigger,
  type UpdateTrigger,
  USUAL_OVERLAP_SECONDS,
  USUAL_RESPONSE_CODE,
} from "./schema.ts";
import type { TriggerRow, TriggerStore } from "./store.ts";

const SLICE = 200;

export type Triggers = ReturnType<typeof createTriggers>;

/** The webhook addresses of agents (interface 2.4, 4.3). Throws AppError. */
export function createTriggers(deps: {
  store: TriggerStore;
  agents: Pick<Agents, "inScope">;
  configs: AuthConfigs;
  clock: Clock;
  /** Where others reach the API of this server, without a slash at the end; asked when an address is shown. */
  baseUrl(): string;
}) {
  const { store, agents, configs, clock } = deps;

  /** With `agent_id` it must be that agent's. */
  async function inScope(caller: Caller, id: string, agent_id?: string): Promise<TriggerRow> {
    if (agent_id !== undefined) await agents.inScope(caller, agent_id);
    const row = isUuid(id) ? await store.get(id) : undefined;
    if (!row) throw notFound("trigger", id);
    if (row.project_id !== caller.project_id) throw forbidden("This key cannot reach that trigger.");
    if (agent_id !== undefined && row.agent_id !== agent_id) throw notFound("trigger", id);
    return row;
  }

  /** Read anew each time: a change of other fields at the same moment is merged, not taken back. */
  async function change(
    caller: Caller,
    id: string,
    changed: (row: TriggerRow) => { patch: Partial<TriggerRow>; made?: string },
  ): Promise<NewTrigger> {
    for (;;) {
      const row = await inScope(caller, id);
      const { patch, made } = changed(row);
      const next = { ...row, ...patch, version: row.version + 1, updated_at: clock.now() };
      const updated = await store.update(next);
      if (updated) return withMade(present(updated), made);
    }
  }

  const present = (row: TriggerRow): Trigger => {
    const { previous_until, auth, path, method, response_code, message, conversation_id } = row;
    return {
      id: row.id,
      agent_id: row.agent_id,
      workspace_id: row.workspace_id,
      project_id: row.project_id,
      name: row.name,
      description: row.description,
      trigger_type: "webhook",
      trigger_config: {
        path,
        method: method as Trigger["trigger_config"]["method"],
        auth_config: auth,
        response_code,
      },
      task_config: { message, conversation_id },
      is_active: row.is_active,
      url: `${deps.baseUrl()}/agents/webhook/${path}/trigger`,
      previous_secret_until:
        previous_until !== null && previous_until > clock.now() ? iso(previous_until) : null,
      created_at: iso(row.created_at),
      updated_at: isoOrNull(row.updated_at),
    };
  };

  async function listed(of: Parameters<TriggerStore["list"]>[0], page: ListTriggers) {
    const { items, total } = await store.list(of, page);
    return { items: items.map(present), total, ...page };
  }

  return {
    inScope,

    /** A secret that was made here is in this answer alone; one that was given is in none. */
    async create(caller: Caller, agent_id: string, body: CreateTrigger): Promise<NewTrigger> {
      const agent = await agents.inScope(caller, agent_id);
      const id = newId();
      const { auth_config, method, response_code } = body.trigger_config;
      const { made, ...sealed } = configs.configure(id, auth_config);
      const row: TriggerRow = {
        id,
        agent_id: agent.id,
        workspace_id: agent.workspace_id,
        project_id: agent.project_id,
        name: body.name ?? "Webhook trigger",
        description: body.description ?? "",
        path: crypto.randomUUID(),
        method: method ?? null,
        ...sealed,
        response_code: response_code ?? USUAL_RESPONSE_CODE,
        message: body.task_config?.message ?? DEFAULT_MESSAGE,
        conversation_id: body.task_config?.conversation_id ?? null,
        is_active: body.is_active ?? true,
        version: 1,
        created_at: clock.now(),
        updated_at: null,
      };
      refuse(templateFaults(row));
      if (!(await store.create(row))) throw notFound("agent", agent_id);
      return withMade(present(row), made);
    },

    /** An agent's, oldest first. */
    async list(caller: Caller, agent_id: string, page: ListTriggers) {
      const { id } = await agents.inScope(caller, agent_id);
      return listed({ agent_id: id }, page);
    },

    /** The whole project's. */
    listAll: (caller: Caller, page: ListTriggers) => listed({ project_id: caller.project_id }, page),

    get: async (caller: Caller, id: string): Promise<Trigger> => present(await inScope(caller, id)),

    /** Replaces the fields given; null clears one. A secret that takes the place of another does so at once. */
    update: (caller: Caller, id: string, body: UpdateTrigger): Promise<NewTrigger> =>
      change(caller, id, (row) => {
        const config = body.trigger_config ?? {};
        if (config.path !== undefined && config.path !== row.path) {
          const field = "trigger_config.path";
          throw invalid([{ field, expected: "the path as it is", received: "another" }]);
        }
        const { made, ...sealed }: Partial<Configured> = config.auth_config
          ? configs.configure(row.id, config.auth_config, row)
          : {};
        const patch = { ...patchOf(body), ...sealed };
        refuse(templateFaults({ ...row, ...patch }));
        return { patch, made };
      }),

    /** The new secret counts from now on, the one before it beside it for `overlap_seconds`. */
    rotateSecret: (caller: Caller, id: string, body: RotateTriggerSecret = {}): Promise<NewTrigger> =>
      change(caller, id, (row) => {
        const overlap_ms = (body.overlap_seconds ?? USUAL_OVERLAP_SECONDS) * 1_000;
        const { made, ...patch } = configs.rotate(row, body.secret, overlap_ms);
        return { patch, made };
      }),

    /** With its events; the conversations stay. */
    async remove(caller: Caller, id: string): Promise<void> {
      const { id: own } = await inScope(caller, id);
      if (!(await store.remove(own))) throw notFound("trigger", id);
      while ((await store.forget(own, SLICE)) === SLICE);
    },

    /** Newest first. */
    async events(caller: Caller, agent_id: string | undefined, id: string, page: ListTriggerEvents) {
      const trigger = await inScope(caller, id, agent_id);
      const { items, total } = await store.events(trigger.id, page);
      return { items: items.map(presentEvent), total, limit: page.limit, offset: page.offset };
    },
  };
}

function refuse(faults: Fault[]): void {
  if (faults.length > 0) throw invalid(faults);
}

const withMade = (trigger: Trigger, made: string | undefined): NewTrigger =>
  made === undefined ? trigger : { ...trigger, secret: made };

/** The columns a body sets; what it does not name stays as it is. */
function patchOf({ name, description, is_active, ...body }: UpdateTrigger): Partial<TriggerRow> {
  const patch: Partial<TriggerRow> = {};
  if (name !== undefined) patch.name = name;
  if (description !== undefined) patch.description = description ?? "";
  if (is_active !== undefined) patch.is_active = is_active;
  const { method, response_code } = body.trigger_config ?? {};
  if (method !== undefined) patch.method = method;
  if (response_code !== undefined) patch.response_code = response_code ?? USUAL_RESPONSE_CODE;
  // As a whole null is its defaults.
  const task = body.task_config === null ? { message: null, conversation_id: null } : body.task_config;
  if (task?.message !== undefined) patch.message = task.message ?? DEFAULT_MESSAGE;
  if (task?.conversation_id !== undefined) patch.conversation_id = task.conversation_id;
  return patch;
}
