import { existsSync, readFileSync } from "node:fs";
import { ReplayExecution, StartExecution } from "../executions/schema.ts";
import type { StartAnswer } from "../executions/start.ts";
import type { Caller } from "../keys/schema.ts";
import type { JsonObject } from "../lib/json.ts";
import type { Services } from "../services.ts";
import { DEFAULT_NAME } from "../workflows/defaults.ts";
import { UpdateWorkflow } from "../workflows/schema.ts";
import { checked, readBody } from "./body.ts";
import { type Call, callerOf, reaching, text, withRunner } from "./command.ts";
import { EXIT, usageError } from "./exit.ts";
import { follow, hasEnded } from "./follow.ts";
import { putJson } from "./output.ts";
import { contentOf, make, storedId, versionOf } from "./workflows.ts";

/** Runs a stored workflow or a file. The output is the data; everything else is words. */
export async function runWorkflow(call: Call): Promise<number> {
  const target = call.args[0]!;
  const input_data = inputOf(call);
  const file = existsSync(target) ? readBody(target) : undefined;
  const id = file ? undefined : storedId(target);
  return withRunner(call, async (services, isServed) => {
    const [caller, workflow_id] =
      file === undefined ? await reach(call, services, id!) : await save(call, services, file);
    const body = checked(StartExecution, {
      input_data,
      trigger_source: "command line",
      version: versionOf(call) ?? (file ? "draft" : undefined),
    });
    const answer = await services.executions.startByKey(caller, workflow_id, body, { hop: 0 });
    return outcomeOf(call, services, { caller, isServed, execution_id: String(answer.body["execution_id"]) });
  });
}

type Started = { caller: Caller; isServed: boolean; execution_id: string };

/** Beside a server what takes long may be left to it; else the run is waited for, and its output is the data. */
async function outcomeOf(
  call: Call,
  services: Services,
  { caller, isServed, execution_id }: Started,
): Promise<number> {
  if (isServed && !call.flags["follow"]) {
    const execution = await services.executions.get(caller, execution_id);
    // What is quick has run already, in the commit that accepted it.
    if (!hasEnded(execution)) {
      if (call.flags["json"]) putJson(call.output, execution);
      else call.output.data(`${execution_id}\n`);
      call.output.words(`queued; see how it goes: errand runs logs ${execution_id} --follow\n`);
      return EXIT.ok;
    }
  }
  const ended = await follow(call, services, caller, execution_id, { quiet: !call.flags["follow"] });
  putJson(call.output, call.flags["json"] ? ended : ended.output_data);
  return ended.status === "success" ? EXIT.ok : EXIT.failed;
}

/** Starts a new run out of an old one, and tells how it went as any other. */
const again = (
  call: Call,
  start: (services: Services, caller: Caller) => Promise<StartAnswer>,
): Promise<number> =>
  withRunner(call, (services, isServed) =>
    reaching(call, services, async (caller) => {
      const { body } = await start(services, caller);
      return outcomeOf(call, services, { caller, isServed, execution_id: String(body["execution_id"]) });
    }),
  );

export const retryRun = (call: Call): Promise<number> =>
  again(call, ({ executions }, caller) =>
    executions.retry(caller, call.args[0]!, text(call.flags, "fromNode"), { hop: 0 }),
  );

export function replayRun(call: Call): Promise<number> {
  const given = text(call.flags, "input") === undefined ? {} : { input_data: inputOf(call) };
  const { input_data } = checked(ReplayExecution, given);
  return again(call, ({ executions }, caller) =>
    executions.replay(caller, call.args[0]!, input_data as JsonObject | undefined, { hop: 0 }),
  );
}

const reach = (call: Call, services: Services, id: string): Promise<[Caller, string]> =>
  reaching(call, services, async (caller) => {
    await services.workflows.get(caller, id);
    return [caller, id];
  });

/**
 * A file is run as the draft of a workflow: of the one whose id it holds, else of the one that the command
 * line made before under the same name, else of a new one. So an edit and another run leave one workflow.
 */
async function save(
  call: Call,
  services: Services,
  file: Record<string, unknown>,
): Promise<[Caller, string]> {
  const { id, body } = contentOf(file);
  const { workflows } = services;
  const update = async (caller: Caller, known: string): Promise<[Caller, string]> => {
    // The whole program: what is not in the file any more must not run any more either.
    const whole = { input_schema: {}, nodes: [], output_mapping: {}, ...body };
    await workflows.update(caller, known, checked(UpdateWorkflow, whole));
    return [caller, known];
  };
  if (id !== undefined) return reaching(call, services, (caller) => update(caller, id));
  const caller = await callerOf(call, services);
  const { workspace_id, key_id } = caller;
  const name = String(body["name"] ?? DEFAULT_NAME);
  const { items } = await workflows.list(caller, {
    workspace_id,
    limit: 1_000,
    offset: 0,
    search_query: name.slice(0, 100),
  });
  const known = items.find((one) => one.name === name && one.user_id === key_id);
  if (known) return update(caller, known.id);
  const made = await make(services, caller, file);
  call.output.words(`made the workflow ${made.id}; it stays, for the next run of this file\n`);
  return [caller, made.id];
}

/** `--input`: JSON, @FILE or - for standard input. */
function inputOf({ flags }: Call): unknown {
  const given = text(flags, "input");
  if (given === undefined) return {};
  try {
    if (given === "-") return JSON.parse(readFileSync(0, "utf8"));
    return JSON.parse(given.startsWith("@") ? readFileSync(given.slice(1), "utf8") : given);
  } catch (error) {
    throw usageError(`--input: ${(error as Error).message}`);
  }
}
