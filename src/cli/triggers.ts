import { readFileSync } from "node:fs";
import type { Caller } from "../keys/schema.ts";
import { isObject } from "../lib/json.ts";
import type { Services } from "../services.ts";
import { AUTHENTICATIONS } from "../triggers/authentication/index.ts";
import {
  CreateTrigger,
  ListTriggerEvents,
  type NewTrigger,
  RotateTriggerSecret,
  type Trigger,
  UpdateTrigger,
} from "../triggers/schema.ts";
import { checked, readBody } from "./body.ts";
import { type Call, callersOf, reaching, text, withServices } from "./command.ts";
import { usageError } from "./exit.ts";
import { putJson, putList, putRecord } from "./output.ts";

const MOST = 1_000;

export const listTriggers = (call: Call) =>
  withServices(call, async (services) => {
    const { triggers } = services;
    const page = { limit: MOST, offset: 0 };
    const agent = text(call.flags, "agent");
    const lists =
      agent === undefined
        ? await Promise.all((await callersOf(call, services)).map((caller) => triggers.listAll(caller, page)))
        : [await reaching(call, services, (caller) => triggers.list(caller, agent, page))];
    putList(
      call,
      lists.flatMap(({ items }) => items),
      [
        { title: "ID", value: (one) => one.id },
        { title: "NAME", value: (one) => one.name },
        { title: "AGENT", value: (one) => one.agent_id },
        { title: "SENDER", value: (one) => one.trigger_config.auth_config.type },
        { title: "ACTIVE", value: (one) => (one.is_active ? "yes" : "no") },
        { title: "ADDRESS", value: (one) => one.url },
      ],
      "no triggers yet; make one: errand triggers create AGENT --auth TYPE",
    );
  });

/** Acts on what the command names first. */
const onFirst = <T>(
  call: Call,
  act: (caller: Caller, id: string, services: Services) => Promise<T>,
): Promise<T> =>
  withServices(call, (services) =>
    reaching(call, services, (caller) => act(caller, call.args[0]!, services)),
  );

export const showTrigger = (call: Call) =>
  onFirst(call, async (caller, id, { triggers }) => putTrigger(call, await triggers.get(caller, id)));

export const createTrigger = (call: Call) =>
  onFirst(call, async (caller, agent_id, { triggers }) => {
    const body = checked(CreateTrigger, bodyOf(call));
    putNew(call, await triggers.create(caller, agent_id, body));
  });

export const updateTrigger = (call: Call) =>
  onFirst(call, async (caller, id, { triggers }) => {
    const given = bodyOf(call);
    if (Object.keys(given).length === 0)
      throw usageError("nothing to change", "give --name, --message, ... or --from");
    putNew(call, await triggers.update(caller, id, checked(UpdateTrigger, given)));
  });

export const deleteTrigger = (call: Call) =>
  onFirst(call, async (caller, id, { triggers }) => {
    await triggers.remove(caller, id);
    call.output.words(`deleted ${id}; its address opens nothing any more\n`);
  });

export const rotateTriggerSecret = (call: Call) =>
  onFirst(call, async (caller, id, { triggers }) => {
    const seconds = text(call.flags, "overlapSeconds");
    const body = checked(RotateTriggerSecret, {
      secret: secretOf(call),
      overlap_seconds: seconds === undefined ? undefined : Number(seconds),
    });
    const rotated = await triggers.rotateSecret(caller, id, body);
    putNew(call, rotated);
    const until = rotated.previous_secret_until;
    call.output.words(until ? `The old secret counts until ${until}.\n` : "The old secret counts no more.\n");
  });

export const listTriggerEvents = (call: Call) =>
  onFirst(call, async (caller, id, { triggers }) => {
    const { limit = "50", status } = call.flags;
    const asked = checked(ListTriggerEvents, { limit, status });
    putList(
      call,
      (await triggers.events(caller, undefined, id, asked)).items,
      [
        { title: "ID", value: (one) => one.id },
        { title: "WHEN", value: (one) => one.created_at },
        { title: "METHOD", value: (one) => one.request.method },
        { title: "STATUS", value: (one) => one.status },
        { title: "ANSWERED", value: (one) => one.response.status },
        { title: "CONVERSATION", value: (one) => one.conversation_id },
        { title: "WHY", value: (one) => one.error?.message ?? null },
      ],
      "nothing has called it yet",
    );
  });

export const redeliverTriggerEvent = (call: Call) =>
  onFirst(call, async (caller, id, { triggerCalls }) => {
    const { body } = await triggerCalls.redeliver(caller, undefined, id, call.args[1]!, { hop: 0 });
    if (call.flags["json"]) return putJson(call.output, body);
    const { id: event, status, execution_id, conversation_id, redelivery_of } = body;
    putRecord(call, { id: event, status, execution_id, conversation_id, redelivery_of });
  });

function putNew(call: Call, { secret, ...trigger }: NewTrigger): void {
  putTrigger(call, secret === undefined ? trigger : { ...trigger, secret });
  if (secret !== undefined) call.output.words("This is the only time the secret is shown.\n");
}

function putTrigger(call: Call, trigger: Trigger & { secret?: string }): void {
  if (call.flags["json"]) {
    putJson(call.output, trigger);
    return;
  }
  const { trigger_config, task_config, url, secret, workspace_id: _, project_id: __, ...record } = trigger;
  const { method, auth_config, response_code } = trigger_config;
  putRecord(call, {
    ...record,
    url,
    method: method ?? "any",
    auth: Object.entries(auth_config)
      .map(([name, value]) => (name === "type" ? value : `${name}=${value}`))
      .join(" "),
    response_code,
    message: task_config.message,
    conversation: task_config.conversation_id ?? "a new one each time",
    ...(secret === undefined ? {} : { secret }),
  });
}

// Of a record as it was read: what nobody sets.
const OWNED = [
  ...["id", "agent_id", "workspace_id", "project_id", "url", "previous_secret_until"],
  ...["created_at", "updated_at", "secret"],
];

/** A request's body from --from (a JSON file, - for standard input) with the single flags over it. */
function bodyOf(call: Call): Record<string, unknown> {
  const { flags } = call;
  const from = text(flags, "from");
  const file = from === undefined ? {} : readBody(from);
  const given = Object.fromEntries(Object.entries(file).filter(([field]) => !OWNED.includes(field)));
  const method = text(flags, "method");
  const code = text(flags, "responseCode");
  const conversation = text(flags, "conversationId");
  const trigger_config = {
    ...below(given["trigger_config"]),
    ...one("method", method === "any" ? null : method?.toUpperCase()),
    ...one("response_code", code === undefined ? undefined : Number(code)),
    ...one("auth_config", authOf(call, below(below(given["trigger_config"])["auth_config"]))),
  };
  const task_config = {
    ...below(given["task_config"]),
    ...one("message", text(flags, "message")),
    ...one("conversation_id", conversation === "" ? null : conversation),
  };
  return {
    ...given,
    ...one("name", text(flags, "name")),
    ...one("description", text(flags, "description")),
    ...one("is_active", activeOf(call)),
    ...(Object.keys(trigger_config).length > 0 ? { trigger_config } : {}),
    ...(Object.keys(task_config).length > 0 ? { task_config } : {}),
  };
}

function authOf(call: Call, given: Record<string, unknown>): Record<string, unknown> | undefined {
  const type = text(call.flags, "auth") ?? given["type"];
  const secret = secretOf(call);
  if (type === undefined) {
    if (secret === undefined) return undefined;
    throw usageError(
      "--secret-from without --auth",
      "say which --auth, or use errand triggers rotate-secret",
    );
  }
  const field = AUTHENTICATIONS.get(String(type))?.secret;
  if (secret !== undefined && field === undefined)
    throw usageError(`--auth ${type} has no secret`, "leave --secret-from out, or choose another type");
  return { ...given, type, ...(secret === undefined ? {} : { [field!]: secret }) };
}

// By file or standard input alone: a command line is readable by every user of a machine.
function secretOf({ flags }: Call): string | undefined {
  const from = text(flags, "secretFrom");
  if (from === undefined) return undefined;
  try {
    return readFileSync(from === "-" ? 0 : from, "utf8").replace(/\r?\n$/, "");
  } catch (error) {
    throw usageError(`--secret-from ${from}: ${(error as Error).message}`);
  }
}

function activeOf({ flags }: Call): boolean | undefined {
  const given = text(flags, "active");
  if (given === undefined) return undefined;
  if (given === "yes" || given === "no") return given === "yes";
  throw usageError(`--active ${given}: expected yes or no`);
}

const below = (value: unknown): Record<string, unknown> => (isObject(value) ? value : {});
const one = (field: string, value: unknown) => (value === undefined ? {} : { [field]: value });
